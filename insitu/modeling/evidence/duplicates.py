"""Series with equal data, which have equal answers and are solved once.

Half of the series of a campaign are counts, and most call paths have the counts of many others:
7,500 series of counts of 1,500 call paths are ten different ones in tests/benchmarks/growth.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.evidence.repetitions import RepetitionWorth
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import Series


@dataclass(frozen=True, slots=True)
class Distinct:
    """Which of s series are equal.

    first: (d,), the first of each group of equal series, ascending. group: (s,), the group of each.
    """

    first: IntArray
    group: IntArray


def find_distinct(
    series: Series, worth: RepetitionWorth, noise: FloatArray | None = None
) -> Distinct:
    """Group the series of a pool whose answers are equal because their data are.

    Args:
        series: s of them.
        worth: of their repetitions.
        noise: (s, L), the probability of each level of noise, where it is known.
    """
    parts = [worth.repetitions, worth.deviations, worth.newest[:, None]]
    return _group_equal(series, parts if noise is None else [*parts, noise])


def find_distinct_series(series: Series, metrics: Sequence[str]) -> Distinct:
    """Group series with equal data and the same metric, one of each series."""
    _, numbers = np.unique(metrics, return_inverse=True)
    return _group_equal(series, [numbers.reshape(-1, 1).astype(np.float64)])


def _group_equal(series: Series, parts: Sequence[FloatArray]) -> Distinct:
    """Group the series whose data and further columns, (s, k) each, are the same to the bit."""
    n_series = len(series.values)
    lags = series.lags.reshape(n_series, 3 * series.values.shape[1])
    columns = [series.values, series.counts, series.deviations, lags]
    if series.known_variances is not None:
        columns.append(series.known_variances)
    table = np.concatenate([*columns, *parts], axis=1)
    contents, width = table.tobytes(), table.shape[1] * table.itemsize

    group_of: dict[bytes, int] = {}
    first: list[int] = []
    group = np.empty(n_series, dtype=np.intp)
    for row in range(n_series):
        content = contents[row * width : (row + 1) * width]
        number = group_of.setdefault(content, len(first))
        if number == len(first):
            first.append(row)
        group[row] = number
    return Distinct(np.array(first, dtype=np.intp), group)
