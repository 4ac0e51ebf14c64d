"""An accepted campaign as an expectation: nothing may grow faster than it does [VAL §2.1]."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from insitu.entities import (
    ITERATION_VARIATION,
    MEMORY_PRIVATE,
    MEMORY_PSS,
    MEMORY_SHARED,
    MEMORY_SWAP,
    number,
)
from insitu.expectations.accepted_values import accepted_values, find_no_evidence
from insitu.expectations.ceilings import Ceiling
from insitu.expectations.entries import Entry
from insitu.expectations.growth import Growth, growth_of_function
from insitu.expectations.limits import Expectation, expect
from insitu.expectations.lookup import classified_series
from insitu.expectations.validate import list_growths
from insitu.modeling.base import ALL, Model, ModelSet, SeriesModel
from insitu.modeling.classes.pairs import pair_series
from insitu.modeling.horizon import unclear_at
from insitu.modeling.measurement import FloatArray, SeriesKey
from insitu.modeling.predictions import predict_all
from insitu.modeling.search import SEGMENT_SHORT
from insitu.modeling.target import default_target
from insitu.units import quantity

EVEN = 0.5  # probability
LEVEL = 0.95  # probability with which bounds hold
OUTGROWN = 2.0  # times the upper 95 % bound of the accepted growth up to the target
# What these are depends on the other processes of a machine, some of which map the same libraries,
# and on noise: two campaigns of one program differ. The whole memory of a rank is judged.
OF_THE_MACHINE = frozenset(
    metric.name
    for metric in (ITERATION_VARIATION, MEMORY_PRIVATE, MEMORY_PSS, MEMORY_SHARED, MEMORY_SWAP)
)


def bounds_from_baseline(
    baseline: ModelSet, models: ModelSet, entries: Sequence[Entry]
) -> tuple[list[Entry], list[str]]:
    """Return upper bounds from an accepted campaign, for series without an expectation.

    A bound is the accepted growth. It says little where a tiny term grows fast, so a series that
    clearly grows by more than twice as much up to the target has a limit there as well. What
    depends on the machine rather than the program has no bound. A class is compared with that of
    the same ranks, and where there is none, the mean over all ranks is.

    Args:
        baseline: the accepted models.
        models: the models to judge.
        entries: the other expectations.

    Returns:
        The bounds, and sentences on the call paths that only one of the campaigns has.
    """
    growth_entries = [entry for entry in entries if isinstance(entry.subject, Expectation)]
    current = {series.key: series for series in models.models}

    pairs = pair_series(baseline, models)
    outlooks = _look_ahead(
        [current[now] for key, now in pairs.items() if key.metric not in OF_THE_MACHINE]
    )

    # The mean of classes follows from them; its growth changes with their sizes alone.
    classified = classified_series(baseline) & classified_series(models)
    for series in baseline.models:
        if series.key not in pairs:  # ranks that are no class now: the mean is judged
            classified.discard((series.key.callpath, series.key.metric))

    bounds = []
    for series in baseline.models:
        key = series.key
        if key.metric in OF_THE_MACHINE:
            continue
        if key.behaviour == ALL and (key.callpath, key.metric) in classified:
            continue
        has_expectation = any(
            entry.metric == key.metric and entry.is_about(key.callpath) for entry in growth_entries
        )
        if key in pairs and not has_expectation:
            now = current[pairs[key]]
            bound = expect(_accepted_growth(series.model))
            subject = Expectation(bound.growth, bound.lower, bound.upper, is_bound=True)
            values = accepted_values(series.model)
            noise = now.model.spreads[-1].sigma if now.model.spreads else 0.0
            doubt = find_no_evidence(values, now.model, series.metric, noise=noise)
            bounds.append(
                Entry(
                    str(key.callpath),
                    key.metric,
                    subject,
                    now.key.behaviour,
                    is_exact=True,
                    accepted=values,
                )
            )
            limit = _limit_of_growth(series.model, now, outlooks[now.key])
            is_within = growth_of_function(now.model.function).is_bounded_by(bound.upper)
            if limit is not None and is_within and not doubt:
                bounds.append(
                    Entry(str(key.callpath), key.metric, limit, now.key.behaviour, is_exact=True)
                )

    before = {series.key.callpath for series in baseline.models}
    after = {series.key.callpath for series in models.models}
    notes = [
        f"{path}: not in the accepted campaign, therefore not judged"
        for path in sorted(after - before)
    ]
    notes += [f"{path}: only in the accepted campaign" for path in sorted(before - after)]
    return bounds, notes


class _Outlook(NamedTuple):
    """What a model predicts: now at the largest measured coordinate, and the bounds at target."""

    largest: FloatArray
    target: tuple[float, ...]
    now: float
    low: float
    high: float


def _look_ahead(series: Sequence[SeriesModel]) -> dict[SeriesKey, _Outlook]:
    """The outlook of each series, all together, as a single prediction takes a millisecond."""
    models = [each.model for each in series]
    largest = [model.coordinates.max(axis=0) for model in models]
    targets = [
        tuple(default_target(model.parameters, most.tolist(), {}, model.coordinates))
        for model, most in zip(models, largest, strict=True)
    ]
    points = [np.array([most, at]) for most, at in zip(largest, targets, strict=True)]
    return {
        each.key: _Outlook(most, at, float(found.values[0]), *found.bounds[1].tolist())
        for each, most, at, found in zip(
            series, largest, targets, predict_all(models, points, LEVEL), strict=True
        )
    }


def _limit_of_growth(accepted: Model, series: SeriesModel, outlook: _Outlook) -> Ceiling | None:
    """The value at the target that a series exceeds if it grows more than an accepted one does.

    None if it does not, or if one of the two models is unclear there. Values are compared with
    those at the largest measured coordinate of the series, so a larger constant is no growth.
    """
    model = series.model
    largest, target, now, low, high = outlook
    if model.parameters != accepted.parameters or now <= 0 or low <= now * OUTGROWN:
        return None
    accepted_now = float(accepted.predict([largest])[0])
    if accepted_now <= 0:
        return None
    _, accepted_high = accepted_bounds = accepted.interval([target])[0].tolist()
    factor = OUTGROWN * max(accepted_high / accepted_now, 1.0)
    if low <= now * factor or unclear_at(model, target, (low, high)):
        return None
    if unclear_at(accepted, target, accepted_bounds):
        return None
    at = tuple(zip(model.parameters, target, strict=True))
    where = ", ".join(f"{name}={number(value)}" for name, value in at)
    most = f"{factor:.3g} times the value now, twice as much as in the accepted campaign"
    unit = series.metric.unit
    text = f"at most {quantity(now * factor, unit)} at {where}: {most}"
    return Ceiling(text=text, metric=series.key.metric, at=at, most=now * factor, unit=unit)


def _accepted_growth(model: Model) -> Growth:
    """The growth that a model shows: that of its function, or more if more is as likely as not.

    A function is a constant wherever a constant is possible, although growth may be more probable.
    A bound must hold for the measurements that it was made from. Few points behind a change may
    be another algorithm of MPI, so the growth before it counts, too.
    """
    shown = growth_of_function(model.function)
    if any(finding.code == SEGMENT_SHORT for finding in model.findings):
        for segment in model.segments:
            before = growth_of_function(segment.function)
            shown = before if shown.is_bounded_by(before) else shown
    if not model.spreads:
        return shown

    probability: dict[Growth, float] = defaultdict(float)
    spread = model.spreads[-1]
    growths = list_growths(spread, model.parameters)
    for growth, weight in zip(growths, spread.weights.tolist(), strict=True):
        probability[growth] += weight

    def probability_within(bound: Growth) -> float:
        return sum(share for growth, share in probability.items() if growth.is_bounded_by(bound))

    if probability_within(shown) >= EVEN:
        return shown
    covered = {}
    for growth in probability:
        if shown.is_bounded_by(growth):
            covered[growth] = probability_within(growth)
    possible = [growth for growth, share in covered.items() if share >= EVEN]
    return min(possible, key=lambda growth: (covered[growth], str(growth)), default=shown)
