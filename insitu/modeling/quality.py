"""Measures of how well a function fits its points."""

import numpy as np

from insitu.modeling.base import Quality
from insitu.modeling.measurement import FloatArray


def smape(values: FloatArray, fitted: FloatArray) -> FloatArray:
    """Return the symmetric mean absolute percentage error, 0 to 200: (…, n) to (…,) [REF §3.1].

    Points where both are zero count as exact. NaN in `values` is not measured.
    """
    total = np.abs(values) + np.abs(fitted)
    with np.errstate(invalid="ignore"):  # functions may be infinite where nothing was measured
        error = np.abs(values - fitted) / np.where(total > 0, total / 2, 1.0)
    is_measured = ~np.isnan(values)
    count = np.maximum(is_measured.sum(axis=-1), 1)
    return np.asarray(100 * np.where(is_measured, error, 0.0).sum(axis=-1) / count)


def nrss(values: FloatArray, fitted: FloatArray) -> float:
    """Return the root of the residual sum of squares over the mean of the values (n,) [SEG §3.1].

    Zero if both are zero, infinite if only the mean is.
    """
    mean = float(np.mean(values))
    root = float(np.sqrt(np.sum((values - fitted) ** 2)))
    if mean == 0:
        return 0.0 if root == 0 else float("inf")
    return root / abs(mean)


def quality(values: FloatArray, fitted: FloatArray, *, coefficients: int) -> Quality:
    """Return all measures of one series.

    Args:
        values, fitted: (n,), all of them measured.
        coefficients: how many were fitted, with the constant.
    """
    rss = float(np.sum((values - fitted) ** 2))
    degrees = len(values) - coefficients
    total = float(np.sum((values - np.mean(values)) ** 2)) if len(values) else 0.0
    adjusted = float("nan")
    if degrees > 0 and total > 0:
        adjusted = 1 - (rss / degrees) / (total / (len(values) - 1))
    return Quality(smape=float(smape(values, fitted)), adjusted_r2=adjusted, rss=rss)


def qualities(values: FloatArray, fitted: FloatArray, coefficients: FloatArray) -> list[Quality]:
    """Return all measures of many series at once.

    Args:
        values: (s, n), NaN where nothing was measured. fitted: (s, n).
        coefficients: (s,), how many were fitted, with the constant.
    """
    is_measured = ~np.isnan(values)
    filled = np.where(is_measured, values, 0.0)
    count = is_measured.sum(axis=1)
    mean = filled.sum(axis=1) / np.maximum(count, 1)

    residuals = np.where(is_measured, filled - fitted, 0.0)
    rss = (residuals**2).sum(axis=1)
    total = np.where(is_measured, (filled - mean[:, None]) ** 2, 0.0).sum(axis=1)

    degrees = count - coefficients
    is_defined = (degrees > 0) & (total > 0)
    variance = np.where(is_defined, total / np.maximum(count - 1, 1), 1.0)
    adjusted = 1 - (rss / np.maximum(degrees, 1)) / variance
    adjusted = np.where(is_defined, adjusted, np.nan)

    columns = zip(smape(values, fitted).tolist(), adjusted.tolist(), rss.tolist(), strict=True)
    return [Quality(error, r2, squares) for error, r2, squares in columns]
