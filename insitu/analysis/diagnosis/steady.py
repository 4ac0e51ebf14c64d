"""Functions without a statement: whether their times certainly do not grow enough to matter."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.statements import NOT_JUDGED, WARNING_FROM, Statement, list_names
from insitu.analysis.diagnosis.times import (
    CARRIED,
    CLEAR_GROWTH,
    LEAST_GROWTH,
    LEVEL,
    is_over_ranks,
    point_at,
)
from insitu.entities import RANKS, TIME_EXCLUSIVE, CallPath, number
from insitu.modeling.base import ModelSet

ALL_FINE = "no growth with p that matters"
COUNTS_FINE = "counts do not grow with p enough to matter"  # where times were not judged


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """A time at the scale to which times are carried, in seconds.

    expected: if nothing grows. growth: by how much the prediction is longer. excess: by how much
    the time may be longer.
    """

    expected: float
    growth: float
    excess: float


def settle_fine(
    measurements: Measurements,
    fine: Sequence[Statement],
    models: ModelSet,
    baseline: Baseline,
    target: float,
) -> tuple[list[Statement], list[Statement]]:
    """Split functions without a statement by what the bounds of their times say.

    Where runs were crowded, times are those of samples: the visits of such functions are unknown,
    and so is their work where the samples are too few.

    Returns:
        The functions that are fine, and statements about those that were not judged.
    """
    if not fine or not measurements.p.size:
        return list(fine), []

    carried = min(target, CARRIED * float(measurements.p[-1]))
    budget = baseline.budget_s(carried, is_once=False)
    is_strong = baseline.scaling == "strong" and not measurements.has_crowded
    names = {entry.callpath for entry in fine}
    members = [of for owner, of in measurements.members.items() if str(owner) in names]
    paths = {path for of in members for path in of}
    bounds = _bounds(measurements, models, carried, paths=paths, is_strong=is_strong)
    scales = [number(p) for p in (measurements.p[0], measurements.p[-1])]
    measured = f"over {' to '.join(scales)} ranks"
    settled: list[Statement] = []
    sampled: list[str] = []
    timed: list[str] = []
    for entry in fine:
        path = next((path for path in measurements.members if str(path) == entry.callpath), None)
        is_sampled = path is not None and measurements.is_sampled(path)
        if path is None or (measurements.has_crowded and not is_sampled):
            settled.append(entry)
        elif measurements.has_crowded:
            bound = bounds.get(path)
            if bound is None or bound.excess >= WARNING_FROM * budget:
                sampled.append(short_name(path.name))
                continue
            until = at_text(RANKS, carried)
            text = f"processor time does not grow enough to matter up to {until}"
            settled.append(replace(entry, text=text))
        else:
            known = [bounds[member] for member in measurements.members[path] if member in bounds]
            expected = sum(bound.expected for bound in known)
            growth = sum(bound.growth for bound in known)
            excess = math.hypot(*(bound.excess for bound in known))
            least = WARNING_FROM * budget
            if not known:
                settled.append(entry)
            elif excess < max(least, (CLEAR_GROWTH - 1) * expected):
                settled.append(replace(entry, text=ALL_FINE))
            elif growth < max(least, (LEAST_GROWTH - 1) * expected):
                settled.append(replace(entry, text=f"no growth with p seen {measured}"))
            else:
                timed.append(short_name(path.name))

    # A function with several callers is not fine below one of them and open below another.
    settled = [entry for entry in settled if short_name(entry.name) not in {*sampled, *timed}]
    return settled, [*_report(sampled, timed)]


def _bounds(
    measurements: Measurements,
    models: ModelSet,
    carried: float,
    *,
    paths: Collection[CallPath],
    is_strong: bool,
) -> Mapping[CallPath, TimeBounds]:
    """The bounds of call paths with a model over p: of their classes, the one that may grow most.

    Functions with few samples have wide bounds.
    """
    largest = float(measurements.p[-1])
    bounds: dict[CallPath, TimeBounds] = {}
    of_model: dict[int, TimeBounds] = {}  # equal series share a model
    for series in models.models:
        path, model = series.key.callpath, series.model
        is_wanted = path in paths and series.key.metric == TIME_EXCLUSIVE.name
        if not is_wanted or not is_over_ranks(model, measurements):
            continue
        if measurements.has_crowded and not measurements.is_sampled(path):
            continue
        if id(model) not in of_model:
            points = [point_at(model, measurements, p) for p in (largest, carried)]
            now, then = (float(value) for value in model.predict(points))
            ((_, high),) = model.interval(points[1:], LEVEL).tolist()
            expected = now * (largest / carried if is_strong else 1.0)
            of_model[id(model)] = TimeBounds(expected, then - expected, max(high - expected, 0.0))
        if path not in bounds or of_model[id(model)].excess > bounds[path].excess:
            bounds[path] = of_model[id(model)]
    return bounds


def _report(sampled: Sequence[str], timed: Sequence[str]) -> Iterator[Statement]:
    """Statements about functions that were not judged."""
    their = "its time" if len(timed) == 1 else "their times"
    reasons = (
        (sampled, "cannot be judged from samples of their processor time", "longer runs"),
        (timed, f"the bounds of {their} are too wide", None),
    )
    for names, reason, run in reasons:
        if names:
            text = f"growth of {list_names(names)}: {reason}"
            yield Statement(kind="time", status=NOT_JUDGED, text=text, run=run)
