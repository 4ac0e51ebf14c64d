"""Exclusive times of experiments that have only inclusive ones, as data of other tools often do."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE
from insitu.modeling.measurement import Experiment, FloatArray, RunTable


def add_own_times(experiment: Experiment) -> Experiment:
    """Return an experiment with exclusive times, if no run has any; else the experiment itself.

    The exclusive time of a call path is its time without that of the call paths below it. A flat
    list of regions that contain each other, such as `main()` and `solve`, cannot be recognised:
    their times overlap.
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
