"""Measures of how well a function fits its points."""

import numpy as np

from insitu.modeling.base import Quality
from insitu.modeling.measurement import FloatArray


def smape(values: FloatArray, fitted: FloatArray) -> FloatArray:
    """Symmetric mean absolute percentage error over the last axis, (…, n) to (…,), 0 to 200 [REF
    §3.1].

    Points where both are zero count as exact; NaN in `values` is not measured.
    """
    total = np.abs(values) + np.abs(fitted)
    with np.errstate(invalid="ignore"):  # functions may be infinite where nothing was measured
        error = np.abs(values - fitted) / np.where(total > 0, total / 2, 1.0)
    measured = ~np.isnan(values)
    count = np.maximum(measured.sum(axis=-1), 1)
    return np.asarray(100 * np.where(measured, error, 0.0).sum(axis=-1) / count)


def nrss(values: FloatArray, fitted: FloatArray) -> float:
    """Root of the residual sum of squares divided by the mean of the values (n,) [SEG §3.1]."""
    mean = float(np.mean(values))
    root = float(np.sqrt(np.sum((values - fitted) ** 2)))
    if mean == 0:
        return 0.0 if root == 0 else float("inf")
    return root / abs(mean)


def quality(values: FloatArray, fitted: FloatArray, *, coefficients: int) -> Quality:
    """All measures of one series (n,), all of it measured; `coefficients` counts the constant
    too.
    """
    rss = float(np.sum((values - fitted) ** 2))
    degrees = len(values) - coefficients
    total = float(np.sum((values - np.mean(values)) ** 2)) if len(values) else 0.0
    adjusted = float("nan")
    if degrees > 0 and total > 0:
        adjusted = 1 - (rss / degrees) / (total / (len(values) - 1))
    return Quality(smape=float(smape(values, fitted)), adjusted_r2=adjusted, rss=rss)


def qualities(values: FloatArray, fitted: FloatArray, columns: FloatArray) -> list[Quality]:
    """The same for many series at once: (s, n), NaN in values not measured, columns (s,)."""
    measured = ~np.isnan(values)
    filled = np.where(measured, values, 0.0)
    count = measured.sum(axis=1)
    mean = filled.sum(axis=1) / np.maximum(count, 1)
    rss = np.where(measured, filled - fitted, 0.0)
    rss = (rss**2).sum(axis=1)
    total = np.where(measured, (filled - mean[:, None]) ** 2, 0.0).sum(axis=1)
    degrees = count - columns
    defined = (degrees > 0) & (total > 0)
    adjusted = 1 - (rss / np.maximum(degrees, 1)) / np.where(
        defined, total / np.maximum(count - 1, 1), 1.0
    )
    adjusted = np.where(defined, adjusted, np.nan)
    errors = smape(values, fitted)
    return [
        Quality(*three)
        for three in zip(errors.tolist(), adjusted.tolist(), rss.tolist(), strict=True)
    ]
