"""Growth that ends: the hypothesis a + b · x / (x + k), which no power or logarithm describes.

A queue that fills, a network that is shared, a cache that is lost: values grow at first and level
off where x is several times k. Sums of powers and logarithms go on growing, or they take the end of
growth for a change of behaviour. The evidence of the hypothesis is computed as that of all others,
with k on a grid. Its prediction is that of local laws, one for each k; see `local_laws.py`.
"""

from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.marginal import invisible_prior, log_evidence
from insitu.modeling.evidence.posterior import MIN_RATIO
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.local_laws import LocalLaws
from insitu.modeling.measurement import FloatArray, IntArray

MIN_POINTS = 5  # of a series whose growth may end: a, b, k, and two that show it
PRIOR = 0.1  # that growth ends, before any data
N_SCALES = 18  # values of k, each about a third larger than the one before
SMALLEST_SCALE, LARGEST_SCALE = 0.5, 4.0  # k relative to the smallest and the largest coordinate
MAX_SLOPE_RATIO = 0.8  # of the slopes in the newest and the older half, above which growth goes on
MIN_WEIGHT = 0.05  # of one k, below which it has no local law
MIN_SHARE = 0.3  # posterior below which the hypothesis does not change a prediction
MATCHED_FACTOR = 8.0  # local laws equal the hypothesis at this many times the largest coordinate
DECAY_ROUNDS = 40  # of bisection
MAX_DECAY = 20.0
TINY = 1e-300


@dataclass(frozen=True, slots=True)
class EndingGrowth:
    """The hypothesis for one series, beside its answer of one function.

    log_evidence: of the hypothesis, with its prior. log_evidence_of_functions: of all functions.
    laws: one for each k, with weights that sum to 1.
    """

    answer: Answer
    log_evidence: float
    log_evidence_of_functions: float
    laws: LocalLaws

    def share(self, answer: Answer) -> float:
        """Return the probability of the hypothesis beside functions and this answer.

        The answer may be that the series is cut, or that its newest point is off.
        """
        others = np.logaddexp(self.log_evidence_of_functions, answer.log_evidence)
        return float(1 / (1 + np.exp(np.clip(others - self.log_evidence, -700.0, 700.0))))


def average_with_ending(answer: Answer, laws: LocalLaws, share: float) -> Answer:
    """Return an answer of one function, averaged with the laws of growth that ends.

    Args:
        share: the probability that growth ends.
    """
    spread = answer.spreads[-1]
    if spread is None:
        return answer
    weighted = replace(laws, weights=laws.weights * share)
    return answer._replace(spreads=(*answer.spreads[:-1], replace(spread, local=weighted)))


@dataclass(frozen=True, slots=True)
class Saturation:
    """The hypothesis for series s.

    log_evidence: (s,), with the prior. weights: (s, K), posterior of each k. levels, slopes,
    decays: (s, K), of the local laws, for values relative to their series.
    """

    log_evidence: FloatArray
    weights: FloatArray
    levels: FloatArray
    slopes: FloatArray
    decays: FloatArray

    def beside(
        self, i: int, answer: Answer, log_evidence: float, *, start: float, scale: float
    ) -> EndingGrowth:
        """Return the hypothesis for series i, beside its answer of one function.

        Args:
            log_evidence: of all functions. start: the largest coordinate. scale: of the values.
        """
        is_used = self.weights[i] > MIN_WEIGHT
        weights = self.weights[i][is_used]
        laws = LocalLaws(
            start=start,
            weights=weights / weights.sum(),
            levels=self.levels[i][is_used] + np.log(scale),
            slopes=self.slopes[i][is_used],
            decays=self.decays[i][is_used],
        )
        return EndingGrowth(answer, float(self.log_evidence[i]), log_evidence, laws)


def find_slowing(x: FloatArray, values: FloatArray, counts: FloatArray) -> IntArray:
    """Return the series whose growth slows down on logarithmic axes, by index.

    Args:
        x: (n,), ascending and positive. values: (s, n). counts: (s,), of measured points.
    """
    n_points = len(x)
    if n_points < MIN_POINTS:
        return np.zeros(0, dtype=np.intp)
    is_usable = (values > 0).all(axis=1) & (counts == n_points)
    log_y, log_x = np.log(np.where(is_usable[:, None], values, 1.0)), np.log(x)

    middle = n_points // 2
    older = (log_y[:, middle] - log_y[:, 0]) / (log_x[middle] - log_x[0])
    newest = (log_y[:, -1] - log_y[:, middle]) / (log_x[-1] - log_x[middle])
    return np.flatnonzero(is_usable & (older > 0) & (newest < MAX_SLOPE_RATIO * older))


