"""Functions of several parameters that go through all points of series that are counts.

Rank 0 that receives a message of n values from every other rank receives n·(p - 1) of them. Sums of
terms that only grow cannot describe this, see `exact.py`: here a function of one parameter, which
may have a negative constant, is multiplied by a power of each of the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np

from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.exact import (
    LEAST_LEVELS,
    MIN_EXACT_POINTS,
    ROUNDING,
    VANISHING,
    doubt_exact,
    find_exact_functions,
)
from insitu.modeling.evidence.hypothesis_space import (
    HypothesisSpace,
    build_hypothesis_space,
    build_plain_space,
)
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.series import Series

MAX_PRODUCTS = 64  # of shapes of the other parameters that are tried; noise-free data leave few


def find_exact_products(series: Series, answers: Sequence[Answer]) -> dict[int, Answer]:
    """Return an exact answer for series whose answers miss a point, by their index.

    Args:
        series: counts over several parameters. answers: one per series.
    """
    found: dict[int, Answer] = {}
    grids: dict[bytes, list[_Axis]] = {}  # by which points are measured
    for row, answer in enumerate(answers):
        is_measured = np.isfinite(series.values[row]) & (series.counts[row] > 0)
        points, values = series.coordinates[is_measured], series.values[row, is_measured]
        if len(values) < MIN_EXACT_POINTS or np.any(points <= 0) or np.any(values < 0):
            continue
        if _are_equal(np.stack([answer.functions[0](points), values])):
            continue
        mask = is_measured.tobytes()
        if mask not in grids:
            grids[mask] = [_Axis.of(points, i, name) for i, name in enumerate(series.parameters)]
        exact = _solve(series.parameters, grids[mask], values)
        if exact is not None:
            found[row] = exact
    return found


@dataclass(frozen=True, slots=True)
class _Groups:
    """Points in groups, in the order of their groups: order (n,), starts (n_groups,)."""

    order: IntArray
    starts: IntArray

    @classmethod
    def of(cls, group: IntArray) -> "_Groups":
        order = np.argsort(group, kind="stable")
        _, starts = np.unique(group[order], return_index=True)
        return cls(order, starts)

    def value_of_each(self, values: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Of rows (k, n) the value of each group, (k, n_groups), and whether all points of each
        group have it but for rounding, (k,)."""
        ordered = values[:, self.order]
        lowest = np.minimum.reduceat(ordered, self.starts, axis=1)
        highest = np.maximum.reduceat(ordered, self.starts, axis=1)
        size = np.maximum(np.abs(lowest), np.abs(highest))
        limit = ROUNDING * size + VANISHING * np.max(size, axis=1, initial=0.0, keepdims=True)
        return (lowest + highest) / 2, np.asarray((highest - lowest <= limit).all(axis=1))


@dataclass(frozen=True, slots=True)
class _Axis:
    """One parameter of some points: terms (T, n) of each shape at them, in order of their priors;
    lines: points that differ in this parameter alone; levels: points of equal values, x."""

    space: HypothesisSpace
    shapes: IntArray
    terms: FloatArray
    x: FloatArray
    lines: _Groups
    levels: _Groups

    @classmethod
    def of(cls, points: FloatArray, column: int, name: str) -> "_Axis":
        space = build_hypothesis_space(name)
        terms = space.evaluate_terms(points[:, column])
        likely = np.argsort(-space.log_prior_terms, kind="stable")
        is_usable = np.asarray((np.isfinite(terms) & (terms > 0)).all(axis=1))
        shapes = likely[is_usable[likely]]
        _, line = np.unique(np.delete(points, column, axis=1), axis=0, return_inverse=True)
        x, level = np.unique(points[:, column], return_inverse=True)
        groups = [_Groups.of(np.asarray(group, dtype=np.intp).ravel()) for group in (line, level)]
        return cls(space, shapes, terms[shapes], x, *groups)

    def possible_factors(self, values: FloatArray) -> list[int]:
        """The rows of terms that this parameter's factor may be; -1 is a constant.

        Points that differ in this parameter alone must agree once they are divided by it.
        """
        if len(self.lines.starts) == len(values):
            return [-1]  # none differ in it alone
        _, is_same = self.lines.value_of_each(np.vstack([values, values / self.terms]))
        return (np.flatnonzero(is_same) - 1).tolist()


def _are_equal(rows: FloatArray) -> bool:
    """Whether all rows, (k, n), are the same but for rounding."""
    size = np.abs(rows)
    limit = ROUNDING * size.max(axis=0) + VANISHING * size.max(initial=0.0)
    return bool(np.all(np.ptp(rows, axis=0) <= limit))


def _solve(parameters: Sequence[str], axes: Sequence[_Axis], values: FloatArray) -> Answer | None:
    """The product of a function of one parameter and powers of the others."""
    factors = [axis.possible_factors(values) for axis in axes]
    # Few levels leave a doubt: parameters with more come first.
    for column in sorted(range(len(axes)), key=lambda i: len(axes[i].x) < MIN_EXACT_POINTS):
        axis, others = axes[column], [i for i in range(len(axes)) if i != column]
        if len(axis.x) < LEAST_LEVELS or not all(factors[i] for i in others):
            continue
        is_doubtful = len(axis.x) < MIN_EXACT_POINTS
        space = build_plain_space(parameters[column]) if is_doubtful else axis.space
        for chosen in islice(product(*(factors[i] for i in others)), MAX_PRODUCTS):
            powers = {other: row for other, row in zip(others, chosen, strict=True) if row >= 0}
            divided = values / np.prod([axes[i].terms[row] for i, row in powers.items()], axis=0)
            of_one, is_same = axis.levels.value_of_each(divided[None])
            if not is_same[0]:
                continue
            found = find_exact_functions(space, axis.x, of_one, least_points=LEAST_LEVELS)
            if 0 in found:
                shapes = {i: int(axes[i].shapes[row]) for i, row in powers.items()}
                answer = _multiply(found[0], axis.space, parameters, column, shapes)
                is_sure = not is_doubtful or found[0].columns == 1
                if is_sure:
                    return answer
                return doubt_exact(answer, axis.x, of_one[0], column=column)
    return None


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
