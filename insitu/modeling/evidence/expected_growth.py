"""A hypothesis space with an expectation as prior, which clear data overrule [VAL §2.3].

The expected growth gets a large share of the prior, since whoever wrote it down knows more than a
general hypothesis space does. The ticks of its ruler get another share: growth next to an
expectation differs from it by something that a program does. All other growth shares the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from insitu.modeling.evidence.hypothesis_space import PAIRED_RISING, HypothesisSpace, TermExponents
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import ZERO, Factor

EXPECTED_PRIOR = 0.4  # of the expected growth
RULER_PRIOR = 0.2  # of the ticks together, relative to that of all other growth
ACCOMPANIED_SHARE = 0.03  # of the expected prior, for the expected term beside a smaller one
NEAR = 0.02  # exponents nearer than this to the expected ones count as the same growth
CONSTANT: TermExponents = (ZERO, ZERO, ZERO)
ALL_HYPOTHESES = 64  # more than the evidence is ever computed for


@dataclass(frozen=True, slots=True)
class ExpectedGrowth:
    """The leading term of one parameter that is expected, and the weights of the ticks around it.

    A term without exponents is the constant.
    """

    leading: Factor
    ticks: Mapping[Factor, float] = field(default_factory=dict)


def apply_expectation(space: HypothesisSpace, expected: ExpectedGrowth) -> HypothesisSpace:
    """Return the space with the ticks among its terms and the prior of the expectation."""
    leading = expected.leading[1:]
    is_growth = leading != CONSTANT
    weights = _weights_without_expected(space, expected)

    # What is not expected shares the rest of the prior in its old proportions.
    constant = float(np.exp(space.log_prior_constant))
    of_pairs = np.exp(space.log_prior_pairs)
    others = sum(weights.values()) + float(of_pairs.sum()) + constant * is_growth
    rest = (1 - EXPECTED_PRIOR) / others
    weights = {key: rest * weight for key, weight in weights.items()}
    of_pairs = rest * of_pairs
    constant = rest * constant if is_growth else EXPECTED_PRIOR

    pairs = space.pairs
    if is_growth:
        weights.setdefault(leading, 0.0)
        beside = _smaller_terms(leading, list(weights))
        share = EXPECTED_PRIOR * ACCOMPANIED_SHARE if len(beside) else 0.0
        weights[leading] = EXPECTED_PRIOR - share
        pairs = np.array([*pairs.tolist(), *beside.tolist()], dtype=np.intp)
        of_beside = np.full(len(beside), share / max(len(beside), 1))
        of_pairs = np.concatenate([of_pairs, of_beside])

    return replace(
        space,
        shapes=tuple((Factor(expected.leading.parameter, *key),) for key in weights),
        exponents=np.array([list(map(float, key)) for key in weights]),
        pairs=pairs,
        log_prior_constant=float(np.log(constant)),
        log_prior_terms=_log(np.array(list(weights.values()))),
        log_prior_pairs=_log(of_pairs),
    )


def _weights_without_expected(
    space: HypothesisSpace, expected: ExpectedGrowth
) -> dict[TermExponents, float]:
    """The weights of all terms and ticks; zero for what cannot be told from the expected term."""
    leading = expected.leading[1:]
    keys: list[TermExponents] = [shape[0][1:] for shape in space.shapes]
    weights = dict(zip(keys, np.exp(space.log_prior_terms).tolist(), strict=True))

    ticks: dict[TermExponents, float] = {}
    for factor, weight in expected.ticks.items():
        if factor[1:] not in (leading, CONSTANT):
            ticks[factor[1:]] = weight
    total = max(sum(ticks.values()), 1e-300)
    for tick, weight in ticks.items():
        weights[tick] = weights.get(tick, 0.0) + RULER_PRIOR * weight / total

    if leading != CONSTANT:
        for key in weights:
            if _is_near(key, leading):
                weights[key] = 0.0
    return weights


def _smaller_terms(leading: TermExponents, keys: list[TermExponents]) -> IntArray:
    """Pairs (index, index) of a term that grows more slowly, and the leading term: (P, 2)."""
    index = {key: i for i, key in enumerate(keys)}
    pairs = [
        (index[(*paired, ZERO)], index[leading])
        for paired in PAIRED_RISING
        if _grows_slower(paired, leading)
    ]
    return np.array(pairs, dtype=np.intp).reshape(-1, 2)


def _is_near(a: TermExponents, b: TermExponents) -> bool:
    return all(abs(float(x) - float(y)) < NEAR for x, y in zip(a, b, strict=True))


def _grows_slower(paired: tuple[Fraction, Fraction], leading: TermExponents) -> bool:
    alpha, beta, gamma = leading
    return (ZERO, *paired) < (gamma, alpha, beta)


def _log(weights: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(weights)
