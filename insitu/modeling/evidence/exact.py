"""Functions that go through all points of series that count: no noise, so any sign.

Visits, messages and bytes are often deterministic, as t·(p - 1) or p - 2 are. Coefficients of
measured series are never negative, since noise would otherwise predict negative times; a function
through every point of a count is no matter of noise, and may have a negative constant as long as it
stays positive at the points and beyond.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.hypothesis_space import Lattice
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.spread import Spread

SPARE = 1  # points that a function must explain besides those that determine it
MIN_POINTS = 4  # a constant and a term, a point to spare, and one more against chance
ROUNDING = 1e-8  # relative, of what is computed from integers
VANISHING = 1e-12  # the same relative to the largest value, for zeros
AHEAD = 2.0 ** np.arange(1, 21)  # where a function must stay positive, times the largest coordinate
SIGMA = 1e-6  # noise of a count
SURE = 0.99  # probability that a function through all points is the right one
SINGULAR = 1e-9  # determinant of scaled columns below which points do not determine coefficients
AT_ONCE = 64  # series


@dataclass(frozen=True, slots=True)
class _Form:
    """Hypotheses with the same number of columns: terms (h, t) and the constant or not."""

    terms: IntArray
    has_constant: bool
    prior: FloatArray


def exact(lattice: Lattice, parameter: str, x: FloatArray, values: FloatArray) -> dict[int, Answer]:
    """Series whose points lie on a function of the lattice, with the simplest such function.

    Args:
        x: (n,), ascending. values: (s, n), all of them measured.
    """
    found: dict[int, Answer] = {}
    if len(x) < MIN_POINTS:
        return found
    design = lattice.design(np.concatenate([x, x[-1] * AHEAD]))
    size = np.abs(design[:, : len(x)]).max(axis=1, initial=0.0)
    usable = np.isfinite(design).all(axis=1) & (size > 0)
    design = np.where(usable[:, None], design / np.where(usable, size, 1.0)[:, None], 0.0)
    for form in _forms(lattice):
        columns = form.terms.shape[1] + form.has_constant
        left = np.array([i for i in range(len(values)) if i not in found], dtype=np.intp)
        if len(x) < columns + SPARE or len(left) == 0:
            continue
        table = design[form.terms].swapaxes(1, 2)  # (h, points, t)
        if form.has_constant:
            table = np.concatenate([np.ones((*table.shape[:2], 1)), table], axis=2)
        possible = usable[form.terms].all(axis=1)
        for start in range(0, len(left), AT_ONCE):
            rows = left[start : start + AT_ONCE]
            chosen, coefficients = _through(table, possible, form.prior, values[rows])
            for row, which, solved in zip(rows.tolist(), chosen, coefficients, strict=True):
                if which < 0:
                    continue
                terms = form.terms[which]
                constant = float(solved[0]) if form.has_constant else 0.0
                scaled = solved[int(form.has_constant) :] / size[terms]
                found[row] = through(lattice, parameter, constant, terms.tolist(), scaled.tolist())
    return found


def _forms(lattice: Lattice) -> Iterator[_Form]:
    """From the simplest on: a term, with a constant, two terms, with a constant."""
    singles = np.arange(len(lattice.singles))[:, None]
    for terms, prior in ((singles, lattice.singles), (lattice.pairs, lattice.doubles)):
        for has_constant in (False, True):
            if len(terms):
                yield _Form(terms, has_constant, prior)


def _through(
    table: FloatArray, possible: NDArray[np.bool_], prior: FloatArray, values: FloatArray
) -> tuple[list[int], FloatArray]:
    """For each series the hypothesis through all of its points, -1 for none, and coefficients.

    Args:
        table: (h, n + ahead, c), the columns of each hypothesis. values: (s, n).
    """
    n, columns = values.shape[1], table.shape[2]
    at = (
        np.linspace(0, n - 1, columns).round().astype(np.intp) if columns > 1 else np.array([n - 1])
    )
    square = table[:, at]
    scale = np.abs(square).max(axis=1, keepdims=True)
    scale = np.where(scale > 0, scale, 1.0)
    sound = possible & (np.abs(np.linalg.det(square / scale)) > SINGULAR)
    square = np.where(sound[:, None, None], square, np.eye(columns))
    solved = np.linalg.solve(
        square, np.broadcast_to(values[:, at].T, (len(table), columns, len(values)))
    )
    fitted = np.matmul(table[:, :n], solved).swapaxes(1, 2)  # (h, s, n)
    largest = np.abs(values).max(axis=1, keepdims=True)
    near = np.abs(fitted - values) <= ROUNDING * np.abs(values) + VANISHING * largest
    present = (np.abs(solved) > ROUNDING * largest[:, 0]).all(axis=1)
    good = near.all(axis=2) & present & sound[:, None]
    which, whose = np.nonzero(good)
    ahead = np.einsum("gnc,gc->gn", table[which, n:], solved[which, :, whose])
    good[which, whose] = (ahead > 0).all(axis=1)
    rank = np.where(good, prior[:, None], -np.inf)
    best = np.argmax(rank, axis=0)
    rows = np.arange(len(values))
    chosen = np.where(good[best, rows], best, -1)
    return chosen.tolist(), np.asarray(solved[best, :, rows], dtype=np.float64)


def through(
    lattice: Lattice, parameter: str, constant: float, terms: list[int], coefficients: list[float]
) -> Answer:
    """The answer of a function that leaves no residuals.

    Args:
        terms: indices in the lattice. coefficients: of the terms.
    """
    function = Function(
        (parameter,),
        constant,
        tuple(Term(c, lattice.shapes[i]) for c, i in zip(coefficients, terms, strict=True)),
    )
    width = 1 + len(terms)
    spread = Spread(
        lattice.exponents[terms][None, :, None, :],
        np.array([[constant, *coefficients]]),
        np.zeros((1, width, width)),
        np.ones(1),
        SIGMA,
        np.inf,
    )
    return Answer(function, spread, SURE, len(terms) + (constant != 0))
