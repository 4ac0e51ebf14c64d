"""Exclusive times from inclusive ones and the reverse: data of other tools often have only one."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath
from insitu.modeling.measurement import Experiment, FloatArray, RunTable


def add_own_times(experiment: Experiment) -> Experiment:
    """Return an experiment with exclusive times, if no run has any; else the experiment itself.

    The exclusive time of a call path is its time without that of the call paths below it. Times in
    flat lists of regions overlap, if `insitu.formats.nested_regions` did not recognise them.
    """
    metrics = {name for _, table in experiment.runs for name in table.values}
    if TIME.name not in metrics or TIME_EXCLUSIVE.name in metrics:
        return experiment
    return replace(experiment, runs=tuple((key, _add(table)) for key, table in experiment.runs))


def _add(table: RunTable) -> RunTable:
    times = table.values.get(TIME.name)
    if times is None:
        return table
    own = np.array(times)
    rows = {path: row for row, path in enumerate(table.callpaths)}
    for path, row in rows.items():
        if path.parent in rows:
            own[rows[path.parent]] -= np.nan_to_num(times[row])
    values: Mapping[str, FloatArray] = {
        **table.values,
        TIME_EXCLUSIVE.name: np.maximum(own, 0.0),
    }
    return replace(table, metrics=(*table.metrics, TIME_EXCLUSIVE), values=values)


def add_whole_times(experiment: Experiment) -> Experiment:
    """Return an experiment with inclusive times, if no run has any; else the experiment itself.

    The inclusive time of a call path is its exclusive time and that of all call paths below it.
    """
    metrics = {name for _, table in experiment.runs for name in table.values}
    if TIME_EXCLUSIVE.name not in metrics or TIME.name in metrics:
        return experiment
    runs = tuple((key, _add_below(table)) for key, table in experiment.runs)
    return replace(experiment, runs=runs)


def _add_below(table: RunTable) -> RunTable:
    own = table.values.get(TIME_EXCLUSIVE.name)
    if own is None:
        return table
    whole = np.nan_to_num(own)
    has_time = np.isfinite(own)
    rows = {path: row for row, path in enumerate(table.callpaths)}
    for path in sorted(rows, key=lambda path: -len(path.frames)):
        caller = _measured_caller(path, rows)
        if caller is not None:
            whole[rows[caller]] += whole[rows[path]]
            has_time[rows[caller]] |= has_time[rows[path]]
    values = {**table.values, TIME.name: np.where(has_time, whole, np.nan)}
    return replace(table, metrics=(*table.metrics, TIME), values=values)


def _measured_caller(path: CallPath, rows: Mapping[CallPath, int]) -> CallPath | None:
    """The innermost caller that was measured."""
    caller = path.parent
    while caller is not None and caller not in rows:
        caller = caller.parent
    return caller
