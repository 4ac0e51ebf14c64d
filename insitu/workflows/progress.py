"""How far a campaign has come: the runs it requests, and which of them are made."""

import os
from collections.abc import Sequence
from dataclasses import replace

from insitu.analysis.progress import Agenda, make_agenda
from insitu.campaign.attempts import AttemptRecord, read_attempts
from insitu.campaign.config import load_settings
from insitu.campaign.iterations import iteration_times
from insitu.campaign.layout import CAMPAIGN_FILE
from insitu.campaign.selection import is_omitted
from insitu.design.campaign_plan import CampaignPlan, parse_campaign_plan
from insitu.design.dependency_file import load_structure
from insitu.design.factorial import ExperimentDesign, Levels, Point, full_factorial, sparse_design
from insitu.design.schedule import Attempt, Progress, compute_progress
from insitu.entities import RunRecord, RunState


def load_agenda(campaign: str, runs: Sequence[RunRecord]) -> Agenda | None:
    """Return how far a campaign has come; None if its campaign.toml requests no runs.

    Args:
        campaign: directory of the campaign.
        runs: the stored runs of the campaign.

    Raises:
        CampaignError: campaign.toml cannot be read.
        UsageError: campaign.toml makes no sense.
    """
    path = os.path.abspath(campaign)
    settings = load_settings(path)
    if "levels" not in settings or "run" not in settings:
        return None

    study = parse_campaign_plan(settings, os.path.join(campaign, CAMPAIGN_FILE))
    return make_agenda(progress_in(path, study, design_of(study, path), runs))


def progress_in(
    path: str,
    study: CampaignPlan,
    design: ExperimentDesign | None,
    runs: Sequence[RunRecord],
    advised: Sequence[Point] = (),
) -> list[Progress]:
    """Return how far each configuration has come, by the stored runs and the attempts.

    Args:
        path: directory of the campaign.
        study: what campaign.toml requests.
        design: its configurations; None if each run decides on the next one. Then the
            configurations are those that were run or attempted, and `advised`.
        runs: the stored runs.
        advised: configurations proposed from the runs made so far.
    """
    names = list(study.levels)
    records = [record for record in read_attempts(path) if set(record.parameters) >= set(names)]
    attempts = []
    for record in records:
        point = Point.of(record.parameters, names)
        attempts.append(Attempt(point, record.seconds, record.code))

    durations: dict[Point, list[float]] = {}
    loop_times: dict[Point, list[list[float]]] = {}
    for run in successful_runs(runs, names, records):
        point = Point.of(dict(run.key.parameters), names)
        durations.setdefault(point, []).append(max(run.ended_at - run.started_at, 0.0))
        loop_times.setdefault(point, []).append(iteration_times(run))

    if design is None:
        points = {*durations, *(attempt.point for attempt in attempts), *advised}
        design = ExperimentDesign(tuple(sorted(points)))
    progress = compute_progress(design, study.repetitions, durations, attempts, loop_times)
    interrupted = _interrupted_runs(runs, names, records)
    lines = []
    for line in progress:
        durations_s = tuple(interrupted.get(line.point, ())) if line.remaining else ()
        # A further run takes longer than these did. NaN is above nothing.
        longest = max(durations_s, default=0.0)
        seconds = line.seconds if not longest or line.seconds > longest else longest
        lines.append(replace(line, interrupted_s=durations_s, seconds=seconds))
    return lines


def _interrupted_runs(
    runs: Sequence[RunRecord], names: Sequence[str], attempts: Sequence[AttemptRecord]
) -> dict[Point, list[float]]:
    """How long incomplete runs took that no attempt has reported, as where a job was killed."""
    interrupted: dict[Point, list[float]] = {}
    for run in runs:
        parameters = dict(run.key.parameters)
        is_reported = any(
            0 <= run.started_at - record.began_at <= record.seconds for record in attempts
        )
        is_stored = run.state is RunState.INCOMPLETE and set(parameters) >= set(names)
        if is_stored and not is_reported and not is_omitted(run):
            seconds = max(run.ended_at - run.started_at, 0.0)
            interrupted.setdefault(Point.of(parameters, names), []).append(seconds)
    return interrupted


def successful_runs(
    runs: Sequence[RunRecord], names: Sequence[str], attempts: Sequence[AttemptRecord]
) -> list[RunRecord]:
    """Return the complete runs that are not omitted, succeeded, and have these parameters.

    A run failed if one of its ranks did or, if an attempt made it, if its launcher did.
    """
    failed_attempts = [record for record in attempts if record.code]

    successful = []
    for run in runs:
        has_parameters = set(dict(run.key.parameters)) >= set(names)
        has_failed = any(run.exit_status) or any(
            0 <= run.started_at - record.began_at <= record.seconds for record in failed_attempts
        )
        is_usable = run.state is RunState.COMPLETE and not is_omitted(run)
        if is_usable and has_parameters and not has_failed:
            successful.append(run)
    return successful


def design_of(study: CampaignPlan, path: str) -> ExperimentDesign | None:
    """Return the configurations that a study requests; None if each run decides on the next one.

    Args:
        study: what campaign.toml requests.
        path: directory of the campaign; its file of dependencies is relative to the parent.

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

    # This loads much of scipy, which most designs do not need.
    from insitu.design.deduce import deduce_design

    structure = load_structure(os.path.join(os.path.dirname(path), study.dependencies))
    design = deduce_design(structure, study.levels)
    return _set_iterations(design, structure.iteration, study.levels)


def _set_iterations(design: ExperimentDesign, name: str, levels: Levels) -> ExperimentDesign:
    """Set the parameter for iterations of each run to the smallest level that suffices.

    Args:
        design: the design.
        name: the parameter for iterations; a name without levels leaves the design unchanged.
        levels: values per parameter.
    """
    if name not in levels:
        return design
    sufficient = [value for value in levels[name] if value >= design.iterations]
    iterations = {name: min(sufficient) if sufficient else max(levels[name])}

    def add_iterations(points: Sequence[Point]) -> tuple[Point, ...]:
        return tuple(Point.of(dict(point.values) | iterations, levels) for point in points)

    return replace(
        design, points=add_iterations(design.points), checks=add_iterations(design.checks)
    )
