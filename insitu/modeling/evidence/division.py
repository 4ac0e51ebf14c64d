"""Work that cannot be divided evenly: the hypothesis a + b · ceil(N / x) of strong scaling.

N planes of a grid on p processes: the slowest process has ceil(N / p) of them. Values fall like
1 / p, but in plateaus, and not at all beyond N, where a power of p goes on to fall. The evidence
is computed as that of all others, with N on a grid. Where N is so large that the plateaus do not
show, the hypothesis predicts what 1 / p does.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from insitu.modeling.adjustments import no_adjustments
from insitu.modeling.evidence.alternatives import (
    MIN_WEIGHT,
    Alternative,
    find_competing,
    spread_of_terms,
    weigh_terms,
)
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.exact import PROBABILITY, exact_answer
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import ONE, Factor, Function, Term
from insitu.modeling.spread import Spread

MIN_POINTS = 5  # of a series whose work may be divided unevenly: a, b, N, and two that show it
PRIOR = 0.03  # that the work of a series is divided unevenly and visibly, before any data
SMALLEST_WORK, LARGEST_WORK = 0.5, 64.0  # N relative to the largest coordinate; beyond, plateaus
# are less than 2 % high at the measured points
N_WORKS = 1500  # values of N at most
N_EXAMINED = 48  # whose evidence is computed
MAX_RATIO = 0.8  # of the newest to the first value, above which a series does not fall
MAX_VISIBLE = 0.25  # of the largest N: above, no plateau shows

# Counts m · ceil(N / x), without noise.
MIN_CHUNKS, MIN_DISTINCT = 4, 3  # largest value of ceil(N / x), and different values of it
MAX_UNKNOWN = 0.1  # of N, that the points may leave
MAX_DIVISOR = 16  # of the greatest common divisor of the values, to be m
N_WORKS_OF_COUNTS = 5  # values of N that predictions come from
LARGEST_INTEGER = 2.0**53
DOWNWARDS = np.array([-1.0, 0.0, 0.0])  # alpha, beta, gamma


def find_falling(x: FloatArray, values: FloatArray, counts: FloatArray) -> IntArray:
    """Return the series that fall over numbers of processes, by index.

    Args:
        x: (n,), ascending and positive. values: (s, n). counts: (s,), of measured points.
    """
    is_number = bool((x == np.round(x)).all()) and x[-1] < LARGEST_INTEGER
    if len(x) < MIN_POINTS or not is_number:
        return np.zeros(0, dtype=np.intp)
    is_usable = (values > 0).all(axis=1) & (counts == len(x))
    return np.flatnonzero(is_usable & (values[:, -1] < MAX_RATIO * values[:, 0]))


def weigh_division(
    batch: Batch,
    rows: IntArray,
    noise: FloatArray,
    levels: FloatArray,
    *,
    answers: list[Answer],
    log_evidence: FloatArray,
) -> dict[int, Alternative]:
    """Return the hypothesis of uneven work for some series, by position, where it competes.

    Args:
        rows: (s,). noise: (s, L), probability of each level. levels: (L,).
        answers, log_evidence: (s,), of one function, and of all functions.
    """
    terms, works = _terms(tuple(batch.x.tolist()))
    data = batch.data.select(rows)
    examined, fits, evidence = weigh_terms(
        terms, data, noise, levels, n_examined=N_EXAMINED, prior=PRIOR
    )

    result = {}
    for i in find_competing(evidence, log_evidence).tolist():
        row = int(rows[i])
        work = works[examined[i]]
        adjustments = no_adjustments(len(work))
        adjustments[:, 1] = work
        spread = spread_of_terms(
            fits,
            i,
            levels=levels,
            exponents=np.tile(DOWNWARDS, (len(work), 1)),
            sizes=np.full(len(work), 1 / batch.x[0]),
            offsets=np.zeros(len(work)),
            adjustments=adjustments,
            scale=float(batch.scale[row]),
            noise=float(batch.worth.newest[row]),
        )
        own = answers[i]._replace(work=_bounds(works, spread))
        result[i] = Alternative(answers[i], float(evidence[i]), float(log_evidence[i]), spread, own)
    return result


def _bounds(works: FloatArray, spread: Spread) -> tuple[float, float] | None:
    """The smallest and the largest N that are probable, None where plateaus hardly show.

    Args:
        works: (K,), all that were considered.
    """
    probable = spread.all_adjustments()[:, 1][spread.weights > MIN_WEIGHT]
    low, high = float(probable.min()), float(probable.max())
    return (low, high) if high < MAX_VISIBLE * works[-1] else None


def divided_count(batch: Batch, row: int) -> Answer | None:
    """Return the answer m · ceil(N / x) of a count that is so at all points, None if it is not.

    m is a whole number, and so is N, of which the points leave a few. The formula that is printed
    is smooth.
    """
    x, values = batch.x, batch.series.values[row]
    is_whole = bool((values == np.round(values)).all() and (x == np.round(x)).all())
    if len(x) < MIN_POINTS or not is_whole or values.min() < 1 or values.max() > LARGEST_INTEGER:
        return None

    largest = int(np.gcd.reduce(values.astype(np.int64)))
    for divisor in range(1, MAX_DIVISOR + 1):
        if largest % divisor:
            continue
        size = largest // divisor
        chunks = values / size
        low, high = float((x * (chunks - 1)).max()), float((x * chunks).min())  # N in (low, high]
        is_visible = chunks.max() >= MIN_CHUNKS and len(np.unique(chunks)) >= MIN_DISTINCT
        if is_visible and 1 <= high - low <= MAX_UNKNOWN * high:
            return _exact_answer(batch, size, low + 1, high)
    return None


def _exact_answer(batch: Batch, size: int, low: float, high: float) -> Answer:
    """The answer size · ceil(N / x) with N from low to high."""
    works = np.unique(np.round(np.linspace(low, high, N_WORKS_OF_COUNTS)))
    count, middle = len(works), float(np.round((low + high) / 2))
    spread = exact_answer(batch.space, 0.0, [], []).spreads[0]
    assert spread is not None
    adjustments = no_adjustments(count)
    adjustments[:, 1] = works
    parameter = batch.space.parameter
    return Answer(
        functions=(
            Function((parameter,), 0.0, (Term(size * middle, (Factor(parameter, -ONE),)),)),
        ),
        spreads=(
            replace(
                spread,
                exponents=np.tile(DOWNWARDS, (count, 1, 1, 1)),
                coefficients=np.stack([np.zeros(count), size * works], axis=1),
                covariances=np.zeros((count, 2, 2)),
                weights=np.full(count, 1 / count),
                adjustments=adjustments,
            ),
        ),
        probability=PROBABILITY,
        columns=1,
        work=(low, high),
    )


@lru_cache(maxsize=16)
def _terms(x: tuple[float, ...]) -> tuple[FloatArray, FloatArray]:
    """The terms ceil(N / x) · x_1 / N (K, n), and N (K,)."""
    points = np.array(x)
    low, high = max(SMALLEST_WORK * x[-1], 1.0), LARGEST_WORK * x[-1]
    works = np.unique(np.round(np.geomspace(low, high, N_WORKS)))
    return np.ceil(works[:, None] / points) * (points[0] / works)[:, None], works
