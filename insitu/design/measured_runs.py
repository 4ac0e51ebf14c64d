"""What the runs of a campaign cost so far, call path by call path."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from insitu.entities import TIME_EXCLUSIVE
from insitu.modeling.measurement import Experiment, FloatArray

CALLPATHS = 40  # the dearest; the others do not decide
SMALLEST = 1e-3  # of a call path's largest time; less, or none, tells no more than that


@dataclass(frozen=True, slots=True)
class MeasuredRuns:
    """What was measured: (n_points, n_parameters), and (n_callpaths, n_points) in seconds.

    noise: relative, of a value, as far as repetitions tell it; 0 where there are none.
    """

    names: tuple[str, ...]
    points: FloatArray
    callpaths: tuple[str, ...]
    values: FloatArray
    noise: float


def collect_measured_runs(
    experiment: Experiment, names: Sequence[str], metric: str = TIME_EXCLUSIVE.name
) -> MeasuredRuns:
    """The slowest rank's exclusive time of the dearest call paths, repetitions averaged.

    With another metric, the greatest value of all ranks.
    """
    sums: dict[tuple[float, ...], dict[str, list[float]]] = {}
    for key, table in experiment.runs:
        place = key.coordinate(names)
        if any(map(math.isnan, place)) or metric not in table.values:
            continue
        here = sums.setdefault(place, {})
        for path, row in zip(table.callpaths, table.values[metric], strict=True):
            if not np.all(np.isnan(row)):
                here.setdefault(str(path), []).append(float(np.nanmax(row)))
    points = sorted(sums)
    common = set.intersection(*(set(sums[place]) for place in points)) if points else set()
    dearest = sorted(common, key=lambda path: -max(np.mean(sums[p][path]) for p in points))
    callpaths = tuple(dearest[:CALLPATHS])
    means = {path: [fmean(sums[place][path]) for place in points] for path in callpaths}
    callpaths = tuple(path for path in callpaths if max(means[path]) > 0)
    values = [np.maximum(means[path], SMALLEST * max(means[path])) for path in callpaths]
    repeated = [of for p in points for path in callpaths if len(of := sums[p][path]) > 1]
    scatter = [np.std(of, ddof=1) / max(fmean(of), 1e-300) / len(of) ** 0.5 for of in repeated]
    return MeasuredRuns(
        tuple(names),
        np.array(points, dtype=float).reshape(len(points), len(names)),
        callpaths,
        np.array(values, dtype=float).reshape(len(callpaths), len(points)),
        float(np.median(scatter)) if scatter else 0.0,
    )
