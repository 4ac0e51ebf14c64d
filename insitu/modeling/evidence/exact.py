"""Functions that go through all points of series that are counts.

Visits, messages and bytes are often deterministic, such as t·(p - 1) or p - 2. Coefficients of
measured series are never negative, since noise would otherwise predict negative times. A function
through every point of a count has no noise, so it may have a negative constant as long as it stays
positive at the points and beyond.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.hypothesis_space import HypothesisSpace
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.spread import Spread

SPARE_POINTS = 1  # that a function must explain besides those that determine it
LEAST_LEVELS = 3  # of a parameter: a constant, a term, and a spare level
DOUBT = 0.1  # probability that three levels follow another law; bounds of 95 % contain it
MIN_EXACT_POINTS = 4  # a constant and a term, a spare point, and one more against chance
ROUNDING = 1e-8  # relative error of what is computed from integers
VANISHING = 1e-12  # the same relative to the largest value, for values of zero
EXTRAPOLATION = 2.0 ** np.arange(1, 21)  # times the largest coordinate; positive up to there
SIGMA = 1e-6  # relative noise of a count
PROBABILITY = 0.99  # that a function through all points is the right one
MIN_DETERMINANT = 1e-9  # of scaled columns; below, the points do not determine the coefficients
BATCH_SIZE = 64  # series


@dataclass(frozen=True, slots=True)
class _Form:
    """Hypotheses with the same number of columns: terms (h, t), with or without a constant."""

    terms: IntArray
    has_constant: bool
    log_prior: FloatArray


def find_exact_functions(
    space: HypothesisSpace,
    x: FloatArray,
    values: FloatArray,
    *,
    least_points: int = MIN_EXACT_POINTS,
) -> dict[int, Answer]:
    """Return the simplest function of the space through all points, for series that have one.

    Args:
        x: (n,), ascending. values: (s, n), all of them measured. least_points: smallest n.

    Returns:
        Answers by index of the series.
    """
    answers: dict[int, Answer] = {}
    if len(x) < least_points:
        return answers

    terms = space.evaluate_terms(np.concatenate([x, x[-1] * EXTRAPOLATION]))
    size = np.abs(terms[:, : len(x)]).max(axis=1, initial=0.0)
    is_usable = np.isfinite(terms).all(axis=1) & (size > 0)
    terms = np.where(is_usable[:, None], terms / np.where(is_usable, size, 1.0)[:, None], 0.0)

    for form in _forms(space):
        n_columns = form.terms.shape[1] + form.has_constant
        remaining = np.array([i for i in range(len(values)) if i not in answers], dtype=np.intp)
        if len(x) < n_columns + SPARE_POINTS or len(remaining) == 0:
            continue

        table = terms[form.terms].swapaxes(1, 2)  # (h, points, t)
        if form.has_constant:
            table = np.concatenate([np.ones((*table.shape[:2], 1)), table], axis=2)
        is_possible = is_usable[form.terms].all(axis=1)

        for start in range(0, len(remaining), BATCH_SIZE):
            rows = remaining[start : start + BATCH_SIZE]
            chosen, solutions = _solve(table, is_possible, form.log_prior, values[rows])
            for row, hypothesis, solution in zip(rows.tolist(), chosen, solutions, strict=True):
                if hypothesis < 0:
                    continue
                indices = form.terms[hypothesis]
                constant = float(solution[0]) if form.has_constant else 0.0
                coefficients = solution[int(form.has_constant) :] / size[indices]
                answers[row] = exact_answer(
                    space, constant, indices.tolist(), coefficients.tolist()
                )

    return answers


def _forms(space: HypothesisSpace) -> Iterator[_Form]:
    """The forms of functions, simplest first: a term, then with a constant, then two terms."""
    single_terms = np.arange(len(space.log_prior_terms))[:, None]
    for terms, log_prior in (
        (single_terms, space.log_prior_terms),
        (space.pairs, space.log_prior_pairs),
    ):
        for has_constant in (False, True):
            if len(terms):
                yield _Form(terms, has_constant, log_prior)


def _solve(
    table: FloatArray, is_possible: NDArray[np.bool_], log_prior: FloatArray, values: FloatArray
) -> tuple[list[int], FloatArray]:
    """The hypothesis through all points of each series, -1 for none, and its coefficients.

    Args:
        table: (h, n + extrapolated points, c), the columns of each hypothesis. values: (s, n).
    """
    # Determine c coefficients from c points, spread over the series.
    n, n_columns = values.shape[1], table.shape[2]
    at = np.array([n - 1])
    if n_columns > 1:
        at = np.linspace(0, n - 1, n_columns).round().astype(np.intp)
    square = table[:, at]
    scale = np.abs(square).max(axis=1, keepdims=True)
    scale = np.where(scale > 0, scale, 1.0)
    is_sound = is_possible & (np.abs(np.linalg.det(square / scale)) > MIN_DETERMINANT)
    square = np.where(is_sound[:, None, None], square, np.eye(n_columns))
    right = np.broadcast_to(values[:, at].T, (len(table), n_columns, len(values)))
    solved = np.linalg.solve(square, right)

    # The function must go through the other points as well, and need each of its terms.
    fitted = np.matmul(table[:, :n], solved).swapaxes(1, 2)  # (h, s, n)
    largest = np.abs(values).max(axis=1, keepdims=True)
    is_near = np.abs(fitted - values) <= ROUNDING * np.abs(values) + VANISHING * largest
    has_all_terms = (np.abs(solved) > ROUNDING * largest[:, 0]).all(axis=1)
    is_good = is_near.all(axis=2) & has_all_terms & is_sound[:, None]

    # It must stay positive beyond the points.
    hypotheses, series = np.nonzero(is_good)
    beyond = np.einsum("gnc,gc->gn", table[hypotheses, n:], solved[hypotheses, :, series])
    is_good[hypotheses, series] = (beyond > 0).all(axis=1)

    best = np.argmax(np.where(is_good, log_prior[:, None], -np.inf), axis=0)
    rows = np.arange(len(values))
    chosen = np.where(is_good[best, rows], best, -1)
    return chosen.tolist(), np.asarray(solved[best, :, rows], dtype=np.float64)


def exact_answer(
    space: HypothesisSpace, constant: float, terms: Sequence[int], coefficients: Sequence[float]
) -> Answer:
    """Return the answer of a function that leaves no residuals.

    Args:
        terms: indices in the space. coefficients: of the terms.
    """
    pairs = zip(coefficients, terms, strict=True)
    function = Function(
        (space.parameter,), constant, tuple([Term(value, space.shapes[i]) for value, i in pairs])
    )
    size = 1 + len(terms)
    spread = Spread(
        exponents=space.exponents[list(terms)][None, :, None, :],
        coefficients=np.array([[constant, *coefficients]]),
        covariances=np.zeros((1, size, size)),
        weights=np.ones(1),
        sigma=SIGMA,
        degrees=np.inf,
    )
    return Answer((function,), (spread,), PROBABILITY, len(terms) + (constant != 0))


def doubt_exact(
    answer: Answer,
    x: FloatArray,
    values: FloatArray,
    *,
    column: int = 0,
) -> Answer:
    """An exact answer by three levels, beside a function through them that levels off.

    It is a + b / x + c / x². Numbers of neighbours in a grid, 1, 3 and 7 of 2, 4 and 8 ranks, look
    like p - 1, and grow to 26.

    Args:
        answer: a constant and a term of one parameter, perhaps times powers of others.
        x, values: (3,) levels of this parameter, and values there without these powers.
        column: of this parameter.
    """
    spread = answer.spreads[0]
    assert spread is not None
    exact, terms = spread.coefficients[0], spread.exponents[0]
    levelling = np.linalg.solve(np.stack([np.ones(3), 1 / x, 1 / x**2], axis=1), values)
    base = terms[0].copy()  # the powers of the others
    base[column] = 0.0

    other = np.repeat(base[None], 3, axis=0)
    other[:, column, 0] = (0.0, -1.0, -2.0)
    coefficients = np.array([0.0, *levelling])
    if not base.any():
        other, coefficients = other[1:], levelling
    count = max(len(terms), len(other))
    exponents = np.zeros((2, count, *base.shape))
    both = np.zeros((2, 1 + count))
    for i, (shapes, factors) in enumerate(((terms, exact), (other, coefficients))):
        exponents[i, : len(shapes)] = shapes
        both[i, : len(factors)] = factors
    wide = replace(
        spread,
        exponents=exponents,
        coefficients=both,
        covariances=np.zeros((2, 1 + count, 1 + count)),
        weights=np.array([1 - DOUBT, DOUBT]),
    )
    return answer._replace(spreads=(wide,), probability=1 - DOUBT)
