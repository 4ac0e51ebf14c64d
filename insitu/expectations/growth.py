"""Asymptotic growth: big-O of one or several parameters, to compare, combine and print.

A growth is a sum of products of factors `x^alpha · log(x)^beta · 2^(gamma·x)` without coefficients
[VAL §2.4]. Dominated products are left out, so `n^2 + n` is `n^2`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from insitu.modeling.pmnf import Factor, Function, power

TOLERANCE = 1e-3  # exponents that differ less are equal: users write `n^2.81` without more digits
EXPONENTIAL, LOGARITHM = 1e4, 1e-4  # weights that map exponents to a number ordered by growth

Product = tuple[Factor, ...]  # at most one factor per parameter, by name; () is the constant


@dataclass(frozen=True, slots=True)
class Growth:
    """A sum of products in a fixed order; none of them dominates another."""

    products: tuple[Product, ...]

    @classmethod
    def of(cls, products: Iterable[Product]) -> "Growth":
        """Return the growth of a sum, without dominated products."""
        remaining: list[Product] = []
        for product in sorted(set(map(_tidy, products)), key=_order, reverse=True):
            if not any(_dominates(other, product) for other in remaining):
                remaining.append(product)
        return cls(tuple(remaining) or ((),))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters on which it depends, by name."""
        return tuple(_names(*self.products))

    @property
    def is_constant(self) -> bool:
        """Whether it is O(1)."""
        return self.products == ((),)

    def __mul__(self, other: "Growth") -> "Growth":
        return Growth.of(_times(a, b, 1) for a in self.products for b in other.products)

    def over(self, other: "Growth") -> "Growth | None":
        """Return the quotient; None if the other growth is a sum of several products."""
        if len(other.products) > 1:
            return None
        return Growth.of(_times(a, other.products[0], -1) for a in self.products)

    def is_bounded_by(self, other: "Growth") -> bool:
        """Whether this is O(other): each product is below a weighted mean of products of the other.

        If all parameters grow, x^a is O(x^b + x^c) if a is at most a weighted mean of b and c.
        """
        return _is_bounded(self.products, other.products)

    def is_same(self, other: "Growth") -> bool:
        """Whether both have the same exponents."""
        if len(self.products) != len(other.products):
            return False
        return all(any(_is_same(a, b) for b in other.products) for a in self.products)

    def at(self, point: Mapping[str, float]) -> float:
        """Return the sum of the products at one point, with coefficients of 1."""
        total = 0.0
        for product in self.products:
            value = 1.0
            for factor in product:
                x = np.array([point[factor.parameter]])
                exponents = (float(factor.alpha), float(factor.beta), float(factor.gamma))
                value *= float(power(x, *exponents)[0])
            total += value
        return total

    def __str__(self) -> str:
        return f"O({' + '.join(map(_format_product, self.products))})"


CONSTANT = Growth(((),))


def growth_of_function(function: Function) -> Growth:
    """Return the growth of a function: its terms without coefficients and dominated terms."""
    products = [term.factors for term in function.terms if term.coefficient]
    if function.constant or not products:
        products.append(())
    return Growth.of(products)


def size(factor: Factor) -> float:
    """Return a number that orders the factors of a parameter by growth."""
    return EXPONENTIAL * factor.gamma + float(factor.alpha) + LOGARITHM * float(factor.beta)


def _sizes(product: Product, names: Iterable[str]) -> list[float]:
    sizes = {factor.parameter: size(factor) for factor in product}
    return [sizes.get(name, 0.0) for name in names]


def _tidy(product: Product) -> Product:
    return tuple(sorted(factor for factor in product if any(factor[1:])))


def _order(product: Product) -> tuple[float, Product]:
    return sum(size(factor) for factor in product), product


def _names(*products: Product) -> list[str]:
    return sorted({factor.parameter for product in products for factor in product})


def _dominates(a: Product, b: Product) -> bool:
    names = _names(a, b)
    near = TOLERANCE * LOGARITHM
    pairs = zip(_sizes(a, names), _sizes(b, names), strict=True)
    return all(more >= less - near for more, less in pairs)


def _is_same(a: Product, b: Product) -> bool:
    absent = Factor("")
    first = {factor.parameter: factor for factor in a}
    second = {factor.parameter: factor for factor in b}
    for name in _names(a, b):
        exponents = zip(first.get(name, absent)[1:], second.get(name, absent)[1:], strict=True)
        if any(abs(float(x) - float(y)) >= TOLERANCE for x, y in exponents):
            return False
    return True


@lru_cache(maxsize=1 << 14)  # the hypotheses of thousands of series have few distinct growths
def _is_bounded(products: tuple[Product, ...], others: tuple[Product, ...]) -> bool:
    """Whether each product is below the others."""
    return all(_is_below(product, others) for product in products)


def _is_below(product: Product, others: tuple[Product, ...]) -> bool:
    """Whether a weighted mean of the other products dominates a product."""
    if any(_dominates(other, product) or _is_same(other, product) for other in others):
        return True
    if len(others) == 1:
        return False

    # Find weights (a linear program without objective) whose mean is at least as large everywhere.
    names = _names(product, *others)
    table = np.array([_sizes(other, names) for other in others])
    from scipy.optimize import linprog  # takes a second to import, and few bounds need it

    solution = linprog(
        np.zeros(len(others)),
        A_ub=-table.T,
        b_ub=-np.array(_sizes(product, names)),
        A_eq=np.ones((1, len(others))),
        b_eq=[1.0],
    )
    return bool(solution.status == 0)


def _times(a: Product, b: Product, sign: int) -> Product:
    """Return the product of two products, or their quotient if `sign` is -1."""
    factors = {factor.parameter: factor for factor in a}
    for factor in b:
        before = factors.get(factor.parameter, Factor(factor.parameter))
        sums = (x + sign * y for x, y in zip(before[1:], factor[1:], strict=True))
        factors[factor.parameter] = Factor(factor.parameter, *sums)
    return _tidy(tuple(factors.values()))


def _format_product(product: Product) -> str:
    numerator: list[str] = []
    denominator: list[str] = []
    for name, alpha, beta, gamma in product:
        for exponent, text in ((alpha, name), (beta, f"log({name})")):
            if exponent:
                formatted = text + _format_exponent(abs(exponent))
                (numerator if exponent > 0 else denominator).append(formatted)
        if gamma:
            exponential = _format_exponential(abs(gamma), name)
            (numerator if gamma > 0 else denominator).append(exponential)

    text = " * ".join(numerator) or "1"
    if len(denominator) > 1:
        return f"{text} / ({' * '.join(denominator)})"
    return f"{text} / {denominator[0]}" if denominator else text


def _format_exponent(value: Fraction) -> str:
    if value == 1:
        return ""
    if value.denominator == 1:
        return f"^{value}"
    return f"^({value})" if value.denominator < 10 else f"^{float(value):.4g}"


def _format_exponential(rate: Fraction, name: str) -> str:
    base = 2.0 ** float(rate)
    if math.isclose(base, round(base), rel_tol=1e-4):
        return f"{round(base)}^{name}"
    if rate.numerator == 1:
        return f"2^({name}/{rate.denominator})"
    exact = f"{rate}" if rate.denominator < 10 else f"{float(rate):.4g}"
    return f"2^({exact} * {name})"
