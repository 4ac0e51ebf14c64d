"""Least squares of many series and many hypotheses at once, with exact leave-one-out residuals."""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

SINGULAR = 1e-10  # relative pivot below which columns count as dependent


@dataclass(frozen=True, slots=True)
class Fits:
    """Fits of every series s to every hypothesis h of c columns.

    coefficients: (s, h, c); rss: (s, h), weighted; left_out: (s, h), the weighted sum of squares
    of the residuals each point has where the others alone are fitted; feasible: (s, h), whether
    the columns are independent on the points measured and no coefficient is negative.
    """

    coefficients: FloatArray
    rss: FloatArray
    left_out: FloatArray
    feasible: np.ndarray


def fit_columns(
    design: FloatArray, chosen: IntArray, values: FloatArray, weights: FloatArray
) -> Fits:
    """Weighted least squares in closed form: Cholesky of the normal equations, all at once.

    A residual left out is e/(1 - h) with h the leverage of its point, so nothing is fitted twice.

    Args:
        design: (n_columns, n_points), scaled to about 1. chosen: (h, c) indices of columns.
        values: (s, n_points), finite. weights: (s, n_points), 0 where not measured.
    """
    x = design[chosen]  # (h, c, n)
    gram = np.einsum("sn,hcn,hdn->shcd", weights, x, x, optimize=True)
    right = np.einsum("sn,hcn->shc", weights * values, x, optimize=True)
    lower, independent = _cholesky(gram)
    coefficients = _back(lower, _forward(lower, right[..., None])[..., 0])
    fitted = np.einsum("shc,hcn->shn", coefficients, x)
    residuals = values[:, None, :] - fitted
    rss = np.einsum("sn,shn->sh", weights, residuals**2)
    leverage = weights[:, None, :] * (_forward(lower, x[None]) ** 2).sum(axis=2)
    kept = np.maximum(1 - leverage, 1e-6)
    left_out = np.einsum("sn,shn->sh", weights, (residuals / kept) ** 2)
    return Fits(coefficients, rss, left_out, independent & (coefficients >= 0).all(axis=-1))


def _cholesky(gram: FloatArray) -> tuple[FloatArray, np.ndarray]:
    """Lower triangles of (…, c, c) matrices, and which of them are regular."""
    size = gram.shape[-1]
    lower = np.zeros_like(gram)
    regular = np.ones(gram.shape[:-2], dtype=bool)
    for j in range(size):
        pivot = gram[..., j, j] - (lower[..., j, :j] ** 2).sum(axis=-1)
        sound = pivot > SINGULAR * gram[..., j, j]
        regular &= sound
        root = np.sqrt(np.where(sound, pivot, 1.0))
        lower[..., j, j] = root
        for i in range(j + 1, size):
            inner = (lower[..., i, :j] * lower[..., j, :j]).sum(axis=-1)
            lower[..., i, j] = (gram[..., i, j] - inner) / root
    return lower, regular


def _forward(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Solve L z = r for (…, c, n) right sides."""
    size = lower.shape[-1]
    shape = (*np.broadcast_shapes(lower.shape[:-2], right.shape[:-2]), *right.shape[-2:])
    solved = np.empty(shape)
    for i in range(size):
        inner = np.einsum("...j,...jn->...n", lower[..., i, :i], solved[..., :i, :])
        solved[..., i, :] = (right[..., i, :] - inner) / lower[..., i, i, None]
    return solved


def _back(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Solve Lᵀ z = r for (…, c) right sides."""
    size = lower.shape[-1]
    solved = np.empty_like(right)
    for i in reversed(range(size)):
        inner = (lower[..., i + 1 :, i] * solved[..., i + 1 :]).sum(axis=-1)
        solved[..., i] = (right[..., i] - inner) / lower[..., i, i]
    return solved


def relative_weights(values: FloatArray) -> FloatArray:
    """Weights 1/y² of values (s, n) that make errors relative; 0 where not measured.

    Values close to zero count as a thousandth of the largest of their series, or they would rule
    alone.
    """
    size = np.abs(np.nan_to_num(values))
    largest = size.max(axis=1, keepdims=True) if size.shape[1] else np.ones((len(size), 1))
    floor = np.where(largest > 0, largest, 1.0) * 1e-3
    return np.where(np.isnan(values), 0.0, np.maximum(size, floor) ** -2.0)
