"""The icicle of a run or of a prediction: the time of each call path without what it calls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from insitu.analysis.class_costs import costs_along
from insitu.analysis.cost import cost_metric
from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import FloatArray, RunTable


@dataclass(frozen=True, slots=True)
class IcicleRow:
    """A call path: mean, smallest and largest value of the ranks that executed it.

    The mean counts ranks that did not execute it as 0, so that the means of all rows add up.
    """

    callpath: CallPath
    mean: float
    low: float
    high: float


def icicle_of_run(table: RunTable) -> tuple[str, list[IcicleRow]]:
    """The icicle of a run, which may be incomplete: metric and rows; ("", []) without times."""
    own = table.values.get(TIME_EXCLUSIVE.name)
    if own is None:
        inclusive = table.values.get(TIME.name)
        if inclusive is None:
            return "", []
        own = _without_callees(table.callpaths, inclusive)

    rows = []
    for path, values in zip(table.callpaths, own, strict=True):
        measured = values[np.isfinite(values)]
        if len(measured):
            mean = float(measured.sum()) / len(values)
            rows.append(IcicleRow(path, mean, float(measured.min()), float(measured.max())))
    return TIME_EXCLUSIVE.name, rows


def _without_callees(callpaths: Iterable[CallPath], inclusive: FloatArray) -> FloatArray:
    """Exclusive times (n_call_paths, n_ranks) from inclusive ones."""
    own = inclusive.copy()
    row_of = {path: row for row, path in enumerate(callpaths)}
    for path, row in row_of.items():
        caller = row_of.get(path.parent) if path.parent is not None else None
        if caller is not None:
            own[caller] -= np.nan_to_num(inclusive[row])

    return np.maximum(own, 0.0)


def predict_icicle(models: ModelSet, at: Mapping[str, float]) -> tuple[str, list[IcicleRow]]:
    """The icicle that the models predict at a coordinate: metric and rows.

    Args:
        models: of the campaign.
        at: a value for each parameter.
    """
    metric = cost_metric(models)
    if metric != TIME_EXCLUSIVE.name:
        return "", []

    point = np.array([[at[name] for name in models.parameters]])
    rows = []
    for path, (value,) in costs_along(models, metric, point).items():
        if np.isfinite(value):
            rows.append(IcicleRow(path, max(float(value), 0.0), float(value), float(value)))
    return metric, rows
