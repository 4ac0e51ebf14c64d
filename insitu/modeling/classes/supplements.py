"""Series beside those of classes and means: the maximum over ranks, and the whole run.

A run takes as long as its slowest rank, so each call path and metric also has a model of the
maximum over ranks.
"""

from collections.abc import Sequence

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath
from insitu.modeling.base import MAXIMUM
from insitu.modeling.classes.behaviour import MetricValues
from insitu.modeling.classes.run_groups import values_by_run
from insitu.modeling.measurement import Experiment, FloatArray, SeriesKey

WHOLE_RUN = CallPath(("(whole run)",))
LONGER = 1.1  # times as long as its caller: more than noise
EQUAL = 1e-12  # relative: differences of rounding between a mean and a maximum of equal values


def find_maxima(measured: MetricValues) -> dict[SeriesKey, FloatArray]:
    """The maximum over ranks of each call path, values (n_runs,) by key.

    Call paths whose ranks are equal in every run are left out: their maximum is their mean.

    Args:
        measured: the values of one metric of several call paths.
    """
    n_paths, n_runs = len(measured.paths), len(measured.tables)
    maxima, minima = np.full((n_paths, n_runs), np.nan), np.full((n_paths, n_runs), np.nan)
    for group in measured.groups:
        for run in group.runs:
            table = measured.tables[run]
            is_present = np.isfinite(table)
            has_value = is_present.any(axis=1)
            highest = np.where(is_present, table, -np.inf).max(axis=1, initial=-np.inf)
            lowest = np.where(is_present, table, np.inf).min(axis=1, initial=np.inf)
            maxima[:, run] = np.where(has_value, highest, np.nan)
            minima[:, run] = np.where(has_value, lowest, np.nan)

    differs = (maxima - minima > EQUAL * np.abs(maxima)).any(axis=1)
    return {
        SeriesKey(measured.paths[row], measured.metric.name, MAXIMUM): maxima[row]
        for row in np.flatnonzero(differs).tolist()
    }


def measure_whole_runs(
    experiment: Experiment, callpaths: Sequence[CallPath]
) -> dict[SeriesKey, FloatArray]:
    """The time of the slowest rank in each run, (n_runs,) by key.

    The time of a rank is that of all call paths without a measured caller. It is unknown, NaN,
    where one of these takes less time than what it calls and no exclusive times were measured: then
    times do not include those of called functions.

    Args:
        experiment: the runs.
        callpaths: all that are measured in these and other runs.
    """
    top = find_top_paths(callpaths)
    called = [path for path in callpaths if path.parent in set(top)]
    tables = values_by_run(experiment, TIME.name, [*top, *called])
    row_of = {path: row for row, path in enumerate(top)}
    callers = np.array([row_of[path.parent] for path in called if path.parent], dtype=np.intp)

    times = np.full(len(tables), np.nan)
    for run, table in enumerate(tables):
        of_top, of_called = table[: len(top)], table[len(top) :]
        spent = np.nansum(of_top, axis=1)
        has_exclusive = TIME_EXCLUSIVE.name in experiment.runs[run][1].values
        is_longer = np.any(np.nansum(of_called, axis=1) > LONGER * spent[callers])
        is_exclusive = bool(is_longer) and not has_exclusive
        if np.isfinite(of_top).any() and not is_exclusive:
            times[run] = float(np.nansum(of_top, axis=0).max())
    return {SeriesKey(WHOLE_RUN, TIME.name, MAXIMUM): times}


def find_top_paths(callpaths: Sequence[CallPath]) -> list[CallPath]:
    """The call paths none of whose callers is among them, sorted."""
    paths = set(callpaths)
    return [path for path in sorted(paths) if not _has_caller(path, paths)]


def _has_caller(path: CallPath, paths: set[CallPath]) -> bool:
    return any(CallPath(path.frames[:end]) in paths for end in range(1, len(path.frames)))
