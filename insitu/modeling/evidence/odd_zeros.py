"""Exact zeros that no law explains: measurements that failed, and what one rank does not do.

A timer that did not run, or a counter that was not read, leaves a zero between inexact values. No
function of the hypothesis space that is positive at its neighbours is zero there, but each bends
towards it. So such a value is not used, and is reported.

A single rank sends no messages, whatever the law of larger runs. Few functions are 0 at one rank.
Where all points had to follow one of them, series of 5 points that are constant or fall as 1 / p
were predicted to grow.
"""

from dataclasses import replace

import numpy as np

from insitu.entities import Finding, number
from insitu.modeling.base import Model
from insitu.modeling.evidence.noise import BoolArray, are_counts
from insitu.modeling.measurement import FloatArray
from insitu.modeling.series import SIZE_OF_ZERO, Series

MIN_OTHERS = 4  # positive values of a series, whose law a zero between them contradicts
MIN_LARGER = 3  # positive values behind a first zero, from which their law is known without it

# The model of all values is kept if its residuals are at most this many times as large as those of
# the model of the larger runs. Chosen on 14 laws of 4 to 6 points (those of
# tests/evaluation/first_zero.py, seeds 31 and 32), where 1 to 2 predict about as well.
MAX_RATIO = 1.25
LEAST_RESIDUAL = 0.005  # relative; smaller residuals count as this large
EXACT = 1e-6  # relative error up to which a function passes through counts


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


def find_first_zeros(series: Series) -> BoolArray:
    """Return which values of one parameter are 0 while all larger runs have positive ones: (s, n).

    Args:
        series: of one parameter.
    """
    values = series.values
    is_measured = np.isfinite(values)
    is_first = is_measured & (np.cumsum(is_measured, axis=1) == 1)
    n_larger = is_measured.sum(axis=1) - 1
    has_positive = ((values > 0).sum(axis=1) == n_larger) & (n_larger >= MIN_LARGER)
    return np.asarray(is_first & (values == 0) & has_positive[:, None])


def choose_with_first_zero(whole: Model, larger: Model, parameter: str) -> Model:
    """Return the model of all values, or that of the larger runs if it describes them better.

    Args:
        whole: of all values, the first of which is 0. larger: of the others. parameter: of both.
    """
    values = larger.values
    of_whole, of_larger = (
        _residuals(model, larger.coordinates, values) for model in (whole, larger)
    )
    is_exact = bool(np.abs(of_whole).max() < EXACT)
    left = [_size(of_whole, whole), max(_size(of_larger, larger), LEAST_RESIDUAL)]
    if is_exact or left[0] <= MAX_RATIO * left[1]:
        return whole
    at = number(float(np.setdiff1d(whole.coordinates, larger.coordinates)[0]))
    text = f"the value at {parameter}={at} is 0; the model is that of the larger runs"
    return replace(larger, findings=(Finding("first-point-off", text), *larger.findings))


def _residuals(model: Model, coordinates: FloatArray, values: FloatArray) -> FloatArray:
    """Logarithm of value over formula at points of positive values: (n,)."""
    fitted = model.formula_at(coordinates)
    return np.asarray(np.log(values / np.maximum(fitted, SIZE_OF_ZERO * values.min())))


def _size(residuals: FloatArray, model: Model) -> float:
    """The standard deviation of residuals, with a degree of freedom less per coefficient."""
    functions = [segment.function for segment in model.segments]
    columns = sum((function.constant != 0) + len(function.terms) for function in functions)
    return float(np.sqrt((residuals**2).sum() / max(len(residuals) - columns, 1)))


def leave_out(series: Series, is_odd: BoolArray) -> Series:
    """Return the series as if these values (s, n) had not been measured."""
    return replace(
        series,
        values=np.where(is_odd, np.nan, series.values),
        counts=np.where(is_odd, 0.0, series.counts),
        deviations=np.where(is_odd, np.nan, series.deviations),
        lags=np.where(is_odd[:, :, None], 0.0, series.lags),
    )


def report_odd_zero(model: Model, x: FloatArray, parameter: str) -> Model:
    """A model of the other values with what was left out, at values of the parameter (1,) or (0,).

    Returns:
        The model as it is where nothing was.
    """
    if len(x) == 0:
        return model
    text = (
        f"the value at {parameter}={number(x[0])} is 0 between positive values; "
        "the model is that of the other runs"
    )
    return replace(model, findings=(Finding("point-off", text), *model.findings))
