"""Experiment designs: the fewest runs that show how a program scales.

from insitu.workflows.design import DesignOptions, compare_check_points, make_design

structure = load_dependencies("dependencies.json")
design = make_design(structure, {"p": (2, 4, 8), "n": (100, 200, 400)}, DesignOptions())
comparison = compare_check_points(structure, design, "heat.insitu")
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from insitu.campaign.iterations import iteration_times
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.design.checks import HiddenInteraction, MeasuredPoints, find_hidden_interactions
from insitu.design.deduce import Pairing, Rule, deduce_design
from insitu.design.dependencies import Structure, at_callpaths
from insitu.design.dependency_file import load_structure
from insitu.design.factorial import ExperimentDesign, Levels, full_factorial, sparse_design
from insitu.design.laws import NOISE
from insitu.design.mainloop import MIN_ITERATIONS, LoopVerdict, judge_runs
from insitu.design.measured_runs import MeasuredRuns, collect_measured_runs
from insitu.entities import TIME_EXCLUSIVE, VISITS
from insitu.errors import UsageError

Method = Literal["deduced", "full", "sparse"]


@dataclass(frozen=True, slots=True)
class DesignOptions:
    """How to choose the runs of a design.

    Attributes:
        method: "deduced" from the dependencies; "full" and "sparse" are the classical designs.
        rule: of deduced designs, see `deduce_design`.
        pairing: order of parameters that move together, see `deduce_design`.
        iterations: of the main loop that each run should have at least.
    """

    method: Method = "deduced"
    rule: Rule = "additive"
    pairing: Pairing = "ascending"
    iterations: int = MIN_ITERATIONS


DEFAULT_OPTIONS = DesignOptions()


@dataclass(frozen=True, slots=True)
class CheckPointComparison:
    """The interactions that the check points of a design show.

    is_counted: numbers of calls were compared instead of times, since ranks shared processor cores.
    """

    interactions: tuple[HiddenInteraction, ...]
    is_counted: bool


def load_dependencies(
    path: str,
    derived: Sequence[tuple[str, tuple[tuple[str, Fraction], ...]]] = (),
    iteration: str = "",
) -> Structure:
    """Read the dependencies of a program, and declare some of its parameters as dependent.

    Args:
        path: a file of `insitu detect`, or the profile of a taint analysis.
        derived: name and powers of each dependent parameter, see `parse_derived`.
        iteration: the number of iterations of the main loop, "" for the one that the file names.

    Raises:
        UsageError: the file cannot be read, has another form, or has no parameter `iteration`.
    """
    structure = load_structure(path)
    if iteration and iteration not in structure.parameters:
        raise UsageError(
            f"{path}: no parameter '{iteration}'; there are {', '.join(structure.parameters)}"
        )
    names = {name for name, _ in derived}
    return replace(
        structure,
        parameters=tuple(name for name in structure.parameters if name not in names),
        derived=(*structure.derived, *derived),
        iteration=iteration or structure.iteration,
    )


def make_design(
    structure: Structure, levels: Levels, options: DesignOptions = DEFAULT_OPTIONS
) -> ExperimentDesign:
    """Return the configurations to run, the cheapest first.

    Args:
        structure: which call path depends on what.
        levels: values by parameter.
        options: how to choose among the combinations of levels.

    Raises:
        UsageError: levels and parameters do not agree, or there are too many combinations.
    """
    if options.method == "full":
        return full_factorial(levels)
    if options.method == "sparse":
        return sparse_design(levels)

    return deduce_design(
        structure,
        levels,
        rule=options.rule,
        pairing=options.pairing,
        iterations=options.iterations,
    )


def judge_main_loop(campaign: str) -> LoopVerdict | None:
    """Return whether the main loop is linear, from the timed iterations of all runs.

    The result is None if no run has timed iterations.

    Raises:
        CampaignError: the campaign cannot be read.
    """
    with open_store(campaign) as store:
        return judge_runs([iteration_times(run) for run in store.runs()])


def compare_check_points(
    structure: Structure, design: ExperimentDesign, campaign: str, *, noise: float = 0.0
) -> CheckPointComparison:
    """Compare the measured check points of a design with what its other runs predict.

    The noise of a run is estimated from the iterations of the main loop or from repetitions,
    whichever is larger. If ranks shared processor cores, times depend on which rank had to wait,
    so the numbers of calls are compared instead.

    Args:
        structure: which call path depends on what.
        design: deduced from `structure`.
        campaign: directory of the campaign with the runs.
        noise: relative, of a run, from the iterations of the main loop; 0 if unknown.

    Raises:
        UsageError: the design has no check points, the campaign lacks check points or other runs,
            or it was measured with another program.
        CampaignError: the campaign cannot be read.
    """
    if not design.checks:
        raise UsageError("this design has no check points, since it varies nothing together")
    names = tuple(name for name, _ in design.points[0].values)

    with open_store(campaign) as store:
        experiment = load_experiment(store)

    is_counted = bool(experiment.crowded_runs())
    metric = VISITS if is_counted else TIME_EXCLUSIVE
    measured = collect_measured_runs(experiment, names, metric.name)
    is_check = _check_mask(measured, design, campaign)

    dependencies = at_callpaths(structure, measured.callpaths)
    rows = [row for row, path in enumerate(measured.callpaths) if path in dependencies]
    if not rows:
        raise UsageError(
            f"{campaign}: none of its call paths is in the dependencies; run `insitu detect` on"
            " the same program"
        )

    interactions = find_hidden_interactions(
        _select(measured, rows, ~is_check),
        _select(measured, rows, is_check),
        names,
        dependencies=[dependencies[measured.callpaths[row]] for row in rows],
        confounded=design.confounded,
        noise=0.0 if is_counted else max(NOISE, noise, measured.noise),
    )
    return CheckPointComparison(tuple(interactions), is_counted)


def add_interactions(structure: Structure, interactions: Iterable[HiddenInteraction]) -> Structure:
    """Add the pairs of parameters that check points showed to the dependencies."""
    added = {interaction.callpath: interaction.dependency for interaction in interactions}

    dependencies = []
    for dependency in structure.dependencies:
        extended = added.pop(dependency.callpath, dependency)
        nests = tuple(dict.fromkeys((*dependency.nests, *extended.nests)))
        dependencies.append(replace(dependency, nests=nests))
    return replace(structure, dependencies=(*dependencies, *added.values()))


def write_dependencies(structure: Structure, path: str) -> None:
    """Write the dependencies in the format of `insitu detect`.

    Raises:
        OSError: the file cannot be written.
    """
    with open(path, "w", encoding="utf-8") as file:
        file.write(structure.to_json() + "\n")


def _check_mask(
    measured: MeasuredRuns, design: ExperimentDesign, campaign: str
) -> NDArray[np.bool_]:
    """Return which measured points are check points: (n_points,)."""
    checks = {tuple(value for _, value in point.values) for point in design.checks}
    is_check = np.array([tuple(map(float, row)) in checks for row in measured.points], dtype=bool)

    missing = design.checks if not is_check.any() else design.points if is_check.all() else ()
    if missing:
        raise UsageError(f"{campaign}: nothing to compare yet; run {'; '.join(map(str, missing))}")
    return is_check


def _select(
    measured: MeasuredRuns, rows: Sequence[int], is_selected: NDArray[np.bool_]
) -> MeasuredPoints:
    values = measured.values[list(rows)][:, is_selected]
    return MeasuredPoints(measured.points[is_selected], values)