def weigh_saturation(
    x: FloatArray, data: RelativeData, rows: IntArray, noise: FloatArray, levels: FloatArray
) -> Saturation:
    """Return the evidence that growth ends, and what it predicts.

    Args:
        x: (n,), positive. data: all series. rows: (s,), those to weigh.
        noise: (s, L), probability of each level. levels: (L,).
    """
    scales = np.geomspace(SMALLEST_SCALE * x[0], LARGEST_SCALE * x[-1], N_SCALES)
    terms = x / (x + scales[:, None]) * (x[-1] + scales[:, None]) / x[-1]
    chosen = data.select(rows)
    constants, factors, evidence = _fit(terms, chosen, levels)

    log_noise = np.log(np.maximum(noise, TINY))
    joint = np.logaddexp.reduce(evidence + log_noise[:, None], axis=3)
    best = np.argmax(joint, axis=0)[None]  # with the constant, or without
    of_scale = np.logaddexp.reduce(joint, axis=0)
    total = np.logaddexp.reduce(of_scale, axis=1)
    weights = np.exp(of_scale - np.where(np.isfinite(total), total, 0.0)[:, None])

    a = np.take_along_axis(constants, best, 0)[0]
    b = np.take_along_axis(factors, best, 0)[0]
    a, b = np.where(b > 0, a, 1.0), np.where(b > 0, b, 0.0)
    slope_of_term = scales / (x[-1] + scales)  # d ln t / d ln x at the largest coordinate
    far = MATCHED_FACTOR * x[-1]
    term_far = far / (far + scales) * (x[-1] + scales) / x[-1]
    slopes = b * slope_of_term / (a + b)
    gains = np.log((a + b * term_far) / (a + b))
    return Saturation(
        log_evidence=total + np.log(PRIOR / N_SCALES),
        weights=weights,
        levels=np.log(a + b),
        slopes=slopes,
        decays=_decays(slopes, gains),
    )


def _fit(
    terms: FloatArray, data: RelativeData, levels: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Least squares with the constant and without it: a, b (2, s, K), log evidence (2, s, K, L)."""
    w, reps = data.weights, data.repetitions
    values = data.moments / np.where(w > 0, w, 1.0)
    sum_w, sum_wy = w.sum(axis=1)[:, None], data.moments.sum(axis=1)[:, None]
    sum_wt, sum_wtt = w @ terms.T, w @ (terms**2).T
    sum_wty = data.moments @ terms.T

    # Centred, so that the determinant keeps its digits.
    centred = np.maximum(sum_wtt - sum_wt**2 / sum_w, 1e-12 * sum_wtt)
    beside = (sum_wty - sum_wt * sum_wy / sum_w) / centred
    constant = (sum_wy - beside * sum_wt) / sum_w
    alone = sum_wty / sum_wtt

    root = np.sqrt(w)
    largest_constant = np.broadcast_to(root.max(axis=1)[:, None], beside.shape)
    largest_term = (root[:, None, :] * terms).max(axis=2)
    degrees = np.broadcast_to(data.counts[:, None], beside.shape)
    with_constant = log_evidence(
        levels,
        degrees=degrees - 2,
        log_determinant=np.log(sum_w * centred),
        estimates=(constant, beside),
        deviations=(np.sqrt(sum_wtt / (sum_w * centred)), 1 / np.sqrt(centred)),
        largest=(largest_constant, largest_term),
    )
    without = log_evidence(
        levels,
        degrees=degrees - 1,
        log_determinant=np.log(sum_wtt),
        estimates=(alone,),
        deviations=(1 / np.sqrt(sum_wtt),),
        largest=(largest_term,),
    )
    without = without + np.log(invisible_prior(levels))

    constants = np.stack([constant, np.zeros_like(alone)])
    factors = np.stack([beside, alone])
    fitted = constants[..., None] + factors[..., None] * terms
    ratio = np.clip(fitted / np.where(values > 0, values, 1.0)[:, None], MIN_RATIO, 1 / MIN_RATIO)
    misfit = (reps[:, None] * np.log(ratio) ** 2).sum(axis=3)
    evidence = np.stack([with_constant, without]) - misfit[..., None] / (2 * levels**2)
    is_feasible = (constants >= 0) & (factors > 0)
    return constants, factors, np.where(is_feasible[..., None], evidence, -np.inf)


def _decays(slopes: FloatArray, gains: FloatArray) -> FloatArray:
    """The decays with which local laws of these slopes gain so much at MATCHED_FACTOR: (s, K)."""
    reach = np.log(MATCHED_FACTOR)
    low, high = np.zeros_like(slopes), np.full_like(slopes, MAX_DECAY)
    for _ in range(DECAY_ROUNDS):
        middle = (low + high) / 2
        is_too_far = slopes * -np.expm1(-middle * reach) / middle > gains
        low, high = np.where(is_too_far, middle, low), np.where(is_too_far, high, middle)
    return np.asarray((low + high) / 2)
