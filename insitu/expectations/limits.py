"""An expectation, how far growth may deviate from it, and where to look for it [VAL §2.3].

Growth belongs to one of three classes: F1 = log^i x, F2 = x^i, F3 = 2^(i·x). The deviation D
halves the exponent of the leading class, so that growth between E/D and E·D is an approximate
match. The search space is a ruler from 1 to E²: its ticks come from the class of E, the smaller
ones from the class below.
"""

from dataclasses import dataclass
from fractions import Fraction

from insitu.errors import UsageError
from insitu.expectations.growth import CONSTANT, Growth, Product, size
from insitu.expectations.notation import parse_growth
from insitu.modeling.pmnf import Factor

HALVINGS = 2  # of the intervals between the ticks of the ruler, [VAL §2.3] in its example
SHORTER = 0.3  # weight of a shorter tick
HALF = Fraction(1, 2)
AT_MOST = ("<=", "≤", "at most")


@dataclass(frozen=True, slots=True)
class Expectation:
    """Growth as it should be.

    lower, upper: the deviation limits E/D and E·D; is_bound: growth below the limits is welcome;
    further: terms of the search space beside the ruler.
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
    """An expectation from big-O text, `<= O(…)` for an upper bound.

    Args:
        text: as in `O(p log p)`.
        deviation: D, as in `sqrt(p)`; by default the leading exponent halved, parameter by
            parameter. D of a constant is 1: any growth is outside.
        search: terms that are looked for as well, in gaps of the ruler or beyond its ends [VAL
            §2.3], as in `p^(2/7), p^5`.

    Raises:
        UsageError: a text that is no growth; a deviation that does not grow; a term to look for
            that is no single one.
    """
    is_bound = False
    if isinstance(text, str):
        for mark in AT_MOST:
            if text.strip().startswith(mark):
                is_bound, text = True, text.strip()[len(mark) :]
    growth = parse_growth(text) if isinstance(text, str) else text
    if deviation is None:
        lower = Growth.of(_shifted(product, -HALF) for product in growth.products)
        upper = Growth.of(_shifted(product, HALF) for product in growth.products)
        return Expectation(growth, lower, upper, is_bound, _further(search))
    limit = parse_growth(deviation) if isinstance(deviation, str) else deviation
    below = growth.over(limit)
    if below is None or not CONSTANT.is_bounded_by(limit):
        raise UsageError(f"deviation {limit}: write one product that grows, as in sqrt(p)")
    return Expectation(growth, below, growth * limit, is_bound, _further(search))


def class_of(factor: Factor) -> int:
    """3 for exponentials, 2 for powers, 1 for logarithms and the constant."""
    return 3 if factor.gamma else 2 if factor.alpha else 1


def ruler(factor: Factor, halvings: int = HALVINGS) -> tuple[Factor, ...]:
    """The search space around one factor of an expectation, ascending from 1 to its square.

    E(p) = p gives 1, log p, p^¼, p^¼ log p, p^½, … p^(7/4) log p, p². A constant is of class F1
    and gets the space of log p [VAL §3.3].
    """
    name = factor.parameter
    kind = class_of(factor)
    exponent = (Fraction(0), factor.beta, factor.alpha, factor.gamma)[kind] or Fraction(1)
    steps = 2 * 2**halvings
    ticks = [exponent * 2 * i / steps for i in range(steps + 1)]
    last = _factor(name, kind, ticks[-1])
    if kind == 1:
        return tuple(_factor(name, 1, tick) for tick in ticks)
    found = {
        _factor(name, kind, tick, small)
        for tick in ticks
        for small in _smaller(factor.alpha if kind == 3 else factor.beta)
    }
    inside = (
        one for one in found if abs(size(one)) <= abs(size(last)) and _is_inside(one, exponent)
    )
    return tuple(sorted({*inside, factor, last}, key=size))


def weighted_ticks(factor: Factor) -> dict[Factor, float]:
    """The ticks of the ruler with their weights: the longer a tick, the more.

    The expectation halved and the limits of its deviation are the longest; shorter are the ticks
    between them, and those whose part of the class below is not that of the expectation.
    """
    kind = class_of(factor)
    own, beside = _parts(factor, kind)
    weights = {}
    for tick in ruler(factor):
        leading, smaller = _parts(tick, kind)
        is_long = not own or (2 * leading / own).denominator == 1
        weights[tick] = (1.0 if is_long else SHORTER) * (1.0 if smaller == beside else SHORTER)
    return weights


def _further(search: str | None) -> tuple[Factor, ...]:
    if search is None:
        return ()
    found = []
    for text in search.split(","):
        products = parse_growth(text).products
        if len(products) != 1 or len(products[0]) != 1:
            raise UsageError(f"search: '{text.strip()}' is no term of one parameter, as p^(2/7)")
        found.append(products[0][0])
    return tuple(found)


def _parts(factor: Factor, kind: int) -> tuple[Fraction, Fraction]:
    """The exponents of a class and of the class below."""
    return ((factor.beta, Fraction(0)), (factor.alpha, factor.beta), (factor.gamma, factor.alpha))[
        kind - 1
    ]


def _smaller(own: Fraction) -> set[Fraction]:
    """Exponents of the class below: 0 and 1, about that of the expectation in steps of 1."""
    return {Fraction(0), Fraction(1)} | ({own - 1, own, own + 1} if own > 1 else {own})


def _is_inside(one: Factor, exponent: Fraction) -> bool:
    return size(one) >= 0 if exponent > 0 else size(one) <= 0


def _factor(name: str, kind: int, exponent: Fraction, smaller: Fraction = Fraction(0)) -> Factor:
    if kind == 3:
        return Factor(name, alpha=smaller, gamma=exponent)
    if kind == 2:
        return Factor(name, alpha=exponent, beta=smaller)
    return Factor(name, beta=exponent)


def _shifted(product: Product, share: Fraction) -> Product:
    """The leading exponent of each factor changed by a share of its size."""
    return tuple(_changed(factor, share) for factor in product)


def _changed(factor: Factor, share: Fraction) -> Factor:
    name, alpha, beta, gamma = factor
    if gamma:
        return Factor(name, alpha, beta, gamma + share * abs(gamma))
    if alpha:
        return Factor(name, alpha + share * abs(alpha), beta, gamma)
    return Factor(name, alpha, beta + share * abs(beta), gamma)
