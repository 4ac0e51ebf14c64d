"""Parses big-O as users write it: `O(n log n)`, `O(k^3 * 2^k)`, `n^2/p + log(p)`."""

import math
import re
from fractions import Fraction

from insitu.errors import UsageError
from insitu.expectations.growth import Growth, Product
from insitu.modeling.pmnf import Factor

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?|\.\d+)|(?P<name>[A-Za-z_]\w*)|(?P<sign>\*\*|[-+*/^()·×]))"
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
LOGARITHMS = ("log", "log2", "log10", "lg", "ln", "ld")
RATE_DENOMINATOR = 10**6  # largest one of the rate of an exponential such as 3^n
PRODUCTS_LIMIT = 64  # after brackets are multiplied out; protects from hostile input

Terms = tuple[tuple[Fraction, Product], ...]  # coefficient and product of each


def parse_growth(text: str) -> Growth:
    """Parse big-O; the letter O and coefficients are optional and ignored.

    Products are written with `*` or side by side, powers with `^` or `**`; `log x`, `log(x)^2`,
    `log^2 x`, `sqrt(x)`, `2^x`, `exp(x)` and quotients are supported.

    Raises:
        UsageError: the text is not such an expression; the message says where it fails.
    """
    plain = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda m: "^" + m.group().translate(_SUPERSCRIPTS), text)
    inside = re.fullmatch(r"\s*[OΘθ]\s*\((.*)\)\s*", plain, re.S)
    reader = _Reader(inside.group(1) if inside else plain, text)
    terms = reader.sum()
    reader.end()
    if any(coefficient < 0 for coefficient, _ in terms):
        raise UsageError(f"'{text}': growth is never negative; write the leading term alone")
    return Growth.of(product for coefficient, product in terms if coefficient)


