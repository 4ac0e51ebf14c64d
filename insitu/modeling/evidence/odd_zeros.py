"""An exact zero between inexact values: a measurement that failed, not a small value.

A timer that did not run, or a counter that was not read, leaves a zero. No function of the
hypothesis space that is positive at its neighbours is zero there, but each bends towards it. So
such a value is not used, and is reported.
"""

from dataclasses import replace

import numpy as np

from insitu.modeling.evidence.noise import BoolArray, are_counts
from insitu.modeling.evidence.relative_data import SIZE_OF_ZERO
from insitu.modeling.series import Series

MIN_OTHERS = 4  # positive values of a series, whose law a zero between them contradicts


def find_odd_zeros(series: Series) -> BoolArray:
    """Return which values of one parameter are zeros that no small value explains: (s, n).

    The only zero of a series whose other values are positive and not all whole, between two that
    are not small themselves. The first and the last value may be zero: what is done on more than
    one rank, or ends, is.

    Args:
        series: of one parameter.
    """
    values = series.values
    is_odd = np.zeros(values.shape, dtype=bool)
    if values.shape[1] <= MIN_OTHERS:
        return is_odd

    is_zero = values == 0
    is_positive = values > 0
    is_inexact = ~are_counts(values)
    candidates = is_inexact & (is_zero.sum(axis=1) == 1) & (is_positive.sum(axis=1) >= MIN_OTHERS)
    candidates &= ~(values < 0).any(axis=1)
    for row in np.flatnonzero(candidates).tolist():
        measured = np.flatnonzero(np.isfinite(values[row]))
        at = int(np.flatnonzero(values[row, measured] == 0)[0])
        if not 0 < at < len(measured) - 1:
            continue
        neighbours = values[row, measured[[at - 1, at + 1]]]
        if neighbours.min() > SIZE_OF_ZERO * values[row, measured].max():
            is_odd[row, measured[at]] = True
    return is_odd


def leave_out(series: Series, is_odd: BoolArray) -> Series:
    """Return the series as if these values (s, n) had not been measured."""
    return replace(
        series,
        values=np.where(is_odd, np.nan, series.values),
        counts=np.where(is_odd, 0.0, series.counts),
        deviations=np.where(is_odd, np.nan, series.deviations),
        lags=np.where(is_odd[:, :, None], 0.0, series.lags),
    )
