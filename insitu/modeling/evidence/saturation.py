"""Growth that ends: the hypothesis a + b · x / (x + k), which no power or logarithm describes.

A queue that fills, a network that is shared, a cache that is lost: values grow at first and level
off where x is several times k. Sums of powers and logarithms go on growing, or they take the end of
growth for a change of behaviour. The evidence of the hypothesis is computed as that of all others,
with k on a grid. Its prediction is that of local laws, one for each k; see `local_laws.py`.
"""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.evidence.alternatives import Alternative
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.evidence.single_terms import fit_single_terms
from insitu.modeling.local_laws import LocalLaws
from insitu.modeling.measurement import FloatArray, IntArray

MIN_POINTS = 5  # of a series whose growth may end: a, b, k, and two that show it
PRIOR = 0.1  # that growth ends, before any data
N_SCALES = 18  # values of k, each about a third larger than the one before
SMALLEST_SCALE, LARGEST_SCALE = 0.5, 4.0  # k relative to the smallest and the largest coordinate
MAX_SLOPE_RATIO = 0.8  # of the slopes in the newest and the older half, above which growth goes on
MIN_WEIGHT = 0.05  # of one k, below which it has no local law
MATCHED_FACTOR = 8.0  # local laws equal the hypothesis at this many times the largest coordinate
DECAY_ROUNDS = 40  # of bisection
MAX_DECAY = 20.0


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
    ) -> Alternative:
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
        return Alternative(answer, float(self.log_evidence[i]), log_evidence, laws)


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
    fits = fit_single_terms(terms, data.select(rows), noise, levels)
    of_scale = np.logaddexp.reduce(fits.log_joint, axis=2)
    total = np.logaddexp.reduce(of_scale, axis=1)
    weights = np.exp(of_scale - np.where(np.isfinite(total), total, 0.0)[:, None])

    is_growing = fits.factors > 0
    a, b = np.where(is_growing, fits.constants, 1.0), np.where(is_growing, fits.factors, 0.0)
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


def weigh_ending(
    batch: Batch,
    rows: IntArray,
    noise: FloatArray,
    levels: FloatArray,
    *,
    answers: list[Answer],
    log_evidence: FloatArray,
) -> dict[int, Alternative]:
    """Return the hypothesis that growth ends for some series, by position.

    Args:
        rows: (s,). noise: (s, L), probability of each level. levels: (L,).
        answers, log_evidence: (s,), of one function, and of all functions.
    """
    saturation = weigh_saturation(batch.x, batch.data, rows, noise, levels)
    return {
        i: saturation.beside(
            i,
            answer,
            float(log_evidence[i]),
            start=float(batch.x[-1]),
            scale=float(abs(batch.scale[row])),
        )
        for i, (row, answer) in enumerate(zip(rows.tolist(), answers, strict=True))
    }


def _decays(slopes: FloatArray, gains: FloatArray) -> FloatArray:
    """The decays with which local laws of these slopes gain so much at MATCHED_FACTOR: (s, K)."""
    reach = np.log(MATCHED_FACTOR)
    low, high = np.zeros_like(slopes), np.full_like(slopes, MAX_DECAY)
    for _ in range(DECAY_ROUNDS):
        middle = (low + high) / 2
        is_too_far = slopes * -np.expm1(-middle * reach) / middle > gains
        low, high = np.where(is_too_far, middle, low), np.where(is_too_far, high, middle)
    return np.asarray((low + high) / 2)
