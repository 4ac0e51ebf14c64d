"""The probability of data under a hypothesis, its coefficients integrated out.

With relative errors the data of a series are ones and the columns of a hypothesis are t(x)/y.
Given the noise σ the likelihood is Gaussian in the coefficients, around their least squares
estimate. A coefficient is positive, and the largest share its term has of a value is log-uniform
between LEAST and 1. What a term adds below NEGLIGIBLE·σ cannot be seen, so the hypothesis without
it stands for that part. The integral over each coefficient is one-dimensional and comes from a
table; the determinant of the normal equations accounts for what the estimates share.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.measurement import FloatArray

LEAST = 1e-4  # smallest share of a term at its largest
LOG_RANGE = float(-np.log(LEAST))
NEGLIGIBLE = 0.5  # share of the noise below which a term cannot be seen
LOG_TWO_PI = float(np.log(2 * np.pi))
Singles = NDArray[np.float32]
LOWEST, HIGHEST, FAR = -12.0, 6.9, 6.5  # estimates in standard deviations that the table covers
ENTRIES = 4000  # of the table; the next one is taken, off by less than single precision tells
BOUND = 1e12  # of what is computed in single precision, so that squares stay finite


@lru_cache(maxsize=1)
def _table() -> Singles:
    """q(z) = ∫₀^∞ (exp(vz - v²/2) - [v < 1]) / v dv, so that ∫_a^∞ φ(v - z)/v dv ≈ φ(z)(q(z) - ln
    a).
    """
    below, above = np.logspace(-6, 0, 400), np.linspace(1, 22, 3000)
    z = np.linspace(LOWEST, HIGHEST, ENTRIES)[:, None]
    inner = np.expm1(below * z - below**2 / 2) / below
    outer = np.exp(above * z - above**2 / 2) / above
    return (_integral(inner, below) + _integral(outer, above)).astype(np.float32)


def _integral(y: FloatArray, x: FloatArray) -> FloatArray:
    return np.asarray(((y[:, 1:] + y[:, :-1]) / 2 * np.diff(x)).sum(axis=1))


def log_mass(z: Singles, log_reach: Singles) -> Singles:
    """ln ∫_a^∞ φ(v - z)/v dv with ln(1/a) = log_reach, element by element."""
    scale = np.float32((ENTRIES - 1) / (HIGHEST - LOWEST))
    index = ((np.clip(z, LOWEST, HIGHEST) - np.float32(LOWEST)) * scale).astype(np.intp)
    total = np.take(_table(), index)
    total += np.maximum(log_reach, 0)
    near = np.log(np.maximum(total, np.float32(1e-3)))
    near -= np.float32(0.5) * z * z
    near -= np.float32(0.5 * LOG_TWO_PI)
    far = np.maximum(z, np.float32(FAR))
    return np.where(z > FAR, np.reciprocal(far * far) - np.log(far), near)


def negligible(levels: FloatArray) -> FloatArray:
    """The part of the prior of a coefficient in which its term cannot be seen: (L,), for noise
    levels (L,).
    """
    share = (np.log(NEGLIGIBLE * levels) + LOG_RANGE) / LOG_RANGE
    return np.asarray(np.clip(share, 1e-9, 1.0))


def log_evidence(
    levels: FloatArray,
    *,
    degrees: FloatArray,
    rss: FloatArray,
    log_determinant: FloatArray,
    estimates: tuple[FloatArray, ...],
    deviations: tuple[FloatArray, ...],
    largest: tuple[FloatArray, ...],
) -> FloatArray:
    """Logarithm of the marginal likelihood at each noise level, prior of the hypothesis not
    included.

    Args:
        levels: (L,) relative noise. degrees: number of points less the number of columns.
        rss: weighted residual sum of squares; log_determinant: of the normal equations.
        estimates, deviations: of each coefficient, the latter at noise 1. largest: of each term
            relative to the data, so that its share is the product with the coefficient. All but
            levels of one shape; answers (…, L).
    """
    level = levels.reshape(-1, *[1] * rss.ndim)
    logs = np.log(level)
    answer = _single(-0.5 * level**-2.0) * _single(rss)
    answer -= _single(degrees / 2) * _single(LOG_TWO_PI + 2 * logs)
    answer -= _single(0.5 * log_determinant)
    smallest = np.maximum(np.log(NEGLIGIBLE) + logs, -LOG_RANGE)
    for estimate, deviation, size in zip(estimates, deviations, largest, strict=True):
        log_deviation = np.log(deviation)
        z = _single(1 / level) * _single(estimate / deviation)
        reach = _single(log_deviation + np.log(size)) + _single(logs - smallest)
        answer += log_mass(z, reach)
        answer -= _single(log_deviation)
        answer -= _single(logs + np.log(LOG_RANGE))
    return np.moveaxis(answer, 0, -1).astype(np.float64)


def _single(values: FloatArray) -> Singles:
    """In single precision: the logarithm of an evidence needs no more, and costs half."""
    return np.clip(values, -BOUND, BOUND).astype(np.float32)
