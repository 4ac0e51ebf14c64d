"""An expectation, the limits of its deviation, and its search space [VAL §2.3].

Growth belongs to one of three classes: F1 = log^i x, F2 = x^i, F3 = 2^(i·x). The deviation D
halves the exponent of the leading class, so that growth between E/D and E·D is an approximate
match. The search space is a ruler from 1 to E²: its long ticks are of the class of E, the shorter
ones of the class below.
"""

from dataclasses import dataclass
from fractions import Fraction

from insitu.errors import UsageError
from insitu.expectations.growth import CONSTANT, Growth, Product, size
from insitu.expectations.notation import parse_growth
from insitu.modeling.pmnf import Factor

HALVINGS = 2  # of the intervals between ticks of the ruler [VAL §2.3, example]
SHORTER = 0.3  # prior weight of a shorter tick
HALF = Fraction(1, 2)
AT_MOST = ("<=", "≤", "at most")


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected growth.

    Attributes:
        growth: E.
        lower, upper: the deviation limits E/D and E·D.
        is_bound: E is an upper bound; growth below the limits is no violation.
        further: terms of the search space in addition to the ruler.
    """

    growth: Growth
    lower: Growth
    upper: Growth
    is_bound: bool = False
    further: tuple[Factor, ...] = ()

    def __str__(self) -> str:
        return f"<= {self.growth}" if self.is_bound else str(self.growth)


def expect(
    text: str | Growth, *, deviation: str | Growth | None = None, search: str | None = None
) -> Expectation:
    """Build an expectation from big-O text, `<= O(…)` for an upper bound.

    Args:
        text: as in `O(p log p)`.
        deviation: D, as in `sqrt(p)`; by default the leading exponent halved, parameter by
            parameter. D of a constant is 1: any growth is outside.
        search: further terms of the search space, in gaps of the ruler or beyond its ends [VAL
            §2.3], as in `p^(2/7), p^5`.

    Raises:
        UsageError: a text is not a growth, the deviation does not grow, or `search` has something
            other than single terms.
    """
    is_bound = False
    if isinstance(text, str):
        for mark in AT_MOST:
            if text.strip().startswith(mark):
                is_bound, text = True, text.strip()[len(mark) :]
    growth = parse_growth(text) if isinstance(text, str) else text
    if deviation is None:
        lower = Growth.of(_shift_product(product, -HALF) for product in growth.products)
        upper = Growth.of(_shift_product(product, HALF) for product in growth.products)
        return Expectation(growth, lower, upper, is_bound, _parse_search(search))
    limit = parse_growth(deviation) if isinstance(deviation, str) else deviation
    below = growth.over(limit)
    if below is None or not CONSTANT.is_bounded_by(limit):
        raise UsageError(f"deviation {limit}: write one product that grows, as in sqrt(p)")
    return Expectation(growth, below, growth * limit, is_bound, _parse_search(search))


def class_of(factor: Factor) -> int:
    """Return 3 for exponentials, 2 for powers, 1 for logarithms and the constant."""
    return 3 if factor.gamma else 2 if factor.alpha else 1


def ruler(factor: Factor, halvings: int = HALVINGS) -> tuple[Factor, ...]:
    """Return the search space around a factor of an expectation, ascending from 1 to its square.

    E(p) = p gives 1, log p, p^¼, p^¼ log p, p^½, … p^(7/4) log p, p². A constant is of class F1
    and has the search space of log p [VAL §3.3].
    """
    name = factor.parameter
    kind = class_of(factor)
    exponent = (Fraction(0), factor.beta, factor.alpha, factor.gamma)[kind] or Fraction(1)
    steps = 2 * 2**halvings
    ticks = [exponent * 2 * i / steps for i in range(steps + 1)]
    last = _factor(name, kind, ticks[-1])
    if kind == 1:
        return tuple(_factor(name, 1, tick) for tick in ticks)

    lower_exponents = _lower_class_exponents(factor.alpha if kind == 3 else factor.beta)

    factors = {factor, last}
    for tick in ticks:
        for lower in lower_exponents:
            candidate = _factor(name, kind, tick, lower)
            has_sign = size(candidate) >= 0 if exponent > 0 else size(candidate) <= 0
            if has_sign and abs(size(candidate)) <= abs(size(last)):
                factors.add(candidate)

    return tuple(sorted(factors, key=size))


def weighted_ticks(factor: Factor) -> dict[Factor, float]:
    """Return the prior weights of the ticks of the ruler: longer ticks have larger weights.

    The longest ticks are the multiples of half the expectation, which include the limits of its
    deviation. Ticks between them are shorter, and so are ticks whose exponent of the class below
    differs from that of the expectation.
    """
    kind = class_of(factor)
    expected_exponent, expected_lower = _class_exponents(factor, kind)

    weights = {}
    for tick in ruler(factor):
        exponent, lower = _class_exponents(tick, kind)
        is_long = not expected_exponent or (2 * exponent / expected_exponent).denominator == 1
        is_same = lower == expected_lower
        weights[tick] = (1.0 if is_long else SHORTER) * (1.0 if is_same else SHORTER)

    return weights


def _parse_search(search: str | None) -> tuple[Factor, ...]:
    if search is None:
        return ()

    factors = []
    for text in search.split(","):
        products = parse_growth(text).products
        if len(products) != 1 or len(products[0]) != 1:
            raise UsageError(
                f"search: '{text.strip()}' is not a term of one parameter, as in p^(2/7)"
            )
        factors.append(products[0][0])
    return tuple(factors)


def _class_exponents(factor: Factor, kind: int) -> tuple[Fraction, Fraction]:
    """Return the exponents of a class and of the class below."""
    if kind == 3:
        return factor.gamma, factor.alpha
    return (factor.alpha, factor.beta) if kind == 2 else (factor.beta, Fraction(0))


def _lower_class_exponents(own: Fraction) -> set[Fraction]:
    """Return exponents of the class below: 0, 1, and those around the expected one."""
    return {Fraction(0), Fraction(1)} | ({own - 1, own, own + 1} if own > 1 else {own})


def _factor(name: str, kind: int, exponent: Fraction, lower: Fraction = Fraction(0)) -> Factor:
    if kind == 3:
        return Factor(name, alpha=lower, gamma=exponent)
    if kind == 2:
        return Factor(name, alpha=exponent, beta=lower)
    return Factor(name, beta=exponent)


def _shift_product(product: Product, share: Fraction) -> Product:
    """Change the leading exponent of each factor by a share of its size."""
    return tuple(_shift_factor(factor, share) for factor in product)


def _shift_factor(factor: Factor, share: Fraction) -> Factor:
    name, alpha, beta, gamma = factor
    if gamma:
        return Factor(name, alpha, beta, gamma + share * abs(gamma))
    if alpha:
        return Factor(name, alpha + share * abs(alpha), beta, gamma)
    return Factor(name, alpha, beta + share * abs(beta), gamma)
