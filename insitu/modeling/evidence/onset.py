"""Growth that begins: the hypothesis a + b · max(0, g(x) - g(t)), with g a logarithm or a power.

A cache that no longer suffices, a protocol that changes with the size of messages, the end of a
node: values stay as they are up to a scale t and grow behind it. Beyond t this is a function with
a constant that may be negative, which no function of the space has, since coefficients of measured
series are not negative there. The evidence is computed as that of all others, with t on a grid.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np

from insitu.modeling.adjustments import no_adjustments
from insitu.modeling.evidence.alternatives import (
    Alternative,
    find_competing,
    spread_of_terms,
    weigh_terms,
)
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.change_points import MIN_SERIES_POINTS
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Factor, Function, Term, powers
from insitu.modeling.spread import Spread

MIN_POINTS = 5  # of a series whose growth may begin: two before, two behind, one that shows it
PRIOR = 0.05  # that growth begins, before any data
SHAPES = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.0], [1.0, 0.0, 0.0]])  # alpha, beta, gamma of g
STARTS_PER_GAP, MAX_STARTS = 12, 96  # values of t, measured points among them
ROUNDING = 1e-9  # of a start that is a measured point
MAX_FIRST_SLOPE = 0.6  # between the first two points, relative to that behind, on logarithmic axes
N_EXAMINED = 32  # terms whose evidence is computed


def find_beginning(x: FloatArray, values: FloatArray, counts: FloatArray) -> IntArray:
    """Return the series that hardly grow between the first two points, by index.

    Args:
        x: (n,), ascending and positive. values: (s, n). counts: (s,), of measured points.
    """
    n_points = len(x)
    if n_points < MIN_POINTS:
        return np.zeros(0, dtype=np.intp)
    is_usable = (values > 0).all(axis=1) & (counts == n_points)
    log_y, log_x = np.log(np.where(is_usable[:, None], values, 1.0)), np.log(x)

    first = (log_y[:, 1] - log_y[:, 0]) / (log_x[1] - log_x[0])
    later = (log_y[:, -1] - log_y[:, 1]) / (log_x[-1] - log_x[1])
    return np.flatnonzero(is_usable & (later > 0) & (first < MAX_FIRST_SLOPE * later))


def weigh_onset(
    batch: Batch,
    rows: IntArray,
    noise: FloatArray,
    levels: FloatArray,
    *,
    answers: list[Answer],
    log_evidence: FloatArray,
) -> dict[int, Alternative]:
    """Return the hypothesis that growth begins for some series, by position, where it competes.

    Args:
        rows: (s,). noise: (s, L), probability of each level. levels: (L,).
        answers, log_evidence: (s,), of one function, and of all functions.
    """
    terms, starts, exponents, offsets, sizes = _terms(tuple(batch.x.tolist()))
    data = batch.data.select(rows)
    examined, fits, evidence = weigh_terms(
        terms, data, noise, levels, n_examined=N_EXAMINED, prior=PRIOR
    )

    result = {}
    is_long = len(batch.x) >= MIN_SERIES_POINTS
    for i in find_competing(evidence, log_evidence).tolist():
        row = int(rows[i])
        chosen = examined[i]
        adjustments = no_adjustments(len(chosen))
        adjustments[:, 0] = starts[chosen]
        spread = spread_of_terms(
            fits,
            i,
            levels=levels,
            exponents=exponents[chosen],
            sizes=sizes[chosen],
            offsets=offsets[chosen],
            adjustments=adjustments,
            scale=float(batch.scale[row]),
            noise=float(batch.worth.newest[row]),
        )
        result[i] = Alternative(
            answers[i],
            float(evidence[i]),
            float(log_evidence[i]),
            spread,
            own=_cut_at_start(batch, spread) if is_long else None,
            is_change=True,
        )
    return result


def _cut_at_start(batch: Batch, spread: Spread) -> Answer:
    """A constant, and the most probable function behind its start, as two segments."""
    start = float(spread.all_adjustments()[0, 0])
    cut = int(np.searchsorted(batch.x, start * (1 - ROUNDING)))
    constant, coefficient = spread.coefficients[0, :2].tolist()
    alpha, beta, gamma = spread.exponents[0, 0, 0].tolist()
    parameter = batch.space.parameter
    factor = Factor(parameter, Fraction(alpha), Fraction(beta), Fraction(gamma))
    behind = Function((parameter,), constant, (Term(coefficient, (factor,)),))
    before = Function((parameter,), float(behind(np.array([start]))[0]))

    is_same = (spread.exponents[:, 0, 0] == spread.exponents[0, 0, 0]).all(axis=1)
    return Answer(
        functions=(before, behind),
        spreads=(_spread_at(spread, start), spread),
        probability=float(spread.weights[is_same].sum()),
        columns=3,
        cuts=(cut,),
        change_probability=1.0,
    )


def _spread_at(spread: Spread, start: float) -> Spread:
    """The constant that the first function of a spread has up to its start."""
    design = np.array([1.0, *powers(np.array([start]), spread.exponents[0, :, 0])])
    covariances = np.zeros((1, 3, 3))
    covariances[0, 0, 0] = design @ spread.covariances[0] @ design
    return Spread(
        exponents=np.zeros((1, 2, 1, 3)),
        coefficients=np.array([[design @ spread.coefficients[0], 0.0, 0.0]]),
        covariances=covariances,
        weights=np.ones(1),
        sigma=spread.sigma,
        degrees=spread.degrees,
    )


@lru_cache(maxsize=16)
def _terms(
    x: tuple[float, ...],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """The terms (K, n), their starts (K,), exponents (K, 3), offsets and sizes (K,).

    At least two points lie before each start and two behind it. They may be close behind it: what
    growth adds at the first of them is then small, and a steep power explains both as well.
    """
    points = np.array(x)
    log_x = np.log(points)
    per_gap = max(1, min(STARTS_PER_GAP, MAX_STARTS // (len(x) - 3)))
    at = np.arange(per_gap * (len(x) - 3)) / per_gap
    of_starts = np.exp(np.interp(1 + at, np.arange(len(x)), log_x))
    n_starts = len(of_starts)

    starts = np.tile(of_starts, len(SHAPES))
    exponents = np.repeat(SHAPES, n_starts, axis=0)
    offsets = powers(starts, exponents)
    values = powers(np.maximum(points, starts[:, None]), exponents[:, None]) - offsets[:, None]
    sizes = values[:, -1]
    return values / sizes[:, None], starts, exponents, offsets, sizes