class _Reader:
    """A recursive-descent parser of one expression."""

    def __init__(self, text: str, whole: str) -> None:
        self.whole, self.position = whole, 0
        self.tokens: list[tuple[str, str]] = []
        offset = 0
        while offset < len(text.rstrip()):
            token = _TOKEN.match(text, offset)
            if not token:
                raise self.error(f"'{text[offset:].strip()[:10]}' is not understood")
            kind = str(token.lastgroup)
            self.tokens.append((kind, token.group(kind)))
            offset = token.end()

    def error(self, reason: str) -> UsageError:
        return UsageError(
            f"'{self.whole}' is not a growth: {reason}; write it as O(p), O(n * log(n)) or O(2^k)"
        )

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("end", "")

    def take(self, *signs: str) -> str:
        kind, value = self.peek()
        if kind == "sign" and value in signs:
            self.position += 1
            return value
        return ""

    def end(self) -> None:
        kind, value = self.peek()
        if kind != "end":
            raise self.error(f"'{value}' is unexpected")

    def sum(self) -> Terms:
        sign = -1 if self.take("-") else 1
        terms = _scaled(self.product(), sign)
        while operator := self.take("+", "-"):
            terms += _scaled(self.product(), -1 if operator == "-" else 1)
        return terms

    def product(self) -> Terms:
        value = self.power()
        while True:
            if self.take("*", "·", "×"):
                value = self.multiply(value, self.power())
            elif self.take("/"):
                value = self.multiply(value, self.raise_to(self.power(), Fraction(-1)))
            elif self.peek()[0] in ("number", "name") or self.peek()[1] == "(":
                value = self.multiply(value, self.power())
            else:
                return value

    def power(self) -> Terms:
        base = self.atom()
        if not self.take("^", "**"):
            return base
        sign = -1 if self.take("-") else 1
        exponent = _scaled(self.atom(), sign)
        if len(exponent) == 1 and not exponent[0][1]:
            return self.raise_to(base, exponent[0][0])
        return self.exponential(base, exponent)

    def atom(self) -> Terms:
        kind, value = self.peek()
        self.position += 1
        if kind == "number":
            return ((Fraction(value), ()),)
        if value == "(":
            return self.close(self.sum())
        if kind != "name":
            raise self.error(f"'{value}' is unexpected" if value else "it ends too early")
        if value in LOGARITHMS:
            power = self.exponent()
            return self.raise_to(self.logarithm(self.argument()), power)
        if value == "sqrt":
            return self.raise_to(self.argument(), Fraction(1, 2))
        if value == "exp":
            return self.exponential(((Fraction(math.e), ()),), self.argument())
        return ((Fraction(1), (Factor(value, Fraction(1)),)),)

    def close(self, value: Terms) -> Terms:
        if not self.take(")"):
            raise self.error("a parenthesis is not closed")
        return value

    def exponent(self) -> Fraction:
        """Parse the power between a logarithm and its argument: log^2 x."""
        if not self.take("^", "**"):
            return Fraction(1)
        value = self.atom()
        if len(value) != 1 or value[0][1]:
            raise self.error("the power of a logarithm must be a number")
        return value[0][0]

    def argument(self) -> Terms:
        if self.take("("):
            return self.close(self.sum())
        kind, _ = self.peek()
        if kind != "name":
            raise self.error("a function lacks its argument, as in log(p)")
        return self.atom()

    def logarithm(self, value: Terms) -> Terms:
        """Return the logarithm of a product: the sum of the logarithms of its factors."""
        if len(value) != 1:
            raise self.error("the logarithm of a sum is not supported")
        terms: list[tuple[Fraction, Product]] = []
        for name, alpha, beta, gamma in value[0][1]:
            if gamma > 0:
                terms.append((Fraction(1), (Factor(name, Fraction(1)),)))
            elif alpha > 0:
                terms.append((Fraction(1), (Factor(name, beta=Fraction(1)),)))
            elif alpha or beta or gamma:
                raise self.error(
                    "the logarithm of a logarithm or of a falling power is not supported"
                )
        return tuple(terms) or ((Fraction(1), ()),)

    def multiply(self, a: Terms, b: Terms) -> Terms:
        if len(a) * len(b) > PRODUCTS_LIMIT:
            raise self.error("it has too many terms")
        return tuple((x * y, _merge_factors((*p, *q))) for x, p in a for y, q in b)

    def raise_to(self, base: Terms, exponent: Fraction) -> Terms:
        if len(base) == 1:
            coefficient, product = base[0]
            if coefficient == 0:
                raise self.error("0 is not a growth")
            factors = tuple(Factor(f[0], *(e * exponent for e in f[1:])) for f in product)
            return ((_real_power(coefficient, exponent), factors),)
        if exponent.denominator != 1 or not 0 < exponent <= 6:
            raise self.error("the exponent of a sum must be a small whole number")
        value = base
        for _ in range(int(exponent) - 1):
            value = self.multiply(value, base)
        return value

    def exponential(self, base: Terms, exponent: Terms) -> Terms:
        is_number = len(base) == 1 and not base[0][1] and base[0][0] > 0
        if not is_number or len(exponent) != 1:
            raise self.error(
                "an exponent must be a number, or a parameter with a number as base, as in 2^k"
            )
        rate, product = exponent[0]
        if len(product) != 1 or product[0] != Factor(product[0].parameter, Fraction(1)):
            raise self.error("an exponent must be a multiple of one parameter, as in 2^(k/2)")
        gamma = rate * _binary_logarithm(base[0][0])
        return ((Fraction(1), (Factor(product[0].parameter, gamma=gamma),)),)


def _scaled(terms: Terms, sign: int) -> Terms:
    return tuple((sign * coefficient, product) for coefficient, product in terms)


def _merge_factors(factors: Product) -> Product:
    """Add the exponents of factors of the same parameter."""
    sums: dict[str, Factor] = {}
    for factor in factors:
        before = sums.get(factor.parameter, Factor(factor.parameter))
        exponents = (x + y for x, y in zip(before[1:], factor[1:], strict=True))
        sums[factor.parameter] = Factor(factor.parameter, *exponents)
    return tuple(sums.values())


def _real_power(value: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator == 1:
        return Fraction(value**exponent)
    return Fraction(float(value) ** float(exponent))


def _binary_logarithm(base: Fraction) -> Fraction:
    return Fraction(math.log2(base)).limit_denominator(RATE_DENOMINATOR)
