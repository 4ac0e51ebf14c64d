"""The times of a campaign's runs by call path, as the choice of further runs needs them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from insitu.entities import TIME_EXCLUSIVE
from insitu.modeling.measurement import Experiment, FloatArray
from insitu.modeling.own_times import add_own_times

CALLPATHS = 40  # the most expensive ones; the others do not change the choice
SMALLEST = 1e-3  # of the largest value of a call path; smaller values are raised to it
Values = dict[tuple[float, ...], dict[str, list[float]]]  # by coordinate and call path


@dataclass(frozen=True, slots=True)
class MeasuredRuns:
    """What was measured at each configuration.

    Attributes:
        names: of the parameters.
        points: (n_points, n_parameters), ascending.
        callpaths: the most expensive first.
        values: (n_callpaths, n_points), in seconds unless another metric was chosen.
        noise: relative, of a value, estimated from repetitions; 0 if there are none.
    """

    names: tuple[str, ...]
    points: FloatArray
    callpaths: tuple[str, ...]
    values: FloatArray
    noise: float


def collect_measured_runs(
    experiment: Experiment, names: Sequence[str], metric: str = TIME_EXCLUSIVE.name
) -> MeasuredRuns:
    """Return the values of the most expensive call paths, averaged over repetitions.

    The value of a run is the largest of all ranks, by default its exclusive time.
    """
    if metric == TIME_EXCLUSIVE.name:
        experiment = add_own_times(experiment)
    values_at = _collect_values(experiment, names, metric)
    points = sorted(values_at)

    # Only call paths that every configuration has, the most expensive first.
    common: set[str] = set()
    if points:
        common = set.intersection(*(set(values_at[point]) for point in points))
    ordered = sorted(
        common, key=lambda path: -max(np.mean(values_at[point][path]) for point in points)
    )
    means = {
        path: [fmean(values_at[point][path]) for point in points] for path in ordered[:CALLPATHS]
    }
    callpaths = tuple(path for path in means if max(means[path]) > 0)

    rows = [np.maximum(means[path], SMALLEST * max(means[path])) for path in callpaths]
    return MeasuredRuns(
        names=tuple(names),
        points=np.array(points, dtype=float).reshape(len(points), len(names)),
        callpaths=callpaths,
        values=np.array(rows, dtype=float).reshape(len(callpaths), len(points)),
        noise=_median_noise(values_at, points, callpaths),
    )


def _collect_values(experiment: Experiment, names: Sequence[str], metric: str) -> Values:
    """Return the largest value of all ranks, one per repetition."""
    values_at: Values = {}
    for key, table in experiment.runs:
        coordinate = key.coordinate(names)
        if any(map(math.isnan, coordinate)) or metric not in table.values:
            continue
        of_point = values_at.setdefault(coordinate, {})
        for path, row in zip(table.callpaths, table.values[metric], strict=True):
            if not np.all(np.isnan(row)):
                of_point.setdefault(str(path), []).append(float(np.nanmax(row)))
    return values_at


def _median_noise(
    values_at: Values, points: Sequence[tuple[float, ...]], callpaths: Sequence[str]
) -> float:
    """Return the median relative standard error of repeated values; 0 without repetitions."""
    noise = []
    for point in points:
        for path in callpaths:
            values = values_at[point][path]
            if len(values) > 1:
                deviation = np.std(values, ddof=1) / max(fmean(values), 1e-300)
                noise.append(deviation / len(values) ** 0.5)
    return float(np.median(noise)) if noise else 0.0
