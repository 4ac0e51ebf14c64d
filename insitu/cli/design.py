"""`insitu design`: the fewest runs that show how a program scales."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import click
import numpy as np

from insitu.campaign.iterations import iteration_times
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.cli.output import json_option, print_json
from insitu.design.checks import HiddenInteraction, MeasuredPoints, find_hidden_interactions
from insitu.design.deduce import Pairing, Rule, deduce_design
from insitu.design.dependencies import Structure, at_callpaths
from insitu.design.dependency_file import load_structure, parse_derived
from insitu.design.factorial import ExperimentDesign, Levels, Point, full_factorial, sparse_design
from insitu.design.laws import NOISE
from insitu.design.levels import parse_levels
from insitu.design.mainloop import LoopVerdict, iterations_for, judge_runs
from insitu.design.measured_runs import MeasuredRuns, collect_measured_runs
from insitu.entities import TIME_EXCLUSIVE, VISITS, Finding, number
from insitu.errors import UsageError

CROWDED = Finding(
    "ranks-crowded",
    "more ranks than processor cores: times tell who had to wait, so only how often call paths are"
    " called is compared",
)
Method = Literal["deduced", "full", "sparse"]


@click.command(name="design")
@click.argument("dependencies", type=click.Path(), metavar="DEPENDENCIES.json")
@click.option(
    "--levels",
    "levels",
    multiple=True,
    required=True,
    metavar="NAME=VALUES",
    help="The values of a parameter, as in n=32,64,96 or p=8..128:5; may be repeated.",
)
@click.option(
    "--derived",
    multiple=True,
    metavar="NAME=PRODUCT",
    help="A parameter that follows from others, as in spacing=vol/cubes.",
)
@click.option(
    "--method",
    type=click.Choice(["deduced", "full", "sparse"]),
    default="deduced",
    show_default=True,
    help="full and sparse are the classical designs, to compare.",
)
@click.option(
    "--rule",
    type=click.Choice(["additive", "paper"]),
    default="additive",
    show_default=True,
    help="paper: a full grid over all parameters of a call path, even those that add up.",
)
@click.option(
    "--pairing",
    type=click.Choice(["ascending", "cheapest", "mixed"]),
    default="ascending",
    show_default=True,
    help="Of parameters that move together.",
)
@click.option(
    "--variation",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="CV",
    help="Coefficient of variation of the main loop's iterations; tells how many a run needs.",
)
@click.option(
    "--compare",
    type=click.Path(),
    metavar="CAMPAIGN",
    help="Compare its check points with its other runs, and allow for what they show.",
)
@click.option(
    "-o", "--output", type=click.Path(), help="Keep the dependencies, with what --compare showed."
)
@json_option
def command(
    *,
    dependencies: str,
    levels: tuple[str, ...],
    derived: tuple[str, ...],
    method: Method,
    rule: Rule,
    pairing: Pairing,
    variation: float,
    compare: str | None,
    output: str | None,
    is_json: bool,
) -> None:
    """Say which configurations to run, the cheapest first.

    DEPENDENCIES.json is what `insitu detect` found, or the profile of a taint analysis: which call
    path depends on which parameter. What does not meet in a call path is varied together, what acts
    through the main loop not at all. At the check points, what is varied together moves apart: run
    them too, and --compare says where parameters act together though no count shows it.
    """
    chosen: dict[str, tuple[float, ...]] = {}
    for text in levels:
        name, values = parse_levels(text)
        if name in chosen:
            raise UsageError(f"--levels {text}: '{name}' stands there twice")
        chosen[name] = values
    structure = _read(dependencies, derived)

    loop = None if compare is None or not structure.iteration else _loop(compare)
    iterations = max(iterations_for(variation), loop.iterations if loop else 0)

    def designed(structure: Structure) -> ExperimentDesign:
        return _design(
            structure, chosen, method=method, rule=rule, pairing=pairing, iterations=iterations
        )

    design = designed(structure)
    if compare is not None:
        if loop is not None:
            _say_loop(loop, structure.iteration, is_json=is_json)
        if design.checks or loop is None:
            hidden, is_counted = _compared(structure, design, compare, loop.noise if loop else 0.0)
            _say_hidden(hidden, is_counted=is_counted, is_json=is_json)
            structure = _with(structure, hidden)
            design = designed(structure)
    if output is not None:
        with open(output, "w", encoding="utf-8") as file:
            file.write(structure.to_json() + "\n")
    if is_json:
        print_json(_row(point, design, is_check=False) for point in design.points)
        print_json(_row(point, design, is_check=True) for point in design.checks)
        return
    _print(design)


def _read(path: str, derived: tuple[str, ...]) -> Structure:
    structure = load_structure(path)
    if not derived:
        return structure
    more = tuple(map(parse_derived, derived))
    names = {name for name, _ in more}
    return Structure(
        tuple(name for name in structure.parameters if name not in names),
        structure.dependencies,
        (*structure.derived, *more),
        structure.iteration,
        structure.ranks,
    )


def _loop(campaign: str) -> LoopVerdict | None:
    """Whether the main loop is linear, by the iterations that were timed."""
    with open_store(campaign) as store:
        return judge_runs(list(map(iteration_times, store.runs())))


def _say_loop(loop: LoopVerdict, parameter: str, *, is_json: bool) -> None:
    note = Finding("iterations-drift", loop.reason, parameter)
    if is_json and not loop.is_linear:
        print_json([{"finding": note.code, "parameter": note.where, "text": note.text}])
    elif not is_json:
        click.echo(
            f"main loop over {parameter}: {loop.reason}"
            if loop.is_linear
            else f"{note.code}: {note.where}: {note.text}; vary it as well"
        )


def _compared(
    structure: Structure, design: ExperimentDesign, campaign: str, noise: float
) -> tuple[list[HiddenInteraction], bool]:
    """What the check points of the design show, as far as they were run; whether by counts.

    A run's noise is what iterations of the main loop or repetitions say, whichever is more. Where
    ranks shared processor cores, times tell who had to wait, and how often call paths are called
    is compared instead.
    """
    if not design.checks:
        raise UsageError("this design needs no check points: nothing is varied together in it")
    names = tuple(name for name, _ in design.points[0].values)
    with open_store(campaign) as store:
        experiment = load_experiment(store)
    is_counted = bool(experiment.crowded)
    metric = VISITS if is_counted else TIME_EXCLUSIVE
    known = collect_measured_runs(experiment, names, metric.name)
    checks = {tuple(value for _, value in point.values) for point in design.checks}
    is_check = np.array([tuple(map(float, row)) in checks for row in known.points], dtype=bool)
    if not is_check.any() or is_check.all():
        wanted = "; ".join(map(str, design.checks if not is_check.any() else design.points))
        raise UsageError(f"{campaign}: nothing to compare yet; run {wanted}")
    found = at_callpaths(structure, known.callpaths)
    rows = [i for i, path in enumerate(known.callpaths) if path in found]
    if not rows:
        raise UsageError(
            f"{campaign}: none of its call paths is in the dependencies; detect the same program"
        )
    hidden = find_hidden_interactions(
        _timed(known, rows, ~is_check),
        _timed(known, rows, is_check),
        names,
        [found[known.callpaths[i]] for i in rows],
        design.confounded,
        noise=0.0 if is_counted else max(NOISE, noise, known.noise),
    )
    return hidden, is_counted


def _timed(known: MeasuredRuns, rows: Sequence[int], chosen: np.ndarray) -> MeasuredPoints:
    return MeasuredPoints(known.points[chosen], known.values[list(rows)][:, chosen])


def _with(structure: Structure, hidden: Sequence[HiddenInteraction]) -> Structure:
    """The same with the pairs allowed that check points showed."""
    found = {one.callpath: one.dependency for one in hidden}
    dependencies = [
        replace(one, nests=tuple(dict.fromkeys((*one.nests, *of.nests))))
        if (of := found.pop(one.callpath, None))
        else one
        for one in structure.dependencies
    ]
    return replace(structure, dependencies=(*dependencies, *found.values()))


def _say_hidden(hidden: Sequence[HiddenInteraction], *, is_counted: bool, is_json: bool) -> None:
    notes = [one.finding(is_counted=is_counted) for one in hidden]
    if is_json:
        print_json([{"finding": CROWDED.code, "text": CROWDED.text}] * is_counted)
        print_json(
            {"finding": note.code, "callpath": note.where, "pair": one.pair, "text": note.text}
            for one, note in zip(hidden, notes, strict=True)
        )
        return
    if is_counted:
        click.echo(f"{CROWDED.code}: {CROWDED.text}")
    for note in notes:
        click.echo(f"{note.code}: {note.where} {note.text}")
    if not hidden:
        click.echo("check points agree with what was measured elsewhere")
    click.echo()


def _design(
    structure: Structure,
    levels: Levels,
    *,
    method: Method,
    rule: Rule,
    pairing: Pairing,
    iterations: int,
) -> ExperimentDesign:
    if method == "full":
        return full_factorial(levels)
    if method == "sparse":
        return sparse_design(levels)
    return deduce_design(structure, levels, rule=rule, pairing=pairing, iterations=iterations)


def _row(point: Point, design: ExperimentDesign, *, is_check: bool) -> dict[str, object]:
    return {
        "params": dict(point.values),
        "repetitions": design.repetitions,
        "iterations": design.iterations or None,
        "check": is_check,
    }


def _print(design: ExperimentDesign) -> None:
    names = [name for name, _ in design.points[0].values]
    cells = [[number(value) for _, value in point.values] for point in design.points]
    checks = [[number(value) for _, value in point.values] for point in design.checks]
    widths = [max(len(row[i]) for row in (names, *cells, *checks)) for i in range(len(names))]

    def line(row: list[str]) -> str:
        return "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))

    click.secho(line(names), dim=True)
    for row in cells:
        click.echo(line(row))
    for row in checks:
        click.echo(f"{line(row)}  check: what moved together moves apart")
    times = "once" if design.repetitions == 1 else f"{design.repetitions} times"
    loop = f", with {design.iterations} iterations or more" if design.iterations else ""
    click.echo(
        f"\n{len(design.points)} configurations, each {times}{loop}: {design.runs} runs instead of"
        f" {design.full_runs}"
    )
    for text in design.insights:
        click.echo(f"- {text}")
