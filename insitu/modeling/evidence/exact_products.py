"""Functions of several parameters that go through all points of series that are counts.

Rank 0 that receives a message of n values from every other rank receives n·(p - 1) of them. Sums of
terms that only grow cannot describe this, see `exact.py`: here a function of one parameter, which
may have a negative constant, is multiplied by a power of each of the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.exact import (
    MIN_EXACT_POINTS,
    ROUNDING,
    VANISHING,
    find_exact_functions,
)
from insitu.modeling.evidence.hypothesis_space import HypothesisSpace, build_hypothesis_space
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.series import Series

MAX_PRODUCTS = 64  # of shapes of the other parameters that are tried; noise-free data leave few


def find_exact_products(series: Series, answers: Sequence[Answer]) -> dict[int, Answer]:
    """Return an exact answer for series whose answers miss a point, by their index.

    Args:
        series: counts over several parameters. answers: one per series.
    """
    found: dict[int, Answer] = {}
    for row, answer in enumerate(answers):
        is_measured = np.isfinite(series.values[row]) & (series.counts[row] > 0)
        points, values = series.coordinates[is_measured], series.values[row, is_measured]
        if len(values) < MIN_EXACT_POINTS or np.any(points <= 0) or np.any(values < 0):
            continue
        if _are_equal(np.stack([answer.functions[0](points), values])):
            continue
        for column in range(len(series.parameters)):
            exact = _solve(series.parameters, points, values, column)
            if exact is not None:
                found[row] = exact
                break
    return found


def _are_equal(rows: FloatArray) -> bool:
    """Whether all rows, (k, n), are the same but for rounding."""
    size = np.abs(rows)
    limit = ROUNDING * size.max(axis=0) + VANISHING * size.max(initial=0.0)
    return bool(np.all(np.ptp(rows, axis=0) <= limit))


def _solve(
    parameters: Sequence[str], points: FloatArray, values: FloatArray, column: int
) -> Answer | None:
    """The product of a function of one parameter, in this column, and powers of the others."""
    x, group = np.unique(points[:, column], return_inverse=True)
    if len(x) < MIN_EXACT_POINTS:
        return None
    space = build_hypothesis_space(parameters[column])
    others = [i for i in range(len(parameters)) if i != column]
    shapes = [_possible_shapes(space, points, values, other) for other in others]
    for chosen in _products(shapes):
        powers = {other: i for other, i in zip(others, chosen, strict=True) if i >= 0}
        factor = np.ones(len(values))
        for other, shape in powers.items():
            factor = factor * space.evaluate_terms(points[:, other])[shape]
        if np.any(factor <= 0):
            continue
        of_one = _value_of_groups(values / factor, group)
        answer = None if of_one is None else find_exact_functions(space, x, of_one[None]).get(0)
        if answer is not None:
            return _multiply(answer, space, parameters, column, powers)
    return None


def _products(shapes: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Combinations of one shape of each parameter, the likeliest of each first."""
    for number, chosen in enumerate(product(*shapes)):
        if number >= MAX_PRODUCTS:
            return
        yield chosen


def _possible_shapes(
    space: HypothesisSpace, points: FloatArray, values: FloatArray, column: int
) -> list[int]:
    """The shapes, as indices of the space, that a parameter's factor may have; -1 is a constant.

    Points that differ in this parameter alone must agree once they are divided by it.
    """
    rest = np.delete(points, column, axis=1)
    _, line = np.unique(rest, axis=0, return_inverse=True)
    line = line.ravel()
    is_alone = np.bincount(line)[line] == 1
    if is_alone.all():
        return [-1]
    possible = [] if _value_of_groups(values, line) is None else [-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        divided = values / space.evaluate_terms(points[:, column])
    for shape in np.argsort(-space.log_prior_terms, kind="stable").tolist():
        is_finite = bool(np.isfinite(divided[shape]).all())
        if is_finite and _value_of_groups(divided[shape], line) is not None:
            possible.append(shape)
    return possible


def _value_of_groups(values: FloatArray, group: NDArray[np.intp]) -> FloatArray | None:
    """The value of each group, (n_groups,), None where values of a group differ."""
    n_groups = int(group.max()) + 1
    lowest, highest = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(lowest, group, values)
    np.maximum.at(highest, group, values)
    return (lowest + highest) / 2 if _are_equal(np.stack([lowest, highest])) else None


def _multiply(
    answer: Answer,
    space: HypothesisSpace,
    parameters: Sequence[str],
    column: int,
    powers: Mapping[int, int],
) -> Answer:
    """An exact answer over one parameter, in this column, times powers of others.

    Args:
        powers: shapes of the space by column.
    """
    function, spread = answer.functions[0], answer.spreads[0]
    assert spread is not None
    factors = [space.shapes[i][0]._replace(parameter=parameters[at]) for at, i in powers.items()]
    terms = [Term(term.coefficient, (*factors, *term.factors)) for term in function.terms]
    exponents = np.zeros((1, len(terms), len(parameters), 3))
    exponents[:, :, column] = spread.exponents[:, :, 0]
    coefficients, constant = spread.coefficients, function.constant
    if factors and constant:
        terms.insert(0, Term(constant, tuple(factors)))
        exponents = np.concatenate([np.zeros((1, 1, len(parameters), 3)), exponents], axis=1)
        coefficients = np.concatenate([[[0.0]], coefficients], axis=1)
        constant = 0.0
    for at, i in powers.items():
        exponents[:, :, at] = space.exponents[i]

    size = coefficients.shape[1]
    wide = replace(
        spread,
        exponents=exponents,
        coefficients=coefficients,
        covariances=np.zeros((1, size, size)),
    )
    whole = Function(tuple(parameters), constant, tuple(terms))
    return answer._replace(functions=(whole,), spreads=(wide,))
