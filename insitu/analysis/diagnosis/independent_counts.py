"""Counts that depend on the number of ranks alone, where no three runs differ in nothing but it.

Designs that save runs vary parameters together [DET §3.2]: five runs instead of 125, and a few
check points at which they move apart. What is the same at these has a law over p from all runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from insitu.analysis.diagnosis.gather import measured_run
from insitu.analysis.diagnosis.measurements import (
    LAW_SCALES,
    REPEATABLE,
    MeasuredRun,
    Measurements,
)
from insitu.entities import HEAP_GROWTH, HEAP_PEAK, RANKS, TIME, TIME_EXCLUSIVE, VISITS, CallPath
from insitu.modeling.measurement import Experiment, RunTable

Scales = Mapping[int, list[MeasuredRun]]
TIMES = frozenset((TIME.name, TIME_EXCLUSIVE.name))
# What a function leaves on the heap is known only together with its callers and callees.
OF_OTHERS_TOO = frozenset((HEAP_GROWTH.name, HEAP_PEAK.name))


def count_over_ranks(experiment: Experiment, measurements: Measurements) -> Measurements:
    """The measurements that laws of counts over p are found in: usually those of the diagnosis.

    Where these have too few scales, all runs are taken, with the counts that do not depend on the
    other parameters: runs on equally many ranks, among which each of them varies, show it. Heaps
    are left out.

    Args:
        experiment: the complete runs.
        measurements: of one combination of the other parameters.
    """
    if len(measurements.p) >= LAW_SCALES:
        return measurements
    scales: dict[int, list[MeasuredRun]] = {}
    for i, (key, table) in enumerate(experiment.runs):
        run = replace(measured_run(experiment, key, table), order=i)
        scales.setdefault(key.size, []).append(run)
    if len(scales) < LAW_SCALES:
        return measurements
    free = _find_free(scales, [name for name in experiment.parameters if name != RANKS])
    if not any(free.values()):
        return measurements

    p = sorted(scales)
    return replace(
        measurements,
        p=np.array(p, dtype=float),
        groups=tuple(tuple(_with_only(run, free) for run in scales[size]) for size in p),
        fixed=(),
        elsewhere=(),
    )


def _find_free(scales: Scales, others: list[str]) -> dict[str, set[CallPath]]:
    """The call paths whose counts depend on p alone, by metric."""
    varying: set[str] = set()  # parameters that vary among runs on equally many ranks
    pairs: list[tuple[MeasuredRun, MeasuredRun]] = []
    for runs in scales.values():
        first = {run.key.coordinate(others): run for run in reversed(runs)}
        pairs += pairwise(first.values())
        varying.update(name for i, name in enumerate(others) if len({at[i] for at in first}) > 1)
    if not varying.issuperset(others):
        return {}

    runs = [run for of_scale in scales.values() for run in of_scale]
    metrics = {name for run in runs for name in run.table.values} - TIMES - OF_OTHERS_TOO
    free = {}
    for metric in metrics:
        counted = {path for run in runs for path in run.rows if run.vector(path, metric).any()}
        free[metric] = counted.difference(*(_different(*pair, metric) for pair in pairs))
    return free


def _different(one: MeasuredRun, other: MeasuredRun, metric: str) -> set[CallPath]:
    """The call paths that have other values in another run on as many ranks."""
    return {
        path
        for path in one.rows.keys() | other.rows.keys()
        if not np.allclose(
            one.vector(path, metric), other.vector(path, metric), rtol=REPEATABLE, atol=0.0
        )
    }


def _with_only(run: MeasuredRun, kept: Mapping[str, Iterable[CallPath]]) -> MeasuredRun:
    """A run with the counts of some call paths, by metric, and their times where visits are."""
    values = {}
    for metric, array in run.table.values.items():
        if metric not in OF_OTHERS_TOO:
            paths = kept.get(VISITS.name if metric in TIMES else metric, ())
            rows = [run.rows[path] for path in paths if path in run.rows]
            values[metric] = np.full_like(array, np.nan)
            values[metric][rows] = array[rows]
    metrics = tuple(metric for metric in run.table.metrics if metric.name in values)
    return replace(run, table=RunTable(run.table.callpaths, metrics, values, run.table.sites))
