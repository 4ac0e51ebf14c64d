"""The hypotheses that evidence weighs: a lattice of exponents with a prior on simple ones.

Algorithms have exponents with small denominators and small powers of logarithms, most of them few
terms. The weights below say so in round numbers: they are a judgement, made before the figures of
README.md and on other functions than these, and learnt from no data.
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


@dataclass(frozen=True, slots=True)
class Taste:
    """Weights of exponents before any data: by denominator, by the power of the logarithm."""

    denominators: tuple[float, ...]  # of 1 to 5
    logarithms: tuple[float, ...]  # powers 0, 1, 2, 1/2, 3/2 beside a power of x
    pure: tuple[float, ...]  # powers 1, 2, 1/2, 3/2 alone
    mixed: float = 1.0  # of a logarithm beside a power that is no integer
    fractions: float = 1.0  # of powers above 1 that are no multiple of 1/2


ONE_PARAMETER = Taste((1, 0.6, 0.6, 0.35, 0.35), (1, 0.1, 0.03, 0.003, 0.003), (1, 0.5, 0.3, 0.3))
# Several parameters leave fewer values of each, too few to tell fifths from logarithms.
SEVERAL = Taste(
    (1, 0.7, 0.7, 0.02, 0.005), (1, 0.7, 0.1, 0.0005, 0.0005), (1, 0.7, 0.02, 0.02), 0.1, 0.2
)
POWERS = (ZERO, ONE, Fraction(2), HALF, Fraction(3, 2))  # of logarithms
HIGHEST = 4  # exponent
FEW = 4  # values of a parameter up to which only plain growth is considered
PLAIN = 2  # its highest exponent
MIN_STEEP = 6  # points from which growth can be called steep
STEEP = 0.3  # weight of exponents above 3
FALLING_SHARE = 0.1  # of the prior of all single terms
EXPONENTIAL_SHARE = 0.3  # where exponential growth is considered
STEEPER = tuple(Fraction(i, 2) for i in range(9, 17))  # powers considered beside it
STEEPER_WEIGHT = 4.0  # of all of them; simple rates weigh 1 each
SIMPLE_RATES = tuple(Fraction(n, d) for n, d in ((1, 8), (1, 4), (1, 2), (1, 1), (2, 1), (3, 1)))
BESIDE = {0: 1.0, 1: 0.3, 2: 0.2, 3: 0.1, 4: 0.1}  # powers of x beside simple rates
BESIDE_OTHERS = {0: 1.0, 1: 0.2, 2: 0.1}  # and beside other rates
OTHER_RATES = 4.0  # weight of all rates that are not simple
DOUBLINGS = 1.0, 64.0  # over the range of the parameter, by other rates
RATES_PER_DECADE = 50  # neighbours differ by 5 %
CONSTANT, ONE_TERM, TWO_TERMS = 0.2, 0.55, 0.25  # prior of functions by the number of terms

PAIRED = (
    *((Fraction(i), ZERO) for i in (1, 2, 3)),
    *((Fraction(i, 2), ZERO) for i in (1, 3, 5)),
    *((Fraction(i, 3), ZERO) for i in (1, 2, 4, 5, 7, 8)),
    *((ZERO, Fraction(i)) for i in (1, 2)),
    *((Fraction(i), ONE) for i in (1, 2)),
)
PAIRED_FALLING = (
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
class Lattice:
    """Single terms and pairs of them, with the logarithm of the prior of each.

    shapes: T terms without coefficient; exponents: (T, 3) alpha, beta, gamma; pairs: (P, 2)
    indices; constant, singles (T,), doubles (P,): logarithms of priors, which sum to 1 as
    probabilities.
    """

    shapes: tuple[Shape, ...]
    exponents: FloatArray
    pairs: IntArray
    constant: float
    singles: FloatArray
    doubles: FloatArray

    def design(self, x: FloatArray) -> FloatArray:
        """The value of each term at each value of the parameter: (T, n)."""
        return powers(x, self.exponents[:, None])


@lru_cache(maxsize=64)
def lattice(
    parameter: str, *, exponential: float | None = None, taste: Taste = ONE_PARAMETER
) -> Lattice:
    """Constant, one and two terms of a parameter.

    Exponents have denominators 1 to 5, logarithms the powers 0, ½, 1, 3⁄2 and 2; simpler ones weigh
    more. Falling powers are for strong scaling, alone and beside a growing term.

    Args:
        parameter: its name.
        exponential: the range of the parameter, where growth may also be x^α with α up to 8,
            2^(γ·x) or x^α · 2^(γ·x); rates γ double the term once to 64 times over the range.
        taste: which exponents count as simple.
    """
    weights = _rising(taste)
    terms = {(alpha, beta, ZERO): weight for (alpha, beta), weight in weights.items()}
    falling = {(alpha, ZERO, ZERO): taste.denominators[alpha.denominator - 1] for alpha in FALLING}
    shares = [(terms, 1 - FALLING_SHARE), (falling, FALLING_SHARE)]
    if exponential is not None:
        shares = [(part, share * (1 - EXPONENTIAL_SHARE)) for part, share in shares]
        shares.append((_exponential(exponential), EXPONENTIAL_SHARE))
    joined: dict[tuple[Fraction, ...], float] = {}
    for part, share in shares:
        total = sum(part.values())
        joined |= {key: share * weight / total for key, weight in part.items()}
    keys = list(joined)
    index = {key: i for i, key in enumerate(keys)}
    singles = np.array(list(joined.values()))
    pairs, doubles = _pairs(lambda a, b: index[(a, b, ZERO)], singles)
    return Lattice(
        shapes=tuple((Factor(parameter, *key),) for key in keys),
        exponents=np.array([[float(value) for value in key] for key in keys]),
        pairs=pairs,
        constant=float(np.log(CONSTANT)),
        singles=np.log(ONE_TERM * singles),
        doubles=np.log(TWO_TERMS * doubles),
    )


@lru_cache(maxsize=64)
def plain(parameter: str) -> Lattice:
    """Constant and one term that grows no faster than x², for points too few to tell more."""
    whole = lattice(parameter)
    kept = np.flatnonzero(whole.exponents[:, 0] <= PLAIN)
    singles = whole.singles[kept]
    singles += np.log(1 - np.exp(whole.constant)) - np.log(np.exp(singles).sum())
    shapes = tuple(whole.shapes[i] for i in kept)
    none = np.empty((0, 2), dtype=np.intp), np.empty(0)
    return Lattice(shapes, whole.exponents[kept], none[0], whole.constant, singles, none[1])


@lru_cache(maxsize=64)
def gentle(whole: Lattice) -> Lattice:
    """The same terms, but those that grow faster than powers are impossible.

    For segments of fewer points than make growth steep: a term that is visible at the last of two
    or three points only is as well noise.
    """
    steep = (whole.exponents[:, 0] > HIGHEST) | (whole.exponents[:, 2] != 0)
    return replace(whole, singles=np.where(steep, -np.inf, whole.singles)) if steep.any() else whole


@lru_cache(maxsize=64)
def dense(parameter: str) -> Lattice:
    """Near-continuous exponents, for telling a change of behaviour from a function off the lattice.

    Exponents are multiples of 1⁄8 and 1⁄3, logarithms powers of quarters, all equally probable.
    """
    powers = {Fraction(i, 8) for i in range(8 * HIGHEST)} | {Fraction(i, 3) for i in range(12)}
    keys = [(a, Fraction(b, 4), ZERO) for a in sorted(powers) for b in range(9) if a or b]
    return Lattice(
        shapes=tuple((Factor(parameter, *key),) for key in keys),
        exponents=np.array([[float(value) for value in key] for key in keys]),
        pairs=np.empty((0, 2), dtype=np.intp),
        constant=float(np.log(CONSTANT)),
        singles=np.full(len(keys), np.log((1 - CONSTANT) / len(keys))),
        doubles=np.empty(0),
    )


def _rising(taste: Taste) -> dict[tuple[Fraction, Fraction], float]:
    powers = sorted({Fraction(i, d) for d in range(1, 6) for i in range(1, HIGHEST * d + 1)})
    weights = {(ZERO, beta): w for beta, w in zip(POWERS[1:], taste.pure, strict=True)}
    for alpha in powers:
        simple = taste.denominators[alpha.denominator - 1] * (STEEP if alpha > 3 else 1.0)
        simple *= taste.fractions if alpha > 1 and alpha.denominator > 2 else 1.0
        mixed = taste.mixed if alpha.denominator > 1 else 1.0
        weights |= {
            (alpha, beta): simple * weight * (mixed if beta else 1.0)
            for beta, weight in zip(POWERS, taste.logarithms, strict=True)
        }
    return weights


def _exponential(span: float) -> dict[tuple[Fraction, Fraction, Fraction], float]:
    low, high = (RATES_PER_DECADE * np.log10(number / span) for number in DOUBLINGS)
    steps = range(int(np.ceil(low)), int(np.floor(high)) + 1)
    rates = {_rounded(10 ** (step / RATES_PER_DECADE)) for step in steps} - {*SIMPLE_RATES}
    weights = {
        (Fraction(alpha), ZERO, rate): weight
        for rate in SIMPLE_RATES
        for alpha, weight in BESIDE.items()
    }
    weights |= {
        (Fraction(alpha), ZERO, rate): weight * OTHER_RATES / len(rates)
        for rate in rates
        for alpha, weight in BESIDE_OTHERS.items()
    }
    weights |= {(alpha, ZERO, ZERO): STEEPER_WEIGHT / len(STEEPER) for alpha in STEEPER}
    return weights


def _rounded(rate: float) -> Fraction:
    """To three significant digits."""
    return Fraction(f"{rate:.3g}")


def _pairs(
    index: Callable[[Fraction, Fraction], int], singles: FloatArray
) -> tuple[IntArray, FloatArray]:
    chosen: list[Sequence[int]] = [*combinations([index(*pair) for pair in PAIRED], 2)]
    rising = len(chosen)
    chosen += [(index(alpha, ZERO), index(*other)) for alpha, other in PAIRED_FALLING]
    pairs = np.array(chosen, dtype=np.intp)
    weights = singles[pairs[:, 0]] * singles[pairs[:, 1]]
    weights[:rising] *= (1 - FALLING_SHARE) / weights[:rising].sum()
    weights[rising:] *= FALLING_SHARE / weights[rising:].sum()
    return pairs, weights
