"""Points that are left out of a series, and what functions and local laws predict for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.point_fits import PointFits
from insitu.modeling.evidence.posterior import Posterior, compute_posterior
from insitu.modeling.local_laws import LocalLaw, damped_trend, last_line, last_value
from insitu.modeling.measurement import FloatArray, IntArray

MIN_POINTS = 4  # of a series that is fitted without its largest scale
MIN_POINTS_OF_TWO = 6  # … and without its two largest
SHARES = (0.5, 0.25, 0.25)  # of the largest without it, and of the first and last of several

# Coordinates as close as 345 and 350. Chosen on draws like those of `close_scales.py` in
# `tests/evaluation`, seeds 1 to 4, and on the lattice algorithms from the smaller half: leaving
# out a whole doubling, or half of the points, holds no more and predicts worse.
CLOSE = 0.5  # doublings to the largest coordinate, below which points are left out together …
MAX_LEFT_OUT = 1 / 3  # … but no larger share of all points

MIN_POINTS_OF_LAWS = 3  # of a series whose prediction is averaged with local laws
DAMPED_FROM = 5  # points from which growth that ends is recognised; below, the last value is a law

MAX_ERROR = 1.5  # of a logarithm; larger ones are all equally bad
N_METHODS = 3  # functions, line, and last value or damped trend
MEDIAN_ROUNDS = 24  # of bisection
TINY = 1e-300


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions of points that were left out, by series s, held-out point h and method k.

    rows: (s,). is_usable: (s,), whether all values are positive. log_ratios: (s, h, k), ln of
    measured over predicted, functions first. deviations: (s, h), standard deviation of the
    logarithm that the functions claim. shares: (h,), in the mean error. doublings: (h,), from the
    points that were used. points: (h,), index of each.
    """

    rows: IntArray
    is_usable: BoolArray
    log_ratios: FloatArray
    deviations: FloatArray
    shares: FloatArray
    doublings: FloatArray
    points: IntArray

    @staticmethod
    def join(chunks: Sequence["HeldOut"], rows: IntArray) -> "HeldOut":
        """Return all chunks of the same points as one, with other indices of the series."""
        first = chunks[0]
        return HeldOut(
            rows=rows,
            is_usable=np.concatenate([chunk.is_usable for chunk in chunks]),
            log_ratios=np.concatenate([chunk.log_ratios for chunk in chunks]),
            deviations=np.concatenate([chunk.deviations for chunk in chunks]),
            shares=first.shares,
            doublings=first.doublings,
            points=first.points,
        )

    def repeat(self, indices: IntArray, rows: IntArray) -> "HeldOut":
        """Return the predictions of some of the series (k,), each as often as it is named.

        Args:
            indices: (k,), of the series. rows: (k,), their indices from here on.
        """
        return replace(
            self,
            rows=rows,
            is_usable=self.is_usable[indices],
            log_ratios=self.log_ratios[indices],
            deviations=self.deviations[indices],
        )


def hold_out(batch: Batch, rows: IntArray, noise_prior: FloatArray, fits: PointFits) -> HeldOut:
    """Predict the largest scale of series without it, and without several where there are six.

    Of three points, only local laws predict the third.

    Args:
        rows: (s,). noise_prior, fits: of these series; noise_prior: (s, L), at the levels of fits.
    """
    n = len(batch.x)
    values = np.where(batch.scale[rows, None] > 0, batch.relative[rows], 0.0)
    is_usable = np.asarray((values > 0).all(axis=1) & (batch.data.counts[rows] == n))
    values = np.where(is_usable[:, None], values, 1.0)

    plan = [(1, n - 1, 1.0)] if n >= MIN_POINTS_OF_LAWS else []
    several = count_left_out(batch.x)
    if several:
        predicted = ((1, n - 1), (several, n - several), (several, n - 1))
        plan = [(*held, share) for held, share in zip(predicted, SHARES, strict=True)]

    mixtures: list[_Mixture] = []
    laws_at, doublings = [], []
    posteriors: dict[int, Posterior] = {}
    laws_of = {
        drop: fit_local_laws(batch.x[: n - drop], values[:, : n - drop], n)
        for drop in {drop for drop, *_ in plan}
    }
    for drop, point, _ in plan:
        log_x = float(np.log(batch.x[point] / batch.x[n - drop - 1]))
        laws_at.append([law.log_values(log_x) for law in laws_of[drop]])
        doublings.append(log_x / np.log(2))
        if n < MIN_POINTS:
            continue

        candidates = fits.without(tuple(range(n - drop, n)))
        if drop not in posteriors:
            posteriors[drop] = compute_posterior(candidates.log_evidence, noise_prior, fits.levels)
        mixtures.append(_predict(batch, candidates, posteriors[drop], point=point))

    # Functions of two points are not tested: they count as the line that both points have.
    medians = _find_medians(mixtures) if mixtures else [laws[0] for laws in laws_at]
    ratios, deviations = [], []
    for i, (drop, point, _) in enumerate(plan):
        logs = np.stack([medians[i], *laws_at[i]], axis=1)
        ratios.append(np.log(values[:, point])[:, None] - logs)
        if not mixtures:
            deviations.append(np.zeros(len(rows)))
            continue
        repetitions = batch.data.repetitions[rows, point]
        deviations.append(mixtures[i].deviation(medians[i], posteriors[drop].sigma, repetitions))

    shape = (len(rows), 0)
    return HeldOut(
        rows=rows,
        is_usable=is_usable,
        log_ratios=np.stack(ratios, axis=1) if plan else np.zeros((*shape, N_METHODS)),
        deviations=np.stack(deviations, axis=1) if plan else np.zeros(shape),
        shares=np.array([share for *_, share in plan]),
        doublings=np.array(doublings),
        points=np.array([point for _, point, _ in plan], dtype=np.intp),
    )


