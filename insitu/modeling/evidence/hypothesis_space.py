"""The hypothesis space of modeler "evidence": which functions are considered, with their priors.

Algorithms have exponents with small denominators and small powers of logarithms, and few terms.
The prior weights below are round numbers for it. They are a judgement: they were fixed before the
accuracy figures of docs/benchmarks were measured, and were learnt from no data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import ONE, ZERO, Factor, powers
from insitu.modeling.search_space import FALLING, Shape

HALF = Fraction(1, 2)
TermExponents = tuple[Fraction, Fraction, Fraction]  # alpha, beta, gamma of one term


@dataclass(frozen=True, slots=True)
class PriorWeights:
    """Relative weights of exponents before any data.

    denominators: of powers of x with denominators 1 to 5. logarithms: of the powers 0, 1, 2, 1/2
    and 3/2 of a logarithm beside a power of x. pure: of the powers 1, 2, 1/2 and 3/2 of a logarithm
    alone. mixed: factor for a logarithm beside a power that is not an integer. fractions: factor
    for powers above 1 that are not multiples of 1/2.
    """

    denominators: tuple[float, ...]
    logarithms: tuple[float, ...]
    pure: tuple[float, ...]
    mixed: float = 1.0
    fractions: float = 1.0


ONE_PARAMETER_WEIGHTS = PriorWeights(
    denominators=(1, 0.6, 0.6, 0.35, 0.35),
    logarithms=(1, 0.1, 0.03, 0.003, 0.003),
    pure=(1, 0.5, 0.3, 0.3),
)
# Several parameters leave fewer values of each: too few to tell fifths from logarithms.
MULTI_PARAMETER_WEIGHTS = PriorWeights(
    denominators=(1, 0.7, 0.7, 0.02, 0.005),
    logarithms=(1, 0.7, 0.1, 0.0005, 0.0005),
    pure=(1, 0.7, 0.02, 0.02),
    mixed=0.1,
    fractions=0.2,
)

LOG_POWERS = (ZERO, ONE, Fraction(2), HALF, Fraction(3, 2))  # in the order of `logarithms`
MAX_EXPONENT = 4  # of x, where growth is not steep
STEEP_FACTOR = 0.3  # on the weight of exponents above 3
DIVIDED_WORK_WEIGHT = 3.0  # factor for 1/x among falling powers: work that is divided falls so
FALLING_SHARE = 0.1  # prior of negative exponents, among single terms and among pairs
CONSTANT_PRIOR, ONE_TERM_PRIOR, TWO_TERM_PRIOR = 0.2, 0.55, 0.25  # sum to 1

MAX_PLAIN_POINTS = 4  # up to this many points only plain growth is considered
MAX_PLAIN_EXPONENT = 2
MIN_STEEP_POINTS = 5  # fewer points cannot establish steep growth

# Steep growth: powers above MAX_EXPONENT, and exponentials 2^(γ·x) with or without a power of x.
EXPONENTIAL_SHARE = 0.3  # prior of all of these together, where they are considered
STEEP_POWERS = tuple(Fraction(i, 2) for i in range(9, 17))
STEEP_POWERS_WEIGHT = 4.0  # of all of them together; each simple rate weighs 1
SIMPLE_RATES = tuple(Fraction(n, d) for n, d in ((1, 8), (1, 4), (1, 2), (1, 1), (2, 1), (3, 1)))
POWERS_BESIDE_SIMPLE_RATES = {0: 1.0, 1: 0.3, 2: 0.2, 3: 0.1, 4: 0.1}  # exponent of x: weight
POWERS_BESIDE_OTHER_RATES = {0: 1.0, 1: 0.2, 2: 0.1}
OTHER_RATES_WEIGHT = 4.0  # of all rates that are not simple together
MIN_DOUBLINGS, MAX_DOUBLINGS = 1.0, 64.0  # of a term over the range of x, by other rates
RATES_PER_DECADE = 50  # neighbouring rates differ by 5 %

PAIRED_RISING = (  # (alpha, beta) of the terms that may occur together in pairs
    *((Fraction(i), ZERO) for i in (1, 2, 3)),
    *((Fraction(i, 2), ZERO) for i in (1, 3, 5)),
    *((Fraction(i, 3), ZERO) for i in (1, 2, 4, 5, 7, 8)),
    *((ZERO, Fraction(i)) for i in (1, 2)),
    *((Fraction(i), ONE) for i in (1, 2)),
)
PAIRED_FALLING = (  # falling exponent, and (alpha, beta) of the term beside it
    (Fraction(-1), (ZERO, ONE)),
    (Fraction(-1), (ZERO, Fraction(2))),
    (Fraction(-1), (HALF, ZERO)),
    (Fraction(-1), (ONE, ZERO)),
    (Fraction(-1), (ONE, ONE)),
    (Fraction(-1), (Fraction(2), ZERO)),
    (Fraction(-1), (Fraction(-1, 2), ZERO)),
    (Fraction(-1), (Fraction(-2, 3), ZERO)),
    (Fraction(-2, 3), (ZERO, ONE)),
    (Fraction(-2, 3), (ONE, ZERO)),
    (Fraction(-1, 2), (ZERO, ONE)),
    (Fraction(-1, 2), (ONE, ZERO)),
)


@dataclass(frozen=True, slots=True, eq=False)
class HypothesisSpace:
    """A constant, T single terms and P pairs of terms, with the logarithm of the prior of each.

    parameter: its name. shapes: the T terms without their coefficients. exponents: (T, 3) alpha,
    beta, gamma. pairs: (P, 2) indices of terms. log_prior_constant, log_prior_terms (T,),
    log_prior_pairs (P,): the probabilities sum to 1.
    """

    parameter: str
    shapes: tuple[Shape, ...]
    exponents: FloatArray
    pairs: IntArray
    log_prior_constant: float
    log_prior_terms: FloatArray
    log_prior_pairs: FloatArray

    def evaluate_terms(self, x: FloatArray) -> FloatArray:
        """Return the value of each term at each value of the parameter: (n,) to (T, n)."""
        return powers(x, self.exponents[:, None])


@lru_cache(maxsize=64)
def build_hypothesis_space(
    parameter: str,
    *,
    exponential: float | None = None,
    weights: PriorWeights = ONE_PARAMETER_WEIGHTS,
) -> HypothesisSpace:
    """Return the constant, one-term and two-term functions of one parameter.

    Exponents have denominators 1 to 5, logarithms the powers 0, ½, 1, 3⁄2 and 2; simpler ones weigh
    more. Falling powers describe strong scaling, alone and beside a growing term.

    Args:
        parameter: its name.
        exponential: the range of the parameter, if growth may also be x^α with α up to 8, 2^(γ·x)
            or x^α · 2^(γ·x); rates γ double the term once to 64 times over the range.
        weights: prior weights of the exponents.
    """
    rising: dict[TermExponents, float] = {
        (alpha, beta, ZERO): weight for (alpha, beta), weight in _rising_weights(weights).items()
    }
    falling: dict[TermExponents, float] = {
        (alpha, ZERO, ZERO): weights.denominators[alpha.denominator - 1]
        * (DIVIDED_WORK_WEIGHT if alpha == -1 else 1.0)
        for alpha in FALLING
    }
    families = [(rising, 1 - FALLING_SHARE), (falling, FALLING_SHARE)]
    if exponential is not None:
        families = [(family, share * (1 - EXPONENTIAL_SHARE)) for family, share in families]
        families.append((_steep_weights(exponential), EXPONENTIAL_SHARE))

    prior: dict[TermExponents, float] = {}
    for family, share in families:
        total = sum(family.values())
        prior |= {key: share * weight / total for key, weight in family.items()}

    keys = list(prior)
    index = {key: i for i, key in enumerate(keys)}
    prior_terms = np.array(list(prior.values()))
    pairs, prior_pairs = _pair_terms(lambda alpha, beta: index[(alpha, beta, ZERO)], prior_terms)

    return HypothesisSpace(
        parameter=parameter,
        shapes=tuple((Factor(parameter, *key),) for key in keys),
        exponents=_as_floats(keys),
        pairs=pairs,
        log_prior_constant=float(np.log(CONSTANT_PRIOR)),
        log_prior_terms=np.log(ONE_TERM_PRIOR * prior_terms),
        log_prior_pairs=np.log(TWO_TERM_PRIOR * prior_pairs),
    )


@lru_cache(maxsize=64)
def build_plain_space(parameter: str, *, max_exponent: int = MAX_PLAIN_EXPONENT) -> HypothesisSpace:
    """Return a constant and single terms, for series too short for anything else.

    Args:
        parameter: its name.
        max_exponent: largest power of x; above MAX_PLAIN_EXPONENT for series of which more than
            the newest value grows that fast.
    """
    space = build_hypothesis_space(parameter)
    plain = np.flatnonzero(space.exponents[:, 0] <= max_exponent)

    # The plain terms take over the prior of the pairs and of the terms that are left out.
    log_prior_terms = space.log_prior_terms[plain]
    not_constant = np.log(1 - np.exp(space.log_prior_constant))
    log_prior_terms += not_constant - np.log(np.exp(log_prior_terms).sum())

    return HypothesisSpace(
        parameter=parameter,
        shapes=tuple(space.shapes[i] for i in plain),
        exponents=space.exponents[plain],
        pairs=np.empty((0, 2), dtype=np.intp),
        log_prior_constant=space.log_prior_constant,
        log_prior_terms=log_prior_terms,
        log_prior_pairs=np.empty(0),
    )


@lru_cache(maxsize=64)
def exclude_steep_terms(space: HypothesisSpace) -> HypothesisSpace:
    """Return the same space with a prior of zero for terms that grow faster than x⁴.

    For segments shorter than MIN_STEEP_POINTS: a term that is visible at the last of two or three
    points only may as well be noise.
    """
    is_steep = (space.exponents[:, 0] > MAX_EXPONENT) | (space.exponents[:, 2] != 0)
    if not is_steep.any():
        return space
    return replace(space, log_prior_terms=np.where(is_steep, -np.inf, space.log_prior_terms))


@lru_cache(maxsize=64)
def only_opposed_pairs(space: HypothesisSpace) -> HypothesisSpace:
    """Return the same space with those pairs of terms only of which one falls and one grows."""
    alphas, betas = space.exponents[space.pairs, 0], space.exponents[space.pairs, 1]
    is_opposed = (alphas < 0).any(axis=1) & ((alphas > 0) | (betas > 0)).any(axis=1)
    log_prior_pairs = space.log_prior_pairs[is_opposed]
    return replace(space, pairs=space.pairs[is_opposed], log_prior_pairs=log_prior_pairs)


@lru_cache(maxsize=64)
def build_dense_space(parameter: str) -> HypothesisSpace:
    """Return nearly continuous exponents, all equally probable.

    They distinguish a change of behaviour from a function that is not in the hypothesis space.
    Exponents are multiples of 1⁄8 and 1⁄3, powers of logarithms multiples of 1⁄4.
    """
    alphas = {Fraction(i, 8) for i in range(8 * MAX_EXPONENT)} | {Fraction(i, 3) for i in range(12)}
    keys: list[TermExponents] = []
    for alpha in sorted(alphas):
        keys += [(alpha, Fraction(b, 4), ZERO) for b in range(9) if alpha or b]

    return HypothesisSpace(
        parameter=parameter,
        shapes=tuple((Factor(parameter, *key),) for key in keys),
        exponents=_as_floats(keys),
        pairs=np.empty((0, 2), dtype=np.intp),
        log_prior_constant=float(np.log(CONSTANT_PRIOR)),
        log_prior_terms=np.full(len(keys), np.log((1 - CONSTANT_PRIOR) / len(keys))),
        log_prior_pairs=np.empty(0),
    )


def _as_floats(keys: Sequence[TermExponents]) -> FloatArray:
    return np.array([list(map(float, key)) for key in keys])


def _rising_weights(weights: PriorWeights) -> dict[tuple[Fraction, Fraction], float]:
    """The weight of each (alpha, beta) of a growing term."""
    result = {(ZERO, beta): w for beta, w in zip(LOG_POWERS[1:], weights.pure, strict=True)}
    alphas: set[Fraction] = set()
    for denominator in range(1, 6):
        alphas |= {Fraction(i, denominator) for i in range(1, MAX_EXPONENT * denominator + 1)}

    for alpha in sorted(alphas):
        of_power = weights.denominators[alpha.denominator - 1]
        of_power *= STEEP_FACTOR if alpha > 3 else 1.0
        of_power *= weights.fractions if alpha > 1 and alpha.denominator > 2 else 1.0
        mixed = weights.mixed if alpha.denominator > 1 else 1.0
        for beta, of_logarithm in zip(LOG_POWERS, weights.logarithms, strict=True):
            result[alpha, beta] = of_power * of_logarithm * (mixed if beta else 1.0)

    return result


def _steep_weights(span: float) -> dict[TermExponents, float]:
    """The weight of each exponential and of each steep power over this range of x."""
    low, high = (
        RATES_PER_DECADE * np.log10(doublings / span)
        for doublings in (MIN_DOUBLINGS, MAX_DOUBLINGS)
    )
    steps = range(int(np.ceil(low)), int(np.floor(high)) + 1)
    rates = {_round_rate(10 ** (step / RATES_PER_DECADE)) for step in steps}
    other_rates = rates - {*SIMPLE_RATES}

    weights: dict[TermExponents, float] = {}
    for rate in SIMPLE_RATES:
        for alpha, weight in POWERS_BESIDE_SIMPLE_RATES.items():
            weights[Fraction(alpha), ZERO, rate] = weight
    for rate in other_rates:
        for alpha, weight in POWERS_BESIDE_OTHER_RATES.items():
            weights[Fraction(alpha), ZERO, rate] = weight * OTHER_RATES_WEIGHT / len(other_rates)
    for power in STEEP_POWERS:
        weights[power, ZERO, ZERO] = STEEP_POWERS_WEIGHT / len(STEEP_POWERS)

    return weights


def _round_rate(rate: float) -> Fraction:
    """Round to three significant digits, so that printed rates stay short."""
    return Fraction(f"{rate:.3g}")


def _pair_terms(
    index_of: Callable[[Fraction, Fraction], int], prior_terms: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Pairs of terms (P, 2) and their prior (P,), proportional to the product of both terms'."""
    chosen: list[Sequence[int]] = [*combinations([index_of(*pair) for pair in PAIRED_RISING], 2)]
    n_rising = len(chosen)
    chosen += [(index_of(alpha, ZERO), index_of(*other)) for alpha, other in PAIRED_FALLING]
    pairs = np.array(chosen, dtype=np.intp)

    weights = prior_terms[pairs[:, 0]] * prior_terms[pairs[:, 1]]
    weights[:n_rising] *= (1 - FALLING_SHARE) / weights[:n_rising].sum()
    weights[n_rising:] *= FALLING_SHARE / weights[n_rising:].sum()
    return pairs, weights
