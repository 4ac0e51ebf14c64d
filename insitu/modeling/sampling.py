"""The sampling error of times: how far the time of a sampled function is from its true time.

A function that takes the share f of the run is hit by n of N samples, where n is binomial with
mean N·f and variance N·f·(1 - f). Its time is n times the interval between samples, so the variance
of the time is interval · time · (1 - f). Ranks are sampled independently: the variance of their
mean is lower by their number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from insitu.entities import ALLOCATIONS, HEAP_GROWTH, TIME, TIME_EXCLUSIVE, VISITS, CallPath
from insitu.modeling.base import ALL
from insitu.modeling.measurement import Experiment, FloatArray, RunTable, SeriesKey
from insitu.modeling.series import SIZE_OF_ZERO

MIN_SAMPLES = 10  # of a function in all ranks together; with fewer, its time is off by 32 % or more


def merge_rare_functions(table: RunTable, interval_s: float) -> RunTable:
    """Count functions with few samples for their callers, and fill in the ranks without a sample.

    Which ranks a rarely sampled function was seen in is chance, and says nothing of the program. A
    rank in which a function was never sampled has the time 0. Functions that call MPI or that
    allocate memory are kept as they are: their counts are exact.

    Args:
        table: of a run whose functions were sampled.
        interval_s: CPU time between two samples.
    """
    is_sampled = find_sampled_rows(table)
    calls_others = _calls_others(table.callpaths, is_sampled)
    time, exclusive = table.values.get(TIME.name), table.values.get(TIME_EXCLUSIVE.name)
    if time is None or exclusive is None or not is_sampled.any():
        return table

    sums = _add_to_callers(table.callpaths, np.where(is_sampled, np.nansum(exclusive, axis=1), 0.0))
    has_few_samples = is_sampled & ~calls_others & (sums < (MIN_SAMPLES - 0.5) * interval_s)
    is_rare = has_few_samples & ~_has_heap(table)
    is_measured = np.isfinite(time).any(axis=0)
    is_filled = is_sampled & ~calls_others & ~has_few_samples
    values = {name: array.copy() for name, array in table.values.items()}
    for name in (TIME.name, TIME_EXCLUSIVE.name):
        filled = values[name][is_filled]
        values[name][is_filled] = np.where(np.isnan(filled) & is_measured, 0.0, filled)

    row_of = {path.frames: row for row, path in enumerate(table.callpaths)}
    for row in np.flatnonzero(is_rare).tolist():
        caller = _kept_caller(table.callpaths[row], row_of, is_rare)
        if caller is not None:
            own = values[TIME_EXCLUSIVE.name]
            own[caller] += np.nan_to_num(own[row])

    kept = np.flatnonzero(~is_rare)
    return replace(
        table,
        callpaths=tuple(table.callpaths[row] for row in kept.tolist()),
        values={name: array[kept] for name, array in values.items()},
    )


def _has_heap(table: RunTable) -> NDArray[np.bool_]:
    """Whether something was allocated or freed in a call path, on any rank."""
    has_heap = np.zeros(len(table.callpaths), dtype=bool)
    for metric in (ALLOCATIONS, HEAP_GROWTH):
        if metric.name in table.values:
            has_heap |= (np.nan_to_num(table.values[metric.name]) != 0).any(axis=1)
    return has_heap


def _kept_caller(
    path: CallPath, row_of: Mapping[tuple[str, ...], int], is_rare: NDArray[np.bool_]
) -> int | None:
    """The row of the innermost caller that is not rare; None if none has a row."""
    for end in range(len(path.frames) - 1, 0, -1):
        row = row_of.get(path.frames[:end])
        if row is not None and not is_rare[row]:
            return row
    return None


def _calls_others(paths: Sequence[CallPath], is_sampled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether something that was not sampled is below a call path, such as an MPI call."""
    callers: set[tuple[str, ...]] = set()
    for path, sampled in zip(paths, is_sampled.tolist(), strict=True):
        if not sampled:
            callers.update(path.frames[:end] for end in range(1, len(path.frames)))
    return np.array([path.frames in callers for path in paths], dtype=bool)


