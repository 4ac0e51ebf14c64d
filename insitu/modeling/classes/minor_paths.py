"""Call paths that take so little time that no classes are looked for in their own times."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from insitu.entities import TIME, CallPath
from insitu.modeling.classes.behaviour import MetricValues
from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.classes.matcher import OwnTimes, PathClasses
from insitu.modeling.classes.scatter import least_spread, repetition_spread
from insitu.modeling.measurement import FloatArray

MINOR_SHARE = 0.01  # of its root's time: a call path below it is not worth the cost of a mixture


def find_minor_paths(
    measured: MetricValues, root_times: Mapping[CallPath, FloatArray], whole_times: FloatArray
) -> BoolArray:
    """Times that are a small share of their root's in every rank of every run: (n_paths,).

    Their ranks count as one class unless counts separate them: a search is not worth its cost. A
    call path that is expensive in a few ranks only is not minor, however small its mean. Where the
    root was not measured, the whole run takes its place.

    Args:
        measured: the values of one metric.
        root_times: (n_runs,), mean time of each call path without a parent.
        whole_times: (n_runs,), time of all call paths without a measured caller.
    """
    is_minor = np.zeros(len(measured.paths), dtype=bool)
    if measured.metric.unit != TIME.unit:
        return is_minor

    largest = []  # value over the ranks of each run, (n_paths,)
    for table in measured.tables:
        largest.append(np.where(np.isfinite(table), table, 0.0).max(axis=1, initial=0))

    for row, path in enumerate(measured.paths):
        root = root_times.get(CallPath(path.frames[:1]), whole_times)
        shares = np.array([run[row] for run in largest]) / np.where(root > 0, root, np.nan)
        known = shares[np.isfinite(shares)]
        is_minor[row] = known.size > 0 and float(known.max()) < MINOR_SHARE
    return is_minor


def allow_shared_sets(
    measured: MetricValues, by_path: Mapping[int, PathClasses], is_minor: BoolArray
) -> dict[int, PathClasses]:
    """The classes of minor call paths, by row, which may take over a set that others share.

    Args:
        measured: the values of one metric.
        by_path: the classes by row.
        is_minor: (n_paths,), call paths without a search for classes of their own.
    """
    rows = np.flatnonzero(is_minor).tolist()
    if not rows:
        return {}
    spread = repetition_spread(measured.select(rows).tables, measured.groups)
    return {
        row: replace(by_path[row], own=OwnTimes(least_spread(float(value))))
        for row, value in zip(rows, spread, strict=True)
    }
