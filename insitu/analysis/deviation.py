"""Where a run that is over left what the models of earlier runs had let expect."""

import math
from collections.abc import Iterable

import numpy as np

from insitu.analysis.callpaths import last_frames
from insitu.analysis.cost import metric_order
from insitu.analysis.forecast import (
    Forecast,
    Judgement,
    LivePath,
    PathMetric,
    compare_with_forecast,
)
from insitu.entities import TIME, TIME_EXCLUSIVE, VISITS, Finding, RunKey
from insitu.modeling.measurement import RunTable
from insitu.units import quantity

OFF_FORECAST = "off-forecast"
NAMED = 3  # call paths in the finding, those that are farthest off
WIDTH = 48


def find_deviations(foreseen: Forecast, table: RunTable, run: RunKey) -> tuple[Finding, ...]:
    """What a run has that models which did not know it exclude, as one finding; none without any.

    Args:
        foreseen: for this run, by models of the runs before it.
        table: its values; judged are means of the ranks that have one.
        run: its parameters, as it is known.
    """
    paths = _paths(foreseen, table)
    judged = compare_with_forecast(foreseen, paths, size=table.size, has_ended=True).judged
    values = {(one.callpath, name): value for one in paths for name, value in one.values().items()}
    off = {key: one for key, one in judged.items() if one.verdict}
    if not off:
        return ()
    units = {metric.name: metric.unit for metric in table.metrics}
    telling = _telling(off)
    farthest = sorted(telling, key=lambda key: (-_distance(values[key], off[key]), key))
    named = [
        f"{last_frames(path, WIDTH)} {metric} {quantity(values[path, metric], units[metric])} "
        f"({off[path, metric].verdict} than {_bounds(off[path, metric], units[metric])})"
        for path, metric in farthest[:NAMED]
    ]
    rest = len(telling) - len(named)
    more = f"; and {rest} more call path{'s' * (rest != 1)}" if rest else ""
    many = f"{len(off)} of {len(judged)} values"
    text = f"run {run}: {many} are outside of what the runs before let expect: {'; '.join(named)}"
    return (Finding(OFF_FORECAST, text + more),)


def _telling(off: Iterable[PathMetric]) -> list[PathMetric]:
    """Of each call path the metric that comes first where several stand below each other."""
    first: dict[str, str] = {}
    for path, metric in off:
        first[path] = min(first.get(path, metric), metric, key=metric_order)
    return list(first.items())


def _paths(foreseen: Forecast, table: RunTable) -> list[LivePath]:
    """The means of the call paths that are foreseen."""
    means = {}
    for name, array in table.values.items():
        counts = np.count_nonzero(~np.isnan(array), axis=1)
        sums = np.nansum(array, axis=1)
        means[name] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    known = {path for path, _ in foreseen.values}
    found = []
    for row, path in enumerate(map(str, table.callpaths)):
        if path not in known:
            continue
        here = {name: float(values[row]) for name, values in means.items()}
        visits, seconds, alone = (
            here.pop(one.name, math.nan) for one in (VISITS, TIME, TIME_EXCLUSIVE)
        )
        found.append(LivePath(path, visits, seconds, alone, math.inf, here))
    return found


def _distance(value: float, one: Judgement) -> float:
    """How far a value is off, as a ratio of at least 1, the same above as below."""
    expected = one.expected.value
    if value * expected <= 0:
        return math.inf
    return max(value / expected, expected / value)


def _bounds(one: Judgement, unit: str) -> str:
    low, high = (quantity(value, unit) for value in (one.expected.low, one.expected.high))
    return low if low == high else f"{low} … {high}"
