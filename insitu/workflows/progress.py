"""How far a campaign has come: which runs it asked for, which are made, how long the rest takes."""

import os
from collections.abc import Sequence
from dataclasses import replace

from insitu.analysis.progress import Agenda, make_agenda
from insitu.campaign.attempts import AttemptRecord, read_attempts
from insitu.campaign.config import FILE, load_settings
from insitu.campaign.iterations import iteration_times
from insitu.campaign.selection import is_omitted
from insitu.design.campaign_plan import CampaignPlan, parse_campaign_plan
from insitu.design.dependency_file import load_structure
from insitu.design.factorial import ExperimentDesign, Levels, Point, full_factorial, sparse_design
from insitu.design.schedule import Attempt, Progress, compute_progress
from insitu.entities import RunRecord, RunState


def agenda(campaign: str, runs: Sequence[RunRecord]) -> Agenda | None:
    """How far the campaign in a directory has come; None where its campaign.toml asks for no runs.

    Raises:
        CampaignError: campaign.toml cannot be read.
        UsageError: what it asks for makes no sense.
    """
    path = os.path.abspath(campaign)
    table = load_settings(path)
    if "levels" not in table or "run" not in table:
        return None
    study = parse_campaign_plan(table, os.path.join(campaign, FILE))
    return make_agenda(progress_in(path, study, design_of(study, path), runs))


def progress_in(
    path: str,
    study: CampaignPlan,
    design: ExperimentDesign | None,
    runs: Sequence[RunRecord],
    advised: Sequence[Point] = (),
) -> list[Progress]:
    """How far each configuration has come, by the runs that are kept and the attempts.

    Args:
        path: directory of the campaign.
        study: what campaign.toml asks for.
        design: its configurations; where runs decide on them, those that were tried, and `advised`.
        runs: that are kept.
        advised: configurations that runs decided on.
    """
    names = list(study.levels)
    attempts = [one for one in read_attempts(path) if set(one.parameters) >= set(names)]
    tried = [Attempt(Point.of(one.parameters, names), one.seconds, one.code) for one in attempts]
    sealed: dict[Point, list[float]] = {}
    loops: dict[Point, list[list[float]]] = {}
    for run in whole_runs(runs, names, attempts):
        point = Point.of(dict(run.key.parameters), names)
        seconds = max(run.ended_at - run.started_at, 0.0)
        sealed.setdefault(point, []).append(seconds)
        loops.setdefault(point, []).append(iteration_times(run))
    if design is None:
        known = {*sealed, *(one.point for one in tried), *advised}
        design = ExperimentDesign(tuple(sorted(known)))
    return compute_progress(design, study.repetitions, sealed, tried, loops)


def whole_runs(
    runs: Sequence[RunRecord], names: Sequence[str], attempts: Sequence[AttemptRecord]
) -> list[RunRecord]:
    """The runs that are whole, not omitted, whose program did not fail, and that say these
    parameters.

    Whether it failed is told by its ranks, and by its launcher where an attempt made it.
    """
    failed = [(one.began_at, one.began_at + one.seconds) for one in attempts if one.code]
    return [
        run
        for run in runs
        if run.state is RunState.COMPLETE
        and not is_omitted(run)
        and set(dict(run.key.parameters)) >= set(names)
        and not any(run.exit_status)
        and not any(began <= run.started_at <= ended for began, ended in failed)
    ]


def design_of(study: CampaignPlan, path: str) -> ExperimentDesign | None:
    """The configurations that a study in the directory of a campaign asks for; None where its runs
    decide on them, one after another.

    Raises:
        CampaignError: the file of dependencies cannot be read.
        UsageError: the design cannot be made.
    """
    repetitions = max(study.repetitions, 1)
    if study.design == "advise":
        return None
    if study.design == "full":
        return full_factorial(study.levels, repetitions)
    if study.design == "sparse":
        return sparse_design(study.levels, repetitions)
    from insitu.design.deduce import deduce_design  # with much of scipy, which few designs need

    structure = load_structure(os.path.join(os.path.dirname(path), study.dependencies))
    design = deduce_design(structure, study.levels)
    return _with_iterations(design, structure.iteration, study.levels)


def _with_iterations(design: ExperimentDesign, name: str, levels: Levels) -> ExperimentDesign:
    """Give each run the fewest iterations that are enough, where campaign.toml lists some."""
    if name not in levels:
        return design
    enough = [value for value in sorted(levels[name]) if value >= design.iterations]
    more = {name: enough[0] if enough else max(levels[name])}

    def whole(points: Sequence[Point]) -> tuple[Point, ...]:
        return tuple(Point.of(dict(point.values) | more, levels) for point in points)

    return replace(design, points=whole(design.points), checks=whole(design.checks))
