"""Least squares of many series and many hypotheses at once, with exact leave-one-out residuals."""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

MIN_PIVOT = 1e-10  # relative pivot below which columns count as dependent
MIN_UNEXPLAINED = 1e-6  # of a point: 1 - leverage is at least this, so that residuals stay finite
MIN_SIZE = 1e-3  # errors are relative to at least this share of the largest value of the series


@dataclass(frozen=True, slots=True)
class Fits:
    """Fits of every series s to every hypothesis h of c columns.

    coefficients: (s, h, c). rss: (s, h), weighted. left_out: (s, h), the weighted sum of squares of
    the residual that each point has if the others alone are fitted. is_feasible: (s, h), whether
    the columns are independent on the measured points and no coefficient is negative.
    """

    coefficients: FloatArray
    rss: FloatArray
    left_out: FloatArray
    is_feasible: np.ndarray


def fit_columns(
    design: FloatArray, chosen: IntArray, values: FloatArray, weights: FloatArray
) -> Fits:
    """Fit all series to all hypotheses by weighted least squares.

    The normal equations are solved by Cholesky decomposition. The leave-one-out residual of a point
    is e/(1 - h) with its residual e and its leverage h, so nothing is fitted twice.

    Args:
        design: (n_columns, n_points), scaled to about 1.
        chosen: (h, c) indices of columns.
        values: (s, n_points), finite.
        weights: (s, n_points), 0 where nothing was measured.
    """
    x = design[chosen]  # (h, c, n)
    gram = np.einsum("sn,hcn,hdn->shcd", weights, x, x, optimize=True)
    right = np.einsum("sn,hcn->shc", weights * values, x, optimize=True)
    lower, is_regular = _decompose(gram)
    half_solved = _substitute_forward(lower, right[..., None])[..., 0]
    coefficients = _substitute_backward(lower, half_solved)

    residuals = values[:, None, :] - np.einsum("shc,hcn->shn", coefficients, x)
    rss = np.einsum("sn,shn->sh", weights, residuals**2)
    leverage = weights[:, None, :] * (_substitute_forward(lower, x[None]) ** 2).sum(axis=2)
    unexplained = np.maximum(1 - leverage, MIN_UNEXPLAINED)
    left_out = np.einsum("sn,shn->sh", weights, (residuals / unexplained) ** 2)

    is_feasible = is_regular & (coefficients >= 0).all(axis=-1)
    return Fits(coefficients, rss, left_out, is_feasible)


def _decompose(gram: FloatArray) -> tuple[FloatArray, np.ndarray]:
    """Cholesky decomposition: lower triangles of (…, c, c) matrices, and which are regular."""
    size = gram.shape[-1]
    lower = np.zeros_like(gram)
    is_regular = np.ones(gram.shape[:-2], dtype=bool)
    for j in range(size):
        pivot = gram[..., j, j] - (lower[..., j, :j] ** 2).sum(axis=-1)
        is_sound = pivot > MIN_PIVOT * gram[..., j, j]
        is_regular &= is_sound
        root = np.sqrt(np.where(is_sound, pivot, 1.0))
        lower[..., j, j] = root
        for i in range(j + 1, size):
            inner = (lower[..., i, :j] * lower[..., j, :j]).sum(axis=-1)
            lower[..., i, j] = (gram[..., i, j] - inner) / root
    return lower, is_regular


def _substitute_forward(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Solve L z = r for right sides of shape (…, c, n)."""
    size = lower.shape[-1]
    shape = (*np.broadcast_shapes(lower.shape[:-2], right.shape[:-2]), *right.shape[-2:])
    solved = np.empty(shape)
    for i in range(size):
        inner = np.einsum("...j,...jn->...n", lower[..., i, :i], solved[..., :i, :])
        solved[..., i, :] = (right[..., i, :] - inner) / lower[..., i, i, None]
    return solved


def _substitute_backward(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Solve Lᵀ z = r for right sides of shape (…, c)."""
    size = lower.shape[-1]
    solved = np.empty_like(right)
    for i in reversed(range(size)):
        inner = (lower[..., i + 1 :, i] * solved[..., i + 1 :]).sum(axis=-1)
        solved[..., i] = (right[..., i] - inner) / lower[..., i, i]
    return solved


def relative_weights(values: FloatArray) -> FloatArray:
    """Return weights 1/y² that make errors relative: (s, n) to (s, n), 0 where not measured.

    Values near zero count as MIN_SIZE of the largest of their series. Otherwise their weight would
    exceed that of all other points.
    """
    size = np.abs(np.nan_to_num(values))
    largest = size.max(axis=1, keepdims=True) if size.shape[1] else np.ones((len(size), 1))
    floor = np.where(largest > 0, largest, 1.0) * MIN_SIZE
    return np.where(np.isnan(values), 0.0, np.maximum(size, floor) ** -2.0)
