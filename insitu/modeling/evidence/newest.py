"""Hypotheses for the newest points of a series: what one to three points behind a law may mean.

A point that leaves the law of the points before it was disturbed, or begins a step that stays, or
a new law. A single point cannot tell these apart, and too few points never determine the exponent
of a function of their own. So the law of the points before goes on, with one free quantity w, of
prior N(0, SIZE²) and, for single values that are off by far, of N(0, HEAVY_SIZE²):

    disturbed   the newest value alone is e^w times as large; the law is unchanged behind it
    step        values are e^w times as large from there on
    new law     values are (x / x_k)^w times as large from there on, x_k the last point before

All functions of the points before compete, each with its covariance, at each level of noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.evidence.answer import Answer, mix_claims
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.posterior import Posterior
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.evidence.segment import IMPOSSIBLE
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.spread import Spread

MIN_POINTS = 5  # of a series whose newest point is examined
MAX_TAIL = 3  # points of a last segment that may be nothing but a newest point that is off
SIZE = 0.8  # standard deviation of w: about a factor of two either way, or ±0.8 of an exponent
HEAVY_SIZE = 4.0  # the same for values that dominate all others, or vanish beside them
HEAVY_SHARE = 0.1  # of the prior of w
HEAVY_FROM = 2.0  # SIZE: smaller shifts hardly differ with and without the heavy prior
OFF_PRIOR = 0.08  # that the newest point leaves the law, before any data
PRIOR_WEIGHT = 10.0  # counts like this many series
EM_ROUNDS = 12
DETECTED = 0.5  # posterior from which the newest point is reported
NEGLIGIBLE_LOG_ODDS = -3.9  # posterior of 2 %, below which it does not enter the prediction
MAX_LOG_ODDS = 700.0  # so that exponentials stay finite
LOG_MARGIN = 3.0  # of log evidence, by which a cut before the last two or three points must be
# better: among single points behind a law it was below -1.6, at true changes above 25
MIN_VALUE = 1e-300  # in place of zero, where the logarithm is taken

# What one point behind a law is, before any data. It is never learnt: on a geometric grid all three
# explain it equally well, so learning would choose one of them by chance. In measured programs the
# scale after it shows that few such points were disturbed (7 to 10 %), and about as many steps as
# new laws follow: tests/evaluation/newest_points.py, on 16 families of docs/benchmarks/real.md.
# Disturbed points weigh more than that, so that intervals hold them with room.
DISTURBED, STEP, NEW_LAW = 0.15, 0.45, 0.4


@dataclass(frozen=True, slots=True)
class Shift:
    """The free quantity w behind the law of each hypothesis: (s, h, L) each.

    log_density: of the points behind, w integrated out. mean, variance: posterior of w.
    """

    log_density: FloatArray
    mean: FloatArray
    variance: FloatArray


def weigh_shift(residuals: FloatArray, variances: FloatArray, direction: FloatArray) -> Shift:
    """Return the posterior of w, where residual j is w · direction_j + N(0, variance_j).

    Args:
        residuals: (s, h, J), logarithm of value over function at the points behind.
        variances: (s, h, L, J), positive.
        direction: (J,).
    """
    shift = _weigh_shift(residuals, variances, direction, SIZE)
    far = np.flatnonzero(np.abs(residuals).max(axis=(1, 2)) > HEAVY_FROM * SIZE)
    if len(far) == 0:
        return shift

    heavy = _weigh_shift(residuals[far], variances[far], direction, HEAVY_SIZE)
    log_usual = np.log(1 - HEAVY_SHARE) + shift.log_density[far]
    log_heavy = np.log(HEAVY_SHARE) + heavy.log_density
    log_density = np.logaddexp(log_usual, log_heavy)
    share = np.exp(log_heavy - log_density)

    # The mean and the variance of the mixture.
    mean, variance = shift.mean[far], shift.variance[far]
    mixed = (1 - share) * mean + share * heavy.mean
    squares = (1 - share) * (variance + mean**2) + share * (heavy.variance + heavy.mean**2)
    shift.log_density[far] = log_density
    shift.mean[far] = mixed
    shift.variance[far] = np.maximum(squares - mixed**2, 0.0)
    return shift


def _weigh_shift(
    residuals: FloatArray, variances: FloatArray, direction: FloatArray, size: float
) -> Shift:
    """The same, with a normal prior of this standard deviation."""
    precision = 1 / size**2 + (direction**2 / variances).sum(axis=3)
    projected = (direction * residuals[:, :, None] / variances).sum(axis=3)
    mean = projected / precision

    # The determinant lemma and the Woodbury identity for diag(variances) + size² · c cᵀ.
    squares = (residuals[:, :, None] ** 2 / variances).sum(axis=3) - projected**2 / precision
    log_determinant = np.log(variances).sum(axis=3) + np.log(precision * size**2)
    n_points = residuals.shape[2]
    log_density = -0.5 * (squares + log_determinant + n_points * np.log(2 * np.pi))
    return Shift(log_density, mean, np.broadcast_to(1 / precision, mean.shape).copy())


@dataclass(frozen=True, slots=True)
class OffPoint:
    """A point of series s beside the law of the others.

    is_usable: (s,), whether all values are positive. log_joint: (s, h, L), logarithm of the
    probability of all points under each law if this point is off.
    """

    is_usable: BoolArray
    log_joint: FloatArray

    @property
    def log_evidence(self) -> FloatArray:
        """The evidence that the point is off: (s, L)."""
        return np.asarray(np.logaddexp.reduce(self.log_joint, axis=1))

    def log_odds(self, log_whole: FloatArray, noise: FloatArray, prior: float) -> FloatArray:
        """Return the logarithm of the odds that the point is off: (s,).

        Args:
            log_whole: (s, L), evidence of one law of all points. noise: (s, L), prior of the
                levels. prior: that the point is off.
        """
        log_noise = np.log(np.maximum(noise, MIN_VALUE))
        whole = np.logaddexp.reduce(log_whole + log_noise, axis=1) + np.log(1 - prior)
        log_odds = self.log_probability(noise, prior) - whole
        return np.where(self.is_usable, log_odds, IMPOSSIBLE)

    def log_probability(self, noise: FloatArray, prior: float) -> FloatArray:
        """Return the logarithm of the probability of the data and that the point is off: (s,).

        Args:
            noise, prior: as for `log_odds`.
        """
        log_noise = np.log(np.maximum(noise, MIN_VALUE))
        off = np.logaddexp.reduce(self.log_evidence + log_noise, axis=1)
        return np.asarray(off + np.log(prior))


@dataclass(frozen=True, slots=True)
class NewestPoint(OffPoint):
    """The newest point of series s beside the law of the points before it.

    step, law: w under each law, if the newest point begins a step or a new law.
    """

    step: Shift
    law: Shift

    def shifts(
        self, rows: IntArray, posterior: Posterior, noise: FloatArray, *, count: int
    ) -> FloatArray:
        """Return w of the most probable laws of some series: (r, k, 4).

        Mean and standard deviation if the newest point begins a step, then if it begins a new law;
        k as in the spreads of the answers.

        Args:
            rows: (r,). posterior: of these. noise: (r, L), prior of the levels. count: k.
        """
        weight = self.log_joint[rows] + np.log(np.maximum(noise, MIN_VALUE))[:, None]
        weight = np.exp(weight - weight.max(axis=2, keepdims=True, initial=IMPOSSIBLE))
        weight /= np.maximum(weight.sum(axis=2, keepdims=True), MIN_VALUE)

        columns = []
        for shift in (self.step, self.law):
            mean = (weight * shift.mean[rows]).sum(axis=2)
            variance = (weight * shift.variance[rows]).sum(axis=2)
            columns += [mean, np.sqrt(variance)]
        order = np.argsort(-posterior.hypotheses, axis=1)[:, :count]
        return np.take_along_axis(np.stack(columns, axis=2), order[:, :, None], 1)


@dataclass(frozen=True, slots=True)
class Residual:
    """A point of series s beside each law of the others, at noise levels L.

    is_usable: (s,), whether all values are positive. is_possible: (s, h), whether the law is
    positive there, too. logarithm: (s, h), of value over law. variance: (s, h, L), of law and
    measurement. repetitions: (s,), that the point is worth.
    """

    is_usable: BoolArray
    is_possible: BoolArray
    logarithm: FloatArray
    variance: FloatArray
    repetitions: FloatArray

    def log_joint(self, candidates: Candidates, log_density: FloatArray) -> FloatArray:
        """Return the evidence of all points (s, h, L), with this density of the point.

        The evidence of the other points leaves out the repetitions of each, so this does, too.
        """
        of_point = log_density - 0.5 * np.log(self.repetitions)[:, None, None]
        joint = np.where(
            self.is_possible[..., None], candidates.log_evidence + of_point, IMPOSSIBLE
        )
        return np.where(self.is_usable[:, None, None], joint, IMPOSSIBLE)


def compare_point(
    data: RelativeData, candidates: Candidates, levels: FloatArray, *, point: int
) -> Residual:
    """Return how far a point is from the laws of the others.

    Args:
        data: all n points of the series. candidates: fits of the other points, in the units of the
            data. levels: (L,) of noise. point: its index.
    """
    terms = data.terms[:, point]
    term = np.append(np.where(np.isfinite(terms), terms, 0.0), 0.0)
    a, b = term[candidates.first], term[candidates.second]
    c0, c1, c2 = candidates.coefficients
    v00, v11, v22, v01, v02, v12 = candidates.inverse
    fitted = c0 + c1 * a + c2 * b
    own_variance = v00 + a * a * v11 + b * b * v22 + 2 * (a * v01 + b * v02 + a * b * v12)

    weight, repetitions = data.weights[:, point], data.repetitions[:, point]
    value = data.moments[:, point] / np.where(weight > 0, weight, 1.0)
    is_usable: BoolArray = np.all((data.weights > 0) & (data.moments > 0), axis=1)
    is_possible: BoolArray = (fitted > MIN_VALUE) & is_usable[:, None]

    size = np.where(is_possible, fitted, 1.0)
    residual = np.where(is_possible, np.log(np.where(is_usable, value, 1.0)[:, None] / size), 0.0)
    relative = np.where(is_possible, np.maximum(own_variance, 0.0) / size**2, 1.0)
    repetitions = np.where(repetitions > 0, repetitions, 1.0)
    variance = (relative + 1 / repetitions[:, None])[:, :, None] * levels**2
    return Residual(is_usable, is_possible, residual, variance, repetitions)


def weigh_newest_point(
    data: RelativeData, candidates: Candidates, levels: FloatArray, x: FloatArray
) -> NewestPoint:
    """Return the evidence that the newest point is off.

    Args:
        data: all n points of the series.
        candidates: fits of the first n - 1 points, in the units of the data.
        levels: (L,) of noise. x: (n,), values of the parameter.
    """
    newest = compare_point(data, candidates, levels, point=-1)
    residual, variances = newest.logarithm[:, :, None], newest.variance[..., None]
    step = weigh_shift(residual, variances, np.ones(1))
    law = weigh_shift(residual, variances, _stretch(x))

    of_point = np.logaddexp(
        np.log(DISTURBED + STEP) + step.log_density, np.log(NEW_LAW) + law.log_density
    )
    return NewestPoint(newest.is_usable, newest.log_joint(candidates, of_point), step, law)


def largest_density(x: FloatArray) -> float:
    """Return the largest density that the logarithm of a newest point may have.

    Args:
        x: (n,), values of the parameter.
    """
    of_step = 1 / (SIZE * np.sqrt(2 * np.pi))
    stretch = float(_stretch(x)[0])
    return float(of_step * (DISTURBED + STEP + NEW_LAW / stretch))


def _stretch(x: FloatArray) -> FloatArray:
    """The change of ln x from the point before to the newest: (1,)."""
    return np.log(x[-1:] / x[-2:-1]) if x[-2] > 0 else np.ones(1)


def learn_prior(off: FloatArray, whole: FloatArray, noise: FloatArray) -> float:
    """Return how often the newest point of a series is off, learnt from a sample.

    Args:
        off, whole: (s, L), log evidence that it is, and that it is not.
        noise: (L,), probability of each level.
    """
    log_noise = np.log(np.maximum(noise, MIN_VALUE))
    log_odds = np.logaddexp.reduce(off + log_noise, axis=1)
    log_odds -= np.logaddexp.reduce(whole + log_noise, axis=1)
    odds = np.exp(np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS))

    prior = OFF_PRIOR
    for _ in range(EM_ROUNDS):
        posterior = prior * odds / (prior * odds + 1 - prior)
        prior = float(posterior.sum() + PRIOR_WEIGHT * OFF_PRIOR) / (len(odds) + PRIOR_WEIGHT)
    return prior


def combine(
    wholes: Sequence[Answer],
    laws: Sequence[Answer],
    shifts: FloatArray,
    *,
    log_odds: FloatArray,
    log_evidence: FloatArray,
    x: FloatArray,
    values: FloatArray,
) -> list[Answer]:
    """Return one answer per series of two: one law of all points, and a newest point that is off.

    Args:
        wholes, laws: answers on all points, and on all but the newest; s each.
        shifts: (s, k, 4), from `NewestPoint.shifts`.
        log_odds, log_evidence: (s,), that the newest point is off.
        x: (n,), values of the parameter.
        values: (s,), measured at the newest point.
    """
    shares = 1 / (1 + np.exp(-np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)))

    answers = []
    for i, (whole, law) in enumerate(zip(wholes, laws, strict=True)):
        spread, spread_before = whole.spreads[0], law.spreads[0]
        if spread is None or spread_before is None:
            answers.append(whole)
            continue

        off = behind_a_point(spread_before, float(x[-2]), shifts=shifts[i])
        share, newest = float(shares[i]), float(x[-1])
        mixed = mix(spread, off, share)
        lasting = law._replace(probability=(1 - NEW_LAW) * law.probability)
        if share <= DETECTED:
            probability = mix_claims(whole, lasting, share, at=newest)
            answers.append(whole._replace(spreads=(mixed,), probability=probability))
            continue
        answers.append(
            law._replace(
                spreads=(mixed,),
                probability=mix_claims(lasting, whole, 1 - share, at=newest),
                newest_factor=float(values[i] / law.functions[0](x[-1:])[0]),
                log_evidence=float(log_evidence[i]),
            )
        )
    return answers


def prefers_cut(cut: Answer, whole: Answer, n_points: int) -> bool:
    """Return whether a series is cut, although a single point may be off instead.

    A point that is off and the one or two points beside it easily get a function of their own, of
    any exponent. So such a short segment must be much more probable.
    """
    is_short_end = np.isfinite(whole.newest_factor) and n_points - cut.cuts[-1] <= MAX_TAIL
    is_short_start = whole.off_point == 0 and cut.cuts[0] <= MAX_TAIL
    is_inside = whole.off_point > 0
    if not (is_short_end or is_short_start or is_inside):
        return True
    return cut.log_evidence > whole.log_evidence + LOG_MARGIN


def behind_a_point(spread: Spread, start: float, *, shifts: FloatArray) -> Spread:
    """Return functions as they are if the newest point was disturbed, is a step or a new law.

    Args:
        spread: of the points before; k functions.
        start: the last of these points.
        shifts: (h, 4), of each function and of less probable ones, from `NewestPoint.shifts`.
    """
    count = len(spread.weights)
    kinds = np.repeat([DISTURBED, STEP, NEW_LAW], count)
    tails = np.zeros((3 * count, 5))
    tails[:, 0] = start
    tails[count : 2 * count, 1:3] = shifts[:count, :2]
    tails[2 * count :, 3:5] = shifts[:count, 2:]
    return Spread(
        exponents=np.tile(spread.exponents, (3, 1, 1, 1)),
        coefficients=np.tile(spread.coefficients, (3, 1)),
        covariances=np.tile(spread.covariances, (3, 1, 1)),
        weights=kinds * np.tile(spread.weights, 3),
        sigma=spread.sigma,
        degrees=spread.degrees,
        tails=tails,
    )


def mix(first: Spread, second: Spread, share: float) -> Spread:
    """Return the functions of both spreads, those of the second with this share in all."""
    parts = [(first, 1 - share), (second, share)]
    variance = sum(weight * spread.sigma**2 for spread, weight in parts)
    return Spread(
        exponents=np.concatenate([spread.exponents for spread, _ in parts]),
        coefficients=np.concatenate([spread.coefficients for spread, _ in parts]),
        covariances=np.concatenate([spread.covariances for spread, _ in parts]),
        weights=np.concatenate([spread.weights * weight for spread, weight in parts]),
        sigma=float(np.sqrt(variance)),
        degrees=min(first.degrees, second.degrees),
        tails=_join_tails(first, second),
        adjustments=_join_adjustments(first, second),
    )


def _join_tails(first: Spread, second: Spread) -> FloatArray | None:
    if first.tails is None and second.tails is None:
        return None
    return np.concatenate([first.all_tails(), second.all_tails()])


def _join_adjustments(first: Spread, second: Spread) -> FloatArray | None:
    if first.adjustments is None and second.adjustments is None:
        return None
    return np.concatenate([first.all_adjustments(), second.all_adjustments()])
