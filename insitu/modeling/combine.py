"""Functions of several parameters from the best function of each, for modeler "refine".

[REF §3] refers to Calotoiu et al. (Fast multi-parameter performance modeling, CLUSTER 2016): the
best functions of single parameters are combined in different ways, and the combination that fits
the measurements best is the model. The function of a parameter comes from lines of points, along
which only this parameter varies; lines over the same values are averaged, which keeps the shape of
sums and products and reduces the noise.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from insitu.modeling.evidence.combinations import structures
from insitu.modeling.measurement import FloatArray
from insitu.modeling.orthogonal import solve_orthogonally
from insitu.modeling.pmnf import Factor, Function, Term

MIN_LINE_POINTS = 3  # of a line that shows growth

# From the points of one parameter, (n,) each, to its function.
FitOneParameter = Callable[[str, FloatArray, FloatArray], Function]


def combine_parameters(
    parameters: tuple[str, ...], points: FloatArray, values: FloatArray, fit: FitOneParameter
) -> Function:
    """Return the sum of products of one term per parameter that fits best.

    Best is the largest adjusted R², which prefers fewer terms where residuals are equal.

    Args:
        parameters: m of them. points: (n, m). values: (n,). fit: finds the term of a parameter.
    """
    factors: dict[int, Factor] = {}
    for column, parameter in enumerate(parameters):
        x, y = average_lines(points, values, column)
        function = fit(parameter, x, y)
        if len(x) >= MIN_LINE_POINTS and function.terms:
            factors[column] = function.terms[0].factors[0]

    constant = float(np.mean(values)) if len(values) else float("nan")
    best = Function(parameters, constant)
    best_variance = float(np.var(values, ddof=1)) if len(values) > 1 else 0.0
    for form in structures(len(parameters)):
        is_known = all(factors.keys() >= set(group) for group in form.groups)
        n_columns = 1 + len(form.groups)
        if form.paired >= 0 or not form.groups or not is_known or len(values) <= n_columns:
            continue

        products = [tuple(factors[column] for column in group) for group in form.groups]
        candidate = _fit_products(parameters, products, points, values)
        if candidate is None:
            continue
        rss = float(((values - candidate(points)) ** 2).sum())
        variance = rss / (len(values) - n_columns)
        if variance < best_variance:
            best, best_variance = candidate, variance

    return best


def average_lines(
    points: FloatArray, values: FloatArray, column: int
) -> tuple[FloatArray, FloatArray]:
    """Return the values of one parameter, and the averages over the longest lines along it.

    Args:
        points: (n, m). values: (n,). column: of the parameter.
    """
    lines: dict[bytes, list[int]] = defaultdict(list)
    others = np.delete(points, column, axis=1)
    for i, other in enumerate(others):
        lines[other.tobytes()].append(i)

    # Lines over the same values of the parameter, ascending.
    by_values: dict[tuple[float, ...], list[list[int]]] = defaultdict(list)
    for line in lines.values():
        ascending = sorted(line, key=lambda i: float(points[i, column]))
        by_values[tuple(points[ascending, column].tolist())].append(ascending)
    longest = max(by_values, key=lambda x: (len(x), len(by_values[x])), default=())
    if not longest:
        return np.empty(0), np.empty(0)
    return np.array(longest), np.asarray(values[np.array(by_values[longest])].mean(axis=0))


def _fit_products(
    parameters: tuple[str, ...],
    products: Sequence[tuple[Factor, ...]],
    points: FloatArray,
    values: FloatArray,
) -> Function | None:
    """The least squares fit of constant + products; None if it cannot be determined."""
    unit = [Function(parameters, 0.0, (Term(1.0, product),)) for product in products]
    columns = np.stack([np.ones(len(points)), *[term(points) for term in unit]])
    if not np.isfinite(columns).all():
        return None
    fits = solve_orthogonally(columns[None], values[None])
    if not fits.is_independent[0]:
        return None

    constant, *coefficients = fits.coefficients[0].tolist()
    terms = [Term(c, product) for c, product in zip(coefficients, products, strict=True)]
    return Function(parameters, constant, tuple(terms))
