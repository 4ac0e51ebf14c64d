"""Proposing the runs that lower the uncertainty of a prediction most for their cost."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.questions import select_questionable
from insitu.analysis.predict import Point, coordinate_of
from insitu.analysis.whole_program import predict_run_time
from insitu.campaign.config import find_dependencies_file, load_config, load_settings
from insitu.campaign.layout import DATABASE
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.design.campaign_plan import GOAL
from insitu.design.class_coverage import find_class_gaps, propose_class_runs
from insitu.design.dependencies import Dependency, at_callpaths
from insitu.design.dependency_file import load_structure
from insitu.design.factorial import Levels
from insitu.design.factorial import Point as FactorialPoint
from insitu.design.levels import parse_levels
from insitu.design.mainloop import Z95
from insitu.design.measured_runs import MeasuredRuns, collect_measured_runs
from insitu.design.proposals import (
    LEAST_RUNS,
    Proposal,
    Proposals,
    default_levels,
    propose_runs,
)
from insitu.entities import RANKS
from insitu.errors import UsageError
from insitu.modeling.base import ModelSet
from insitu.modeling.deciding_runs import find_deciding_runs
from insitu.modeling.measurement import Experiment
from insitu.modeling.target import default_target, points_along

REPORTED_RUNS = 3  # proposals in a report


def advise_runs(
    campaign: str,
    *,
    at: Point | None = None,
    levels: Levels | None = None,
    dependencies: str | None = None,
    goal: float = GOAL,
    count: int = 1,
) -> Proposals:
    """Propose the next runs of a campaign.

    The first proposals differ from each other in all parameters. Then each proposal is the run that
    lowers the uncertainty of the prediction most for its core hours, until the goal is reached.

    Args:
        campaign: directory of the campaign; it need not exist if `at` and `levels` are given.
        at: the point to predict; default: `target` of campaign.toml, else 64 times the largest
            number of ranks, at most 65,536.
        levels: values per parameter that runs may have; default: [levels] of campaign.toml, else
            the measured values and up to four times as much.
        dependencies: file written by `insitu detect`; default: dependencies.json of the campaign.
        goal: relative uncertainty of the prediction at which no further run is needed.
        count: how many runs to propose, each as if those before it had been made.

    Raises:
        CampaignError: the campaign cannot be read.
        UsageError: there is no campaign, or an argument does not fit its parameters.
    """
    levels = levels or load_levels(campaign)
    experiment, models = _load(campaign, is_planning=bool(levels) and at is not None)
    runs = collect_measured_runs(experiment, tuple(levels) or experiment.parameters)
    if at is None:
        target = _target_of_runs(campaign, runs)
    else:
        target = coordinate_of(at, runs.names, measured=runs.points)

    proposals = _propose_by_laws(
        runs,
        models,
        target,
        levels or default_levels(runs, target),
        dependencies=dependencies or find_dependencies_file(os.path.abspath(campaign)),
        goal=goal,
        count=count,
    )
    needed = _propose_deciding_runs(models, experiment, runs, target=target[0])
    needed += _propose_class_runs(models, runs, levels)
    return _put_first(needed, proposals, count)


def _propose_by_laws(
    runs: MeasuredRuns,
    models: ModelSet,
    target: Sequence[float],
    levels: Levels,
    *,
    dependencies: str | None,
    goal: float,
    count: int,
) -> Proposals:
    """The runs that lower the uncertainty of a prediction most for their cost, until the goal.

    The laws that they are chosen by may agree where `insitu predict` predicts nothing, or has wide
    bounds: then the uncertainty is that of its prediction.
    """
    unclear, deviation = _judge_prediction(models, runs, target)
    proposals = propose_runs(
        runs,
        target,
        levels,
        dependencies=load_callpath_dependencies(dependencies, runs.callpaths),
        goal=0.0 if unclear or deviation > goal else goal,
        count=count,
    )
    factor = max(1.0, deviation / proposals.uncertainty) if proposals.uncertainty > 0 else 1.0
    return replace(
        proposals,
        goal=goal,
        unclear=unclear,
        uncertainty=factor * proposals.uncertainty,
        runs=tuple(replace(run, uncertainty=factor * run.uncertainty) for run in proposals.runs),
    )


def _judge_prediction(
    models: ModelSet, runs: MeasuredRuns, target: Sequence[float]
) -> tuple[str, float]:
    """Why the models of the campaign predict no run time at the target, "" if they do; and its
    relative standard deviation by their bounds, 0 where it is unknown."""
    if not models.models or set(models.parameters) != set(runs.names):
        return "", 0.0
    at = dict(zip(runs.names, target, strict=True))
    predicted = predict_run_time(models, [at[name] for name in models.parameters])
    if predicted is None:
        return "", 0.0
    estimate, unclear = predicted
    width = (estimate.high - estimate.low) / (2 * Z95)
    return unclear, width / estimate.value if estimate.value > 0 and math.isfinite(width) else 0.0


def _propose_deciding_runs(
    models: ModelSet, experiment: Experiment, runs: MeasuredRuns, *, target: float
) -> list[Proposal]:
    """The runs that decide whether a run was disturbed, or what begins there."""
    if len(runs.names) != 1 or len(runs.points) < LEAST_RUNS:
        return []
    deciding = find_deciding_runs(select_questionable(models, experiment, target), experiment)
    return [
        Proposal(FactorialPoint(((runs.names[0], run.coordinate[0]),)), reason=run.reason)
        for run in deciding
    ]


def _propose_class_runs(models: ModelSet, runs: MeasuredRuns, levels: Levels) -> list[Proposal]:
    """The runs that are missing so that each behaviour class exists at enough numbers of ranks."""
    if RANKS not in runs.names or len(runs.points) < LEAST_RUNS:
        return []
    gaps = find_class_gaps(models.clusters)
    along, largest = runs.names.index(RANKS), runs.points.max(axis=0)
    sizes = sorted({round(size) for size in runs.points[:, along]})
    proposals = []
    for size, reason in propose_class_runs(gaps, sizes, levels.get(RANKS, ())).items():
        (at,) = points_along(largest, along, np.array([float(size)]), runs.points).tolist()
        point = FactorialPoint(tuple(zip(runs.names, at, strict=True)))
        proposals.append(Proposal(point, reason=reason))
    return proposals


def _put_first(needed: Sequence[Proposal], proposals: Proposals, count: int) -> Proposals:
    """Proposals with the runs that are needed before the others, each configuration once."""
    reasons: dict[FactorialPoint, str] = {}
    for run in needed:
        reasons.setdefault(run.point, run.reason)
    known = {run.point: run for run in proposals.runs}
    first = []
    for point, reason in reasons.items():
        proposal = known.get(point, Proposal(point))
        first.append(replace(proposal, reason=reason))
    rest = [run for run in proposals.runs if run.point not in reasons]
    runs = tuple([*first, *rest][:count])
    return replace(proposals, runs=runs, is_exhausted=proposals.is_exhausted and not runs)


def propose_toward(
    campaign: str,
    experiment: Experiment,
    models: ModelSet,
    target: Sequence[float],
    *,
    are_times_known: bool = True,
) -> Proposals | None:
    """Propose the next runs for a prediction at a coordinate; None if no run times are known.

    Args:
        campaign: directory of the campaign.
        experiment: its runs.
        models: of these.
        target: the coordinate, (n_parameters,).
        are_times_known: False where ranks shared cores: then only runs for which there is a reason
            apart from times are proposed, and no prediction is computed.

    Raises:
        UsageError: campaign.toml has too many levels.
    """
    runs = collect_measured_runs(experiment, experiment.parameters)
    if not runs.callpaths:
        return None

    needed = _propose_deciding_runs(models, experiment, runs, target=target[0])
    if not are_times_known:
        point = FactorialPoint(tuple(zip(runs.names, map(float, target), strict=True)))
        return _put_first(needed, Proposals(point, GOAL, ()), REPORTED_RUNS)

    levels = load_levels(campaign)
    if set(levels) == set(runs.names):
        levels = {name: levels[name] for name in runs.names}
    else:
        levels = default_levels(runs, target)

    proposals = _propose_by_laws(
        runs,
        models,
        target,
        levels,
        dependencies=find_dependencies_file(os.path.abspath(campaign)),
        goal=GOAL,
        count=REPORTED_RUNS,
    )
    return _put_first(needed, proposals, REPORTED_RUNS)


def load_levels(campaign: str) -> Levels:
    """Return the levels that campaign.toml lists; empty if it lists none.

    Raises:
        CampaignError: campaign.toml cannot be read.
        UsageError: a level is not a number or a range.
    """
    table = load_settings(os.path.abspath(campaign)).get("levels")
    if not isinstance(table, dict):
        return {}

    levels = {}
    for name, values in table.items():
        text = values if isinstance(values, str) else ",".join(map(str, values))
        _, levels[name] = parse_levels(f"{name}={text}")
    return levels


def load_callpath_dependencies(
    file: str | None, callpaths: Sequence[str]
) -> Mapping[str, Dependency]:
    """Return the dependency of each call path by a file of `insitu detect`; empty without a file.

    Raises:
        UsageError: the file cannot be read.
    """
    return at_callpaths(load_structure(file), callpaths) if file else {}


def _load(campaign: str, *, is_planning: bool) -> tuple[Experiment, ModelSet]:
    """The runs and models of a campaign; if `is_planning`, one that does not exist has none."""
    if os.path.exists(os.path.join(campaign, DATABASE)):
        with open_store(campaign) as store:
            return load_experiment(store), store.models()
    if is_planning:
        return Experiment((RANKS,), ()), ModelSet((RANKS,))
    raise UsageError(
        f"{campaign}: no campaign here; name an existing one, or plan a new one with"
        " --at p=1024 --levels p=8..128:5"
    )


def _target_of_runs(campaign: str, runs: MeasuredRuns) -> list[float]:
    """Return the default target of a campaign by its runs; see `default_target`.

    Raises:
        UsageError: there are no runs with times.
    """
    if not len(runs.points):
        raise UsageError(
            "there are no runs with times yet; name the point to predict, such as --at p=1024"
        )
    largest = runs.points.max(axis=0).tolist()
    chosen = load_config(campaign).target
    return list(default_target(runs.names, largest, chosen, runs.points))
