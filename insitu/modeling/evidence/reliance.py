"""Claims that rest on one value: a leading term that only one of the points supports.

Where one value is far from its neighbours, it may decide alone which function fits: errors are
relative, so the smallest value weighs most, and the largest decides how a series grows. A claim
must survive leaving it out. So the functions are weighed once more without such a value, and the
claim is what remains of it.
"""

import numpy as np

from insitu.modeling.evidence import earlier
from insitu.modeling.evidence.answer import TARGET_FACTOR, Answer
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.newest import MAX_TAIL
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.pool import Pool
from insitu.modeling.evidence.posterior import compute_posterior, fit_hypotheses
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.search_space import Shape

MIN_POINTS = 5  # of one function: four others are needed to say what they support
MIN_CLAIM = 0.5  # less probable leading terms are reported as uncertain anyway
SMALLEST_SHARE = 1e-3  # of the largest value, in place of a zero, to measure how odd it is
EXACT = 1e-5  # noise below which a function goes through all points, which each point supports


def find_sole_points(batch: Batch, pool: Pool, answers: dict[int, Answer]) -> dict[int, Answer]:
    """Return the answers of a pool whose leading term one value alone supports, with less claim.

    Args:
        answers: of the members of the pool, by row.
    """
    n_points = len(batch.x)
    if n_points < MIN_POINTS or batch.x[0] <= 0:
        return {}
    is_complete = _find_complete(batch)
    candidates = [
        row for row in pool.members.tolist() if is_complete[row] and _is_examined(answers[row])
    ]
    rows = np.array(candidates, dtype=np.intp)
    is_odd = _find_odd(batch, rows)

    position = np.searchsorted(pool.members, rows)
    noise = np.exp(batch.log_likelihood_of_noise(rows, pool.levels)) * pool.noise[position]
    revised = _find_odd_ends(batch, pool, answers, is_complete)
    for point in reversed(np.flatnonzero(is_odd.any(axis=0)).tolist()):  # the newest decides first
        is_open = np.array([row not in revised for row in candidates])
        chosen = np.flatnonzero(is_odd[:, point] & is_open)
        claims = _claims_without(
            batch,
            pool,
            rows[chosen],
            functions=[answers[row].functions[0] for row in rows[chosen].tolist()],
            noise=noise[chosen],
            point=point,
        )
        for row, claim in zip(rows[chosen].tolist(), claims.tolist(), strict=True):
            if claim < MIN_CLAIM:
                revised[row] = answers[row]._replace(probability=claim, sole_point=point)
    return revised


def _find_odd(batch: Batch, rows: IntArray) -> BoolArray:
    """Which values are far from their neighbours: (s, n)."""
    floored = np.maximum(batch.relative[rows], SMALLEST_SHARE * batch.smallest[rows, None])
    return np.asarray(earlier.oddness(batch.x, floored) > earlier.ODD)


def _find_odd_ends(
    batch: Batch, pool: Pool, answers: dict[int, Answer], is_complete: list[bool]
) -> dict[int, Answer]:
    """Answers with a short last segment that grows to an odd newest value, without their claim."""
    n_points, revised = len(batch.x), {}
    for row in pool.members.tolist():
        answer = answers[row]
        is_short = answer.cuts and n_points - answer.cuts[-1] <= MAX_TAIL
        grows = bool(answer.functions[-1].terms)
        if not (is_short and grows and is_complete[row]):
            continue
        if _find_odd(batch, np.array([row]))[0, -1]:
            revised[row] = answer._replace(probability=0.0, sole_point=n_points - 1)
    return revised


def _find_complete(batch: Batch) -> list[bool]:
    """Whether each series was measured at all points, and is negative at none."""
    is_complete = (batch.data.counts == len(batch.x)) & (batch.relative >= 0).all(axis=1)
    result: list[bool] = is_complete.tolist()
    return result


def _is_examined(answer: Answer) -> bool:
    """Whether a leading term is claimed with certainty, by points that could contradict it."""
    spread = answer.spreads[0]
    is_claimed = bool(answer.functions[0].terms) and answer.probability >= MIN_CLAIM
    is_one_law = not answer.cuts and not answer.has_point_off()
    is_inexact = spread is not None and spread.sigma > EXACT
    return is_claimed and is_one_law and is_inexact


def _claims_without(
    batch: Batch,
    pool: Pool,
    rows: IntArray,
    *,
    functions: list[Function],
    noise: FloatArray,
    point: int,
) -> FloatArray:
    """The probability of the leading terms of functions without one point: (s,).

    Args:
        rows: (s,). functions: of these. noise: (s, L), probability of each level. point: its index.
    """
    is_other = np.arange(len(batch.x)) != point
    data = batch.data.select(rows).select(slice(None), is_other)
    candidates = fit_hypotheses(data, batch.space, pool.levels)
    posterior = compute_posterior(candidates.log_evidence, noise, pool.levels)

    target = np.array([TARGET_FACTOR * batch.x[-1]])
    at_target = np.append(batch.space.evaluate_terms(target)[:, 0] / batch.term_scale, 0.0)
    of_first = candidates.coefficients[1] * at_target[candidates.first]
    of_second = candidates.coefficients[2] * at_target[candidates.second]
    leading = np.where(of_second > of_first, candidates.second, candidates.first)

    index = {shape: i for i, shape in enumerate(batch.space.shapes)}
    claimed = np.array([index[_leading_shape(function, target)] for function in functions])
    return np.asarray((posterior.hypotheses * (leading == claimed[:, None])).sum(axis=1))


def _leading_shape(function: Function, target: FloatArray) -> Shape:
    """The largest term of a function at one value of its parameter (1,), without coefficient."""

    def size(term: Term) -> float:
        return float(abs(Function(function.parameters, 0.0, (term,))(target[:, None])[0]))

    return max(function.terms, key=size).factors