def count_left_out(x: FloatArray) -> int:
    """Return how many of the largest coordinates (n,) are left out together, 0 for too few."""
    if len(x) < MIN_POINTS_OF_TWO:
        return 0
    n_near = int((x > x[-1] / 2**CLOSE).sum())
    return max(2, min(n_near, int(MAX_LEFT_OUT * len(x))))


def fit_local_laws(x: FloatArray, values: FloatArray, n_points: int) -> tuple[LocalLaw, LocalLaw]:
    """Return the local laws of series of so many points, fitted to some of them.

    Args:
        x: (n,). values: (s, n), positive.
    """
    line = last_line(x, values)
    return line, damped_trend(x, values) if n_points >= DAMPED_FROM else last_value(values)


@dataclass(frozen=True, slots=True)
class _Mixture:
    """What the functions predict at one point: normal distributions of the logarithm, (s, h) each.

    weights: of the functions. centre, relative: mean and standard deviation of each. is_possible:
    whether it has a logarithm.
    """

    weights: FloatArray
    centre: FloatArray
    relative: FloatArray
    is_possible: BoolArray

    def deviation(
        self, median: FloatArray, sigma: FloatArray, repetitions: FloatArray
    ) -> FloatArray:
        """Return the standard deviation of a measurement around the median: (s,).

        Args:
            sigma: (s,), noise of one measurement. repetitions: (s,), measured at this point.
        """
        repetitions = np.where(repetitions > 0, repetitions, 1.0)
        squares = (self.centre - median[:, None]) ** 2 + self.relative**2
        return np.asarray(np.sqrt((self.weights * squares).sum(axis=1) + sigma**2 / repetitions))


def _predict(batch: Batch, candidates: Candidates, posterior: Posterior, *, point: int) -> _Mixture:
    """The logarithm of the functions at a point."""
    terms = batch.data.terms[:, point]
    term = np.append(np.where(np.isfinite(terms), terms, 0.0), 0.0)  # index -1: no term
    a, b = term[candidates.first], term[candidates.second]
    c0, c1, c2 = candidates.coefficients
    v00, v11, v22, v01, v02, v12 = candidates.inverse
    centre = c0 + c1 * a + c2 * b
    own = v00 + a * a * v11 + b * b * v22 + 2 * (a * v01 + b * v02 + a * b * v12)

    is_possible = (centre > TINY) & (posterior.hypotheses > 0) & np.isfinite(own)
    weights = np.where(is_possible, posterior.hypotheses, 0.0)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), TINY)
    size = np.where(is_possible, centre, 1.0)
    relative = np.where(is_possible, np.sqrt(np.maximum(own, 0.0)) / size, 0.0)
    relative = np.minimum(relative * posterior.sigma[:, None], MAX_ERROR)
    return _Mixture(weights, np.log(size), relative, is_possible)


def _find_medians(mixtures: Sequence[_Mixture]) -> list[FloatArray]:
    """The medians of mixtures of the same series, all by one bisection: (s,) each.

    The logistic distribution stands for the normal one.
    """
    weights = np.concatenate([mixture.weights for mixture in mixtures])
    centre = np.concatenate([mixture.centre for mixture in mixtures])
    relative = np.concatenate([mixture.relative for mixture in mixtures])
    is_possible = np.concatenate([mixture.is_possible for mixture in mixtures])

    low = np.where(is_possible, centre, np.inf).min(axis=1)
    high = np.where(is_possible, centre, -np.inf).max(axis=1)
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    steepness = 0.85 / np.maximum(relative, 1e-9)
    for _ in range(MEDIAN_ROUNDS):
        middle = (low + high) / 2
        distance = middle[:, None] - centre
        distance *= steepness
        np.tanh(distance, out=distance)
        distance *= weights
        below = distance.sum(axis=1) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.split((low + high) / 2, len(mixtures))
