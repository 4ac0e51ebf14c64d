"""Alternatives: hypotheses that are no functions of the space, beside the answer of a series.

Growth that ends (`saturation.py`), growth that begins (`onset.py`) and work that cannot be divided
evenly (`division.py`). Each competes with all functions, with segments and with points that are
off, by its evidence. What it predicts enters the prediction with its probability.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.newest import mix
from insitu.modeling.evidence.posterior import degrees_of_freedom
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.evidence.single_terms import (
    TINY,
    SingleTerms,
    best_single_terms,
    fit_single_terms,
)
from insitu.modeling.local_laws import LocalLaws
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.spread import Spread

MIN_SHARE = 0.3  # posterior below which an alternative does not change a prediction
MIN_OWN_SHARE = 0.9  # posterior from which it is reported
MAX_FUNCTIONS = 6  # of one alternative that enter a prediction
MIN_WEIGHT = 0.02  # of one of them
MAX_LOG = 700.0


@dataclass(frozen=True, slots=True)
class Alternative:
    """One hypothesis for one series, beside its answer of one function.

    log_evidence: of the hypothesis, with its prior. log_evidence_of_functions: of all functions.
    predicts: local laws or functions, with weights that sum to 1. own: the answer if the hypothesis
    is almost certain, None for that of one function. is_change: whether segments, too,
    describe what it does.
    """

    answer: Answer
    log_evidence: float
    log_evidence_of_functions: float
    predicts: LocalLaws | Spread
    own: Answer | None = None
    is_change: bool = False


def shares(alternatives: Sequence[Alternative], answer: Answer) -> list[float]:
    """Return the probability of each alternative of a series beside its functions and this answer.

    The answer may be that the series is cut, or that a point is off.
    """
    total = np.logaddexp(alternatives[0].log_evidence_of_functions, answer.log_evidence)
    logs = [alternative.log_evidence for alternative in alternatives]
    total = np.logaddexp(total, logs[0] if len(logs) == 1 else np.logaddexp.reduce(logs))
    return [float(np.exp(min(max(log - total, -MAX_LOG), 0.0))) for log in logs]


def start_answer(answer: Answer, chosen: Sequence[tuple[Alternative, float]]) -> Answer:
    """Return the answer that alternatives are averaged with, as if there were nothing else.

    A series that is cut stays cut where its alternatives are changes of behaviour as well, and
    none of them is almost certain.

    Args:
        answer: of the series. chosen: its alternatives and their probabilities, at least one.
    """
    alternative, share = max(chosen, key=lambda pair: pair[1])
    is_certain = alternative.own is not None and share > MIN_OWN_SHARE
    if answer.cuts and not is_certain and all(other.is_change for other, _ in chosen):
        return answer
    if alternative.own is None or not is_certain:
        return alternative.answer
    own = alternative.own
    return own._replace(
        probability=share * own.probability,
        change_probability=share * own.change_probability,
        spreads=(*own.spreads[:-1], alternative.answer.spreads[-1]),
    )


def average_with(answer: Answer, alternative: Alternative, share: float) -> Answer:
    """Return an answer of one function, averaged with an alternative of this probability."""
    spread, predicts = answer.spreads[-1], alternative.predicts
    if spread is None:
        return answer
    if isinstance(predicts, LocalLaws):
        averaged = replace(spread, local=replace(predicts, weights=predicts.weights * share))
    else:
        local = spread.local
        if isinstance(local, LocalLaws):
            local = replace(local, weights=local.weights * (1 - share))
        averaged = replace(mix(spread, predicts, share), drift=spread.drift, local=local)
    return answer._replace(spreads=(*answer.spreads[:-1], averaged))


def weigh_terms(
    terms: FloatArray,
    data: RelativeData,
    noise: FloatArray,
    levels: FloatArray,
    *,
    n_examined: int,
    prior: float,
) -> tuple[IntArray, SingleTerms, FloatArray]:
    """Fit the terms that suit each series best, and weigh the hypothesis that one of all is right.

    Args:
        terms: (K, n), equally probable. data: the series. noise: (s, L), probability of each level.
            levels: (L,). n_examined: terms that are fitted to each series. prior: of all terms
            together, before any data.

    Returns:
        The terms of each series, by index (s, E), their fits, and the logarithm of the evidence
        (s,).
    """
    examined = best_single_terms(terms, data, n_examined)
    fits = fit_single_terms(terms[examined], data, noise, levels)
    flat = fits.log_joint.reshape(len(fits.log_joint), -1)
    total = np.maximum(np.logaddexp.reduce(flat, axis=1), np.log(TINY))
    return examined, fits, np.asarray(total + np.log(prior / len(terms)))


def spread_of_terms(
    fits: SingleTerms,
    i: int,
    *,
    levels: FloatArray,
    exponents: FloatArray,
    sizes: FloatArray,
    offsets: FloatArray,
    adjustments: FloatArray,
    scale: float,
    noise: float,
) -> Spread:
    """Return the most probable functions of one series as a spread, in the units of its values.

    A term is (g(u(x)) - offset) / size, with g a power or logarithm and u(x) what replaces x.

    Args:
        fits: i is the series. levels: (L,), of noise. exponents: (K, 3), of g. sizes, offsets:
            (K,). adjustments: (K, 4), see `Spread`. scale: of the values. noise: of the next
            measurement, relative to the usual noise of the series.
    """
    joint = fits.log_joint[i]
    joint = np.exp(joint - joint.max())
    by_level = joint.sum(axis=0) / joint.sum()
    weights = joint.sum(axis=1) / joint.sum()
    best = np.argsort(-weights, kind="stable")[:MAX_FUNCTIONS]
    best = best[weights[best] > min(MIN_WEIGHT, weights.max() / 2)]
    sigma = float(np.sqrt(by_level @ levels**2))

    # From a + b · (g - offset) / size to c + d · g.
    factor = scale / sizes[best]
    shift = offsets[best] / sizes[best] * scale
    a, b = fits.constants[i, best], fits.factors[i, best]
    coefficients = np.zeros((len(best), 3))
    coefficients[:, 0], coefficients[:, 1] = a * scale - b * shift, b * factor
    of_a, of_b, of_both = np.moveaxis(fits.inverse[i, best], 1, 0)
    covariances = np.zeros((len(best), 3, 3))
    covariances[:, 0, 0] = of_a * scale**2 - 2 * of_both * scale * shift + of_b * shift**2
    covariances[:, 1, 1] = of_b * factor**2
    covariances[:, 0, 1] = covariances[:, 1, 0] = of_both * scale * factor - of_b * shift * factor

    # There is no second term, but room for one, as in the other spreads.
    of_terms = np.zeros((len(best), 2, 1, 3))
    of_terms[:, 0, 0] = exponents[best]
    return Spread(
        exponents=of_terms,
        coefficients=coefficients,
        covariances=covariances * sigma**2,
        weights=weights[best] / weights[best].sum(),
        sigma=sigma * noise,
        degrees=float(degrees_of_freedom(by_level[None], levels)[0]),
        adjustments=adjustments[best],
    )


def find_competing(log_evidence: FloatArray, log_evidence_of_functions: FloatArray) -> IntArray:
    """Return the series in which an alternative may have MIN_SHARE, by index.

    Args:
        log_evidence, log_evidence_of_functions: (s,).
    """
    log_odds = log_evidence - log_evidence_of_functions
    return np.flatnonzero(log_odds > np.log(MIN_SHARE / (1 - MIN_SHARE)))
