"""How far a campaign has come: which runs it asked for, which are made, how long the rest takes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from insitu.campaign.attempts import read_attempts
from insitu.campaign.config import FILE, load_table
from insitu.design.deduce import deduce
from insitu.design.dependencies import load_structure
from insitu.design.factorial import ExperimentDesign, Levels, Point, full_factorial, sparse
from insitu.design.schedule import Attempt, Progress, progress_of
from insitu.design.study import Study, study_of
from insitu.entities import RunRecord, RunState


@dataclass(frozen=True, slots=True)
class Agenda:
    """What campaign.toml asks for and how far it has come, a line per configuration.

    seconds, core_hours: of the runs that are left, NaN where nothing tells.
    """

    lines: tuple[Progress, ...]
    done: int
    left: int
    seconds: float
    core_hours: float


def agenda(campaign: str, runs: Sequence[RunRecord]) -> Agenda | None:
    """How far the campaign in a directory has come; None where its campaign.toml asks for no runs.

    Raises:
        CampaignError: campaign.toml cannot be read.
        UsageError: what it asks for makes no sense.
    """
    path = os.path.abspath(campaign)
    table = load_table(path)
    if "levels" not in table or "run" not in table:
        return None
    study = study_of(table, os.path.join(campaign, FILE))
    return agenda_of(progress_in(path, study, design_of(study, path), runs))


def agenda_of(lines: Sequence[Progress]) -> Agenda:
    """The sum of some configurations."""
    left = [one for one in lines if one.left]
    return Agenda(
        tuple(lines),
        sum(one.done for one in lines),
        sum(one.left for one in left),
        sum(one.left * one.seconds for one in left),
        sum(one.core_hours for one in left),
    )


def progress_in(
    path: str, study: Study, design: ExperimentDesign, runs: Sequence[RunRecord]
) -> list[Progress]:
    """How far each configuration has come, by the runs that are kept and the attempts."""
    names = list(study.levels)
    sealed: dict[Point, list[float]] = {}
    for run in runs:
        values = dict(run.key.parameters)
        if run.state is RunState.SEALED and set(values) >= set(names) and not any(run.exit_status):
            seconds = max(run.ended_at - run.started_at, 0.0)
            sealed.setdefault(Point.of(values, names), []).append(seconds)
    attempts = [
        Attempt(Point.of(one.parameters, names), one.seconds, one.code)
        for one in read_attempts(path)
        if set(one.parameters) >= set(names)
    ]
    return progress_of(design, study.repetitions, sealed, attempts)


def design_of(study: Study, path: str) -> ExperimentDesign:
    """The configurations that a study in the directory of a campaign asks for.

    Raises:
        CampaignError: the file of dependencies cannot be read.
        UsageError: the design cannot be made.
    """
    repetitions = max(study.repetitions, 1)
    if study.design == "full":
        return full_factorial(study.levels, repetitions)
    if study.design == "sparse":
        return sparse(study.levels, repetitions)
    structure = load_structure(os.path.join(os.path.dirname(path), study.dependencies))
    design = deduce(structure, study.levels)
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
