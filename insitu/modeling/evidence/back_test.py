"""Back-test: what models of the smaller scales alone would have predicted for the largest.

Every series of at least four points is fitted once more without its largest scale, and without its
two largest where it has six points; without more of them where these are close to each other, since
the next few percent say little about a doubling. How far these models and simple local laws missed,
over the series of a pool, decides what weight the local laws get in a prediction, and how much
wider the intervals are than noise and coefficients alone make them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from insitu.modeling.base import BackTest
from insitu.modeling.distance import drift_reach
from insitu.modeling.evidence import noise
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.held_out import (
    CLOSE,
    DAMPED_FROM,
    MAX_ERROR,
    MIN_POINTS,
    MIN_POINTS_OF_LAWS,
    MIN_POINTS_OF_TWO,
    TINY,
    HeldOut,
    fit_local_laws,
)
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.pool import Pool
from insitu.modeling.local_laws import LocalLaw, LocalLaws, ramp_of
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function
from insitu.modeling.spread import Spread

# Weights of the local laws. They come from how much better a law was than the functions, in the
# mean over the series of a pool, less TIMIDITY standard errors where these have five points:
# chosen on the Castro, FEniCS and collectives series, and on P1, P6, P7 and P9 of seeds 3, 5 and 6.
PRIOR = (0.5, 0.25, 0.25)  # functions, line, and last value or damped trend
# Three and four points hardly tell functions apart: the line predicts the next scale better. Chosen
# on the first three and four points of the same real series, and on P1's functions.
PRIOR_OF_FEW = {3: (0.2, 0.7, 0.1), 4: (0.3, 0.6, 0.1)}
POWER = 3.0  # a method with half the error weighs 2³ times as much
OWN_SHARE = 0.3  # of the error of a series against that of its pool
PRIOR_SERIES = 2.0  # the prior counts like this many series
OTHER_SIZES_SERIES = 10.0  # the series of other sizes count like at most so many
PRIOR_VARIANCE = 0.25  # of the difference of two log errors, where there is one series
TIMIDITY = 1.0
MIN_WEIGHT = 0.5  # of all local laws together, below which they get none
ERROR_FLOOR = 0.01  # added to each error, so that a lucky hit does not decide

# Drift: standard deviation, one doubling beyond the points, of what no function describes.
DRIFTS = np.array([0.0, 0.01, 0.02, 0.04, 0.06, 0.09, 0.13, 0.19, 0.28, 0.4])
DRIFT_CENTRE, DRIFT_WIDTH = 0.05, 1.0  # log-normal prior
DRIFTS_OF_COUNTS = np.array([0.0, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.04, 0.13, 0.4])  # have hardly any
DRIFT_CENTRE_OF_COUNTS, DRIFT_WIDTH_OF_COUNTS = 1e-6, 2.5
DRIFT_OF_THREE = 0.13  # centre for three points, of which only local laws are tested
DRIFTS_OF_THREE = np.append(DRIFTS, [0.57, 0.8])  # as far above that centre as DRIFTS above its own
DRIFT_DEGREES = 4.0  # of freedom of the errors, so that a few large ones do not decide
MIN_POOL = 5  # tested series, from which the root mean square of the drift is known; below, the
# prior makes it so large that hardly anything about a quiet series would be certain, …
STEEP = 1.5  # … unless it is steeper than this: functions then agree less far out than at the
# points. Chosen like `CLOSE` in `held_out.py`.
MAX_TESTED_SERIES = 10.0  # more count like so many, since series of a campaign miss together

# Where models of smaller scales missed so little, the truth is one of the functions, and the answer
# is nearer to it than the median of all. P1 has drifts of up to 0.022 (seed 101), laws outside the
# space 0.029 and more in pools of 20 series (seeds 21 to 23), measured programs 0.05 and more.
MAX_DRIFT_OF_FUNCTIONS = 0.025
MIN_WEIGHT_OF_LEADER = 0.2  # of the answer among all functions
EXACT = 1e-5  # noise below which a function goes through all points of a count


def apply_back_test(
    batch: Batch, pool: Pool, held_out: HeldOut, answers: dict[int, Answer]
) -> dict[int, Answer]:
    """Return the answers of a pool with local laws, wider intervals, and what models missed.

    Args:
        held_out: of the members of the pool. answers: of these, by row.
    """
    n, rows = len(batch.x), held_out.rows
    if n < MIN_POINTS_OF_LAWS:
        return {}

    chosen = [answers[row] for row in rows.tolist()]
    is_one_law = np.array([not answer.cuts and not answer.has_point_off() for answer in chosen])
    is_good = is_one_law & held_out.is_usable
    sizes = noise.magnitudes(batch.series.values)[rows]
    weights = weigh_laws(held_out, is_good, sizes, n_points=n, prior=PRIOR_OF_FEW.get(n, PRIOR))
    weights[~is_good] = 0.0
    if pool.are_counts:
        weights[:] = 0.0
    usable = np.where(held_out.is_usable[:, None], batch.relative[rows], 1.0)
    laws = fit_local_laws(batch.x, usable, n)
    steepness = _measure_steepness(batch, chosen, laws[0], are_counts=pool.are_counts)
    drift = learn_drift(
        held_out,
        weights,
        is_good,
        sizes,
        steepness=steepness,
        n_points=n,
        are_counts=pool.are_counts,
    )

    scale = np.log(np.abs(batch.scale[rows]))[:, None]
    levels = np.stack([law.level for law in laws], axis=1) + scale
    slopes = np.stack([law.slope for law in laws], axis=1)
    decays = np.stack([law.decay for law in laws], axis=1)

    result = {}
    start, ramp, drifts = float(batch.x[-1]), ramp_of(batch.x), drift.tolist()
    has_local: BoolArray = np.asarray(weights.any(axis=1))
    back_tests = _back_tests(batch, held_out)
    for i, row in enumerate(rows.tolist()):
        spread = chosen[i].spreads[-1]
        if spread is None:
            continue
        local = None
        if has_local[i]:
            local = LocalLaws(
                start=start,
                weights=weights[i],
                levels=levels[i],
                slopes=slopes[i],
                decays=decays[i],
                ramp=ramp,
            )
        if spread.sigma > EXACT:
            leader = None
            if local is None and is_good[i] and drifts[i] < MAX_DRIFT_OF_FUNCTIONS:
                leader = _find_leader(spread, chosen[i].functions[-1])
            if leader is not None:
                spread = _put_first(spread, leader)
            spread = spread.with_back_test(drifts[i], local, is_led=leader is not None)
        result[row] = chosen[i]._replace(
            spreads=(*chosen[i].spreads[:-1], spread), back_tests=back_tests[i]
        )
    return result


def _measure_steepness(
    batch: Batch, answers: Sequence[Answer], line: LocalLaw, *, are_counts: bool
) -> FloatArray:
    """Return what the drift of each series is relative to: (s,), at least 1.

    Steep growth misses in proportion to its power, which is the slope of the line. Where
    coordinates are close, this holds for any growth, and what follows a change is measured over a
    small part of the doubling that the drift refers to.

    Args:
        answers, line: of these series.
    """
    steepness = np.ones(len(answers))
    is_close = len(batch.x) >= MIN_POINTS and ramp_of(batch.x) < CLOSE and not are_counts
    if batch.is_exponential or is_close:
        steepness = np.maximum(np.abs(line.slope), steepness)
    if not is_close:
        return steepness

    for i, answer in enumerate(answers):
        if answer.cuts:
            doublings = float(np.log2(batch.x[-1] / batch.x[answer.cuts[-1]]))
            steepness[i] *= max(1.0, 1 / doublings)
    return steepness


def _put_first(spread: Spread, index: int) -> Spread:
    """Return the same functions, the one with this index first; they have no tails."""
    if index == 0:
        return spread
    order = np.append(index, np.delete(np.arange(len(spread.weights)), index))
    return replace(
        spread,
        exponents=spread.exponents[order],
        coefficients=spread.coefficients[order],
        covariances=spread.covariances[order],
        weights=spread.weights[order],
    )


def _find_leader(spread: Spread, function: Function) -> int | None:
    """Return the index of the function that is the answer, None where it is improbable."""
    # Functions sort their terms, spreads do not. Lists, since arrays are slow for a few numbers.
    of_terms = [term.coefficient for term in function.terms]
    of_terms += [0.0] * (spread.coefficients.shape[1] - 1 - len(of_terms))
    of_terms.sort()
    for i, (constant, *coefficients) in enumerate(spread.coefficients.tolist()):
        if constant == function.constant and sorted(coefficients) == of_terms:
            return i if spread.weights[i] >= MIN_WEIGHT_OF_LEADER else None
    return None


def _back_tests(batch: Batch, held_out: HeldOut) -> list[tuple[BackTest, ...]]:
    """What models of fewer scales predicted for the largest scale, one entry per series."""
    n, rows = len(batch.x), held_out.rows
    if n < MIN_POINTS:
        return [()] * len(rows)
    at = float(batch.x[-1])
    of_largest = np.flatnonzero(held_out.points == n - 1)
    measured: FloatArray = batch.relative[rows, -1] * batch.scale[rows]
    predicted = measured[:, None] * np.exp(-held_out.log_ratios[:, of_largest, 0])

    result: list[tuple[BackTest, ...]] = []
    for is_usable, value, values in zip(
        held_out.is_usable.tolist(), measured.tolist(), predicted.tolist(), strict=True
    ):
        tests = [BackTest(at, of_fewer, value) for of_fewer in values] if is_usable else []
        result.append(tuple(tests))
    return result


def weigh_laws(
    held_out: HeldOut,
    is_good: BoolArray,
    sizes: IntArray,
    *,
    n_points: int,
    prior: Sequence[float],
) -> FloatArray:
    """Return the weight of each other law in the predictions of each series: (s, k - 1).

    Args:
        held_out: functions first. is_good: (s,), series to learn from. sizes: (s,), magnitudes.
            n_points: of the series. prior: (k,), of functions and laws.
    """
    errors = np.minimum(np.abs(held_out.log_ratios), MAX_ERROR) + ERROR_FLOOR
    log_errors = np.einsum("h,shk->sk", held_out.shares, np.log(errors))
    advantage = log_errors[:, :1] - log_errors[:, 1:]  # of each law over the functions

    # The series of one size, beside those of all sizes, beside none.
    good = advantage[is_good]
    of_all = good.sum(axis=0) / (len(good) + PRIOR_SERIES)
    variance = PRIOR_VARIANCE + (good.var(axis=0) if len(good) > 1 else 0.0)
    weight_of_all = min(OTHER_SIZES_SERIES, len(good) + PRIOR_SERIES)
    pooled, timid = np.zeros(advantage.shape), np.zeros(advantage.shape)
    for size in np.unique(sizes):
        members = sizes == size
        good = advantage[members & is_good]
        total = len(good) + weight_of_all
        pooled[members] = (good.sum(axis=0) + weight_of_all * of_all) / total
        timid[members] = np.sqrt(variance / total)

    own = (advantage + PRIOR_SERIES * pooled) / (1 + PRIOR_SERIES)
    expected = (1 - OWN_SHARE) * pooled + OWN_SHARE * own
    if DAMPED_FROM <= n_points < MIN_POINTS_OF_TWO:
        expected = expected - TIMIDITY * timid

    odds = np.array(prior[1:]) / prior[0] * np.exp(POWER * expected)
    weights = odds / (1 + odds.sum(axis=1, keepdims=True))
    if n_points >= DAMPED_FROM:
        weights[weights.sum(axis=1) < MIN_WEIGHT] = 0.0
    return np.asarray(weights)


def learn_drift(
    held_out: HeldOut,
    weights: FloatArray,
    is_good: BoolArray,
    sizes: IntArray,
    *,
    steepness: FloatArray,
    n_points: int,
    are_counts: bool,
) -> FloatArray:
    """Return the drift of each series: (s,), the same for those of similar size and steepness.

    Args:
        held_out, is_good, sizes, n_points: as for `weigh_laws`. weights: (s, k - 1), that it
            returned. steepness: (s,), what drifts are relative to. are_counts: whether values are
            counts, which hardly drift.
    """
    # What the averaged prediction missed, in the units of what it claims.
    shares = np.concatenate([1 - weights.sum(axis=1, keepdims=True), weights], axis=1)
    missed = np.einsum("sk,shk->sh", shares, held_out.log_ratios)
    between = np.einsum("sk,shk->sh", shares, (held_out.log_ratios - missed[:, :, None]) ** 2)
    claimed = (shares[:, :1] * held_out.deviations) ** 2 + between
    missed = np.clip(missed, -MAX_ERROR, MAX_ERROR)

    drifts, centre, width = DRIFTS, DRIFT_CENTRE, DRIFT_WIDTH
    if n_points < MIN_POINTS:
        drifts, centre = DRIFTS_OF_THREE, DRIFT_OF_THREE
    if are_counts:
        drifts = DRIFTS_OF_COUNTS
        centre, width = DRIFT_CENTRE_OF_COUNTS, DRIFT_WIDTH_OF_COUNTS
    prior = -0.5 * (np.log(np.maximum(drifts, drifts[1] / 2) / centre) / width) ** 2

    reach = drift_reach(held_out.doublings) * steepness[:, None]
    variance = claimed[:, :, None] + (drifts * reach[:, :, None]) ** 2 + TINY
    log_density = -0.5 * (DRIFT_DEGREES + 1) * np.log1p(
        missed[:, :, None] ** 2 / (DRIFT_DEGREES * variance)
    ) - 0.5 * np.log(variance)
    likelihood = np.einsum("h,shd->sd", held_out.shares, log_density)

    result = np.empty(len(is_good))
    is_steep = (steepness > STEEP) & (not are_counts)
    for size in np.unique(sizes):
        members = sizes == size
        good = likelihood[members & is_good]
        temper = min(1.0, MAX_TESTED_SERIES / max(len(good), 1))
        log_posterior = prior + temper * good.sum(axis=0)
        posterior = np.exp(log_posterior - log_posterior.max())
        posterior /= posterior.sum()
        mean, square = float(posterior @ drifts), float(posterior @ drifts**2)
        is_mean_square = is_steep[members] | (len(good) >= MIN_POOL)
        result[members] = np.where(is_mean_square, np.sqrt(square), mean)
    return result * steepness
