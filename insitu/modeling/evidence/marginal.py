"""The marginal likelihood: the probability of data under a hypothesis, coefficients integrated out.

With relative errors the data of a series are ones and the columns of a hypothesis are t(x)/y.
Given the noise σ, the likelihood is Gaussian in the coefficients, around their least squares
estimate. The prior of a coefficient: it is positive, and the largest share that its term has of a
value is log-uniform between MIN_SHARE and 1. A term that adds less than VISIBLE·σ cannot be seen,
so the hypothesis without the term stands for that range of the prior. The integral over each
coefficient is one-dimensional and comes from a table; the determinant of the normal equations
accounts for the correlation of the estimates.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.measurement import FloatArray

Float32Array = NDArray[np.float32]

MIN_SHARE = 1e-4  # smallest share of a value that a term may have at its largest
LOG_RANGE = float(-np.log(MIN_SHARE))  # width of the log-uniform prior of a coefficient
VISIBLE = 0.5  # times the noise: a term that adds less cannot be seen
LOG_TWO_PI = float(np.log(2 * np.pi))

# The table of the integral over a coefficient, by its estimate in standard deviations.
LOWEST_Z, HIGHEST_Z = -12.0, 6.9
ASYMPTOTIC_FROM_Z = 6.5  # above, an asymptotic expansion replaces the table
TABLE_SIZE = 4000  # entries are so close that the nearest is exact to single precision
TABLE_ROWS = 80  # of z; within each, exp(vz) is that of its first z times that of a step

LOWEST_SINGLE, HIGHEST_SINGLE = np.float32(LOWEST_Z), np.float32(HIGHEST_Z)
STEPS_PER_Z = np.float32((TABLE_SIZE - 1) / (HIGHEST_Z - LOWEST_Z))

MAX_SINGLE = 1e12  # numbers are clipped to this in single precision, so that squares stay finite


@lru_cache(maxsize=1)
def _integral_table() -> Float32Array:
    """q(z) = ∫₀^∞ (exp(vz - v²/2) - [v < 1]) / v dv, by the trapezoidal rule.

    With it, ∫_a^∞ φ(v - z)/v dv ≈ φ(z)(q(z) - ln a).

    With z = s + t, exp(vz) is the product of exp(vs) and exp(vt), so the sums over v are a product
    of matrices. Every process that fits a model needs the table, and an exponential of each pair
    of z and v takes twenty times as long.
    """
    below, above = np.logspace(-6, 0, 400), np.linspace(1, 22, 3000)
    v = np.concatenate([below, above])
    weights = np.concatenate([_trapezoid_weights(below), _trapezoid_weights(above)]) / v

    z = np.linspace(LOWEST_Z, HIGHEST_Z, TABLE_SIZE).reshape(TABLE_ROWS, -1)
    firsts, steps = z[:, :1], z[0] - z[0, 0]
    integral = (weights * np.exp(firsts * v - v**2 / 2)) @ np.exp(v[:, None] * steps)
    integral -= weights[: len(below)].sum()
    return np.asarray(integral.ravel().astype(np.float32))


def _trapezoid_weights(x: FloatArray) -> FloatArray:
    """The weight of each value in the integral over x by the trapezoidal rule: (n,)."""
    halves = np.diff(x) / 2
    return np.asarray(np.append(halves, 0) + np.append(0, halves))


def log_mass(z: Float32Array, log_reach: Float32Array) -> Float32Array:
    """Return ln ∫_a^∞ φ(v - z)/v dv with ln(1/a) = log_reach, element by element.

    φ is the density of the standard normal distribution.
    """
    clipped = np.minimum(np.maximum(z, LOWEST_SINGLE), HIGHEST_SINGLE)
    clipped -= LOWEST_SINGLE
    clipped *= STEPS_PER_Z
    index = clipped.astype(np.intp)

    total = np.take(_integral_table(), index)
    total += np.maximum(log_reach, 0)
    np.maximum(total, np.float32(1e-3), out=total)

    # Far from zero the integrand is φ(v - z)/v with v ≈ z: expand 1/v around z. Each element needs
    # the logarithm of one of the two, which costs most here.
    is_far = z > ASYMPTOTIC_FROM_Z
    np.copyto(total, z, where=is_far)
    near = np.log(total)
    far = np.reciprocal(total * total) - near
    near -= np.float32(0.5) * z * z
    near -= np.float32(0.5 * LOG_TWO_PI)
    np.copyto(near, far, where=is_far)
    return near


def invisible_prior(levels: FloatArray) -> FloatArray:
    """Return the share of a coefficient's prior in which its term cannot be seen: (L,).

    Args:
        levels: (L,) noise levels.
    """
    share = (np.log(VISIBLE * levels) + LOG_RANGE) / LOG_RANGE
    return np.asarray(np.clip(share, 1e-9, 1.0))


class _LevelTerms(NamedTuple):
    """What depends on the noise levels alone: (L,) each, in single precision.

    log_normalisation: logarithm of 2π times the variance. inverse: 1 / level. log_reach: of the
    level over the smallest share that can be seen. log_width: of the level times the width of the
    prior.
    """

    log_normalisation: Float32Array
    inverse: Float32Array
    log_reach: Float32Array
    log_width: Float32Array


@lru_cache(maxsize=64)
def _level_terms(levels: bytes) -> _LevelTerms:
    level = np.frombuffer(levels)
    log_level = np.log(level)
    log_smallest_share = np.maximum(np.log(VISIBLE) + log_level, -LOG_RANGE)
    return _LevelTerms(
        log_normalisation=_to_single(LOG_TWO_PI + 2 * log_level),
        inverse=_to_single(1 / level),
        log_reach=_to_single(log_level - log_smallest_share),
        log_width=_to_single(log_level + np.log(LOG_RANGE)),
    )


def log_evidence(
    levels: FloatArray,
    *,
    degrees: FloatArray,
    log_determinant: FloatArray,
    estimates: tuple[FloatArray, ...],
    deviations: tuple[FloatArray, ...],
    largest: tuple[FloatArray, ...],
) -> FloatArray:
    """Return the logarithm of the marginal likelihood at each noise level, without the prior of
    the hypothesis and without the residuals, which add -(sum of their squares) / (2 · level²).

    All arguments except `levels` broadcast to the shape of `log_determinant` (…); the result has
    shape (…, L).

    Args:
        levels: (L,) relative noise.
        degrees: number of points minus number of columns.
        log_determinant: of the normal equations.
        estimates: least squares estimate of each coefficient.
        deviations: standard deviation of each coefficient at noise 1.
        largest: the largest value of each term relative to the data; its product with the
            coefficient is the largest share that the term has.
    """
    shape = log_determinant.shape
    n_axes = len(shape)
    terms = _level_terms(np.ascontiguousarray(levels).tobytes())
    by_level = [term.reshape(-1, *[1] * n_axes) for term in terms]
    log_normalisation, inverse_level, log_level_reach, log_width = by_level

    # The normalisation of the Gaussian likelihood, and its volume around the estimates.
    result = _to_single(-degrees / 2) * log_normalisation
    result = result - _to_single(0.5 * log_determinant)

    # Each coefficient adds its integral over the log-uniform prior. All of them at once: for a few
    # series, calls take longer than their numbers.
    deviation = _stack(deviations, shape)
    log_deviation = np.log(deviation)
    z = inverse_level[:, None] * _to_single(_stack(estimates, shape) / deviation)
    log_reach = log_deviation + np.log(_stack(largest, shape))
    masses = log_mass(z, _to_single(log_reach) + log_level_reach[:, None])
    single_log_deviation = _to_single(log_deviation)
    for i in range(len(estimates)):
        result += masses[:, i]
        result -= single_log_deviation[i]
        result -= log_width

    return np.asarray(result.transpose(*range(1, n_axes + 1), 0).astype(np.float64))


def _stack(arrays: tuple[FloatArray, ...], shape: tuple[int, ...]) -> FloatArray:
    """Stack arrays that broadcast to a shape; `np.stack` of broadcast arrays takes far longer."""
    result = np.empty((len(arrays), *shape))
    for i, array in enumerate(arrays):
        result[i] = array
    return result


def _to_single(values: FloatArray) -> Float32Array:
    """Clip and convert to single precision, which is enough here and costs half the time.

    Two functions of numpy take less time than `np.clip` for the small arrays of a single series.
    """
    return np.minimum(np.maximum(values, -MAX_SINGLE), MAX_SINGLE).astype(np.float32)