def sampling_variances(
    experiment: Experiment, metric: str, series: Mapping[SeriesKey, FloatArray]
) -> FloatArray | None:
    """Return the relative variance of values that comes from sampling; None if there is none.

    It is 0 for what was not sampled. The value of a class of ranks counts as that of one rank,
    which is an upper bound.

    Args:
        experiment: the runs.
        metric: of the series.
        series: values (n_runs,) by key, NaN where nothing was measured.

    Returns:
        Variances (n_series, n_runs).
    """
    if not experiment.sampling_s or metric not in (TIME.name, TIME_EXCLUSIVE.name):
        return None

    keys = list(series)
    values = np.array([series[key] for key in keys])
    variances = np.zeros(values.shape)
    largest = np.nanmax(values, axis=1, initial=0.0)
    for run, (key, table) in enumerate(experiment.runs):
        interval = experiment.sampling_s.get(key)
        if interval is None:
            continue

        times = _sampled_times(table, is_inclusive=metric == TIME.name)
        total = _mean(table, TIME.name).max(initial=0.0)
        of_path = dict(zip(table.callpaths, times.tolist(), strict=True))
        ranks = np.array([table.size if k.behaviour == ALL else 1 for k in keys])
        sampled = np.array([of_path.get(k.callpath, np.nan) for k in keys])
        variances[:, run] = _relative_variances(
            values[:, run], sampled, total=total, interval=interval, ranks=ranks, largest=largest
        )
    return variances


def _relative_variances(
    values: FloatArray,
    sampled: FloatArray,
    *,
    total: float,
    interval: float,
    ranks: FloatArray,
    largest: FloatArray,
) -> FloatArray:
    """The relative variance of each value: (n_series,).

    Args:
        values: (n_series,). sampled: (n_series,), the sampled time in them, NaN for what was not
            sampled. total: of the program. interval: between samples. ranks: (n_series,).
        largest: (n_series,), value of any run, to a share of which the error of a zero is relative.
    """
    is_sampled = np.isfinite(sampled) & np.isfinite(values)
    # Where no sample hit, fewer than about one was expected.
    least = interval / ranks
    time = np.where(is_sampled, np.maximum(sampled, least), 0.0)
    share = np.minimum(time / total, 1.0) if total > 0 else np.zeros(len(time))
    # Samples come at equal distances: with a share of 1, only both ends of the run are unknown.
    variance = np.maximum(interval * time * (1 - share), interval**2 / 6) / ranks
    size = np.where(values > 0, np.maximum(values, least), SIZE_OF_ZERO * largest)
    size = np.where(size > 0, size, least)
    return np.where(is_sampled, variance / size**2, 0.0)


def _mean(table: RunTable, metric: str) -> FloatArray:
    """The mean over ranks: (n_call_paths,), 0 where no rank has a value."""
    values = table.values.get(metric)
    if values is None or not values.size:
        return np.zeros(len(table.callpaths))
    return np.asarray(np.nan_to_num(values).mean(axis=1))


def _sampled_times(table: RunTable, *, is_inclusive: bool) -> FloatArray:
    """The sampled time of each call path (n_call_paths,), NaN for those that were not sampled."""
    is_sampled = find_sampled_rows(table)
    own = np.where(is_sampled, _mean(table, TIME_EXCLUSIVE.name), 0.0)
    if is_inclusive:
        own = _add_to_callers(table.callpaths, own)
    return np.where(is_sampled, own, np.nan)


def find_sampled_rows(table: RunTable) -> NDArray[np.bool_]:
    """Which call paths were sampled, (n_call_paths,): they have times and no visits."""
    exclusive, visits = table.values.get(TIME_EXCLUSIVE.name), table.values.get(VISITS.name)
    if exclusive is None or visits is None:
        return np.zeros(len(table.callpaths), dtype=bool)
    return np.asarray(np.isnan(visits).all(axis=1) & np.isfinite(exclusive).any(axis=1))


def _add_to_callers(paths: Sequence[CallPath], own: FloatArray) -> FloatArray:
    """The sum of each call path and all below it: (n_call_paths,)."""
    row_of = {path.frames: row for row, path in enumerate(paths)}
    sums = np.zeros(len(own))
    for path, value in zip(paths, own.tolist(), strict=True):
        for end in range(1, len(path.frames) + 1) if value else ():
            row = row_of.get(path.frames[:end])
            if row is not None:
                sums[row] += value
    return sums
