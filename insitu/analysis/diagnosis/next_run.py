"""The run that helps a diagnosis most."""

from collections.abc import Sequence

from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.measurements import LAW_SCALES, Measurements
from insitu.analysis.diagnosis.questions import select_questionable
from insitu.analysis.diagnosis.scales import lacking_scales, next_scale
from insitu.analysis.diagnosis.statements import NOT_JUDGED, UNCLEAR, Statement
from insitu.entities import RANKS, VISITS
from insitu.modeling.base import ModelSet
from insitu.modeling.deciding_runs import find_deciding_runs
from insitu.modeling.measurement import Experiment

ENOUGH_SCALES = 5  # one of them no power of two: then neighbour counts differ from p - 1


def find_deciding_run(
    models: ModelSet,
    experiment: Experiment,
    measurements: Measurements,
    *,
    target: float,
    ruling: Sequence[Statement],
) -> str | None:
    """The run that the first doubt asks for, else the one that decides what models leave open, of
    counts and of costly call paths, and why."""
    for entry in ruling:
        if entry.status == UNCLEAR and entry.run:
            return entry.run
    runs = find_deciding_runs(select_questionable(models, experiment, target), experiment)
    if not runs:
        return None
    run = runs[0]
    (value,) = run.coordinate
    if value == run.questioned:
        return f"{at_text(run.parameter, value)} again: it {run.question}"
    larger = at_text(run.parameter, value)
    if run.parameter == RANKS:
        p = measurements.p
        larger = next_scale(p, value / float(p[-1]))
    return f"{larger}: {run.reason}"


def find_next_run(
    measurements: Measurements, ranked: Sequence[Statement], boundary: Sequence[Statement]
) -> str | None:
    """The run that decides most: for doubtful statements, or the one that laws still need.

    A run on several nodes comes last: not everybody has them.

    Args:
        measurements: the runs.
        ranked: all statements in order.
        boundary: those about messages between nodes.
    """
    p = measurements.p
    if not p.size:
        return None
    if len(p) < LAW_SCALES and measurements.elsewhere:
        return lacking_scales(measurements, measurements)[1]
    doubtful = [entry.run for entry in ranked if entry.status in (UNCLEAR, NOT_JUDGED)]
    for run in doubtful:
        if run:
            return run
    if measurements.runs and all(run.is_crowded for run in measurements.runs):
        return f"{at_text(RANKS, float(p[-1]))} on as many free cores: times are judged only there"
    if len(p) < LAW_SCALES:
        return next_scale(p, 2.0)
    if len(p) < ENOUGH_SCALES:
        return f"{next_scale(p, 1.5)}: {ENOUGH_SCALES} scales tell laws apart"
    has_odd = any(int(ranks) & (int(ranks) - 1) for ranks in p.tolist())
    if not has_odd and VISITS.name in measurements.metrics:
        return f"{next_scale(p, 1.5)}: it tells laws of messages from neighbours in a grid"
    return next((entry.run for entry in boundary), None)
