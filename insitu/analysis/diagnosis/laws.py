"""Exact laws of counts: the few functions of p that a deterministic program follows to the digit.

A law is a product of factors; each factor is a constant, a multiple of a term, or both. Unlike the
models of `insitu.modeling`, a law holds only if it passes through every point, so that it may be
carried much farther than a model of times.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from insitu.entities import RANKS
from insitu.modeling.grid_shape import grid_sides
from insitu.modeling.measurement import FloatArray
from insitu.units import quantity

RELATIVE = 1e-6  # largest residual of counts, as a share of the range of the values
RELATIVE_HEAP = 2e-3  # of heap bytes: allocators round, and interpreters allocate a little
ROUNDED = 1.0  # largest residual of counts that the program rounds, such as floor(40 sqrt p)
LEAST_ROUNDED_RANGE = 20.0  # range from which such a residual is small
PAGE = 4096.0  # largest residual of heap bytes: large blocks are rounded up to whole pages
LEAST_PAGED_RANGE = 32 * PAGE  # range from which such a residual is small
SPARE_POINTS = 2  # points that a law needs besides one for each coefficient
# A law of rounded values needs one more: between 1, 2 and 4 ranks only one ratio tells laws apart,
# and one of 14 terms meets it by chance to within the rounding.
SPARE_POINTS_ROUNDED = 3
# Through two points there is always a line, and zeros before them are soon met by one: 0, 0, 1 and
# 2 messages on grids of 1 x 2, 1 x 3, 2 x 2 and 2 x 3 ranks are not floor(p/2) - 1.
LEAST_NONZERO = 3
# Two levels are one step: 1, 1 and 2 columns of grids of 2, 3 and 4 ranks are not floor(p/2).
LEAST_LEVELS = 3
# Least size of the part that does not grow, as a multiple of what one rank more adds to it.
LEAST_CONSTANT = 0.01
# Terms that grow faster than numbers of neighbours in a grid; squares of logarithms do so on few
# ranks only.
FASTER_THAN_P = ("p^2", "(p^2 - p)", "p^(3/2)", "p log2(p)", "p ceil(log2(p))")
LOGARITHMS = ("log2(p)", "ceil(log2(p))", "floor(log2(p))")
SQUARED_LOGARITHMS = ("log2(p)^2", "(log2(p)^2 + log2(p))")
AGREEMENT = 2.0  # laws that fit equally well must agree at the target within this factor
GROWING = 1.02  # least factor between smallest and largest scale
KEPT = 1 << 14  # series whose laws are remembered


@dataclass(frozen=True, slots=True)
class LawTerm:
    """A function of p with its name in texts; what it grows like, where the name does not say."""

    name: str
    values: Callable[[FloatArray], FloatArray]
    like: str = ""

    def at(self, p: float) -> float:
        """The value at one scale."""
        return float(self.values(np.array([float(p)]))[0])

    @property
    def order(self) -> str:
        """How fast it grows, for comparisons: `p` of `(p - 1)` and of `floor(p/2)`."""
        if self.like:
            return self.like
        return "p" if self in HALVES else self.name.strip("()").replace("p - 1", "p")

    @property
    def is_logarithm(self) -> bool:
        """Whether it grows like the sides of a block that has neighbours, one for each doubling."""
        return self.name in LOGARITHMS

    @property
    def is_of_pairs(self) -> bool:
        """Whether pairs of neighbours in a grid may grow like that on few ranks, not neighbours."""
        return (self.like or self.name) in FASTER_THAN_P + SQUARED_LOGARITHMS


def _ceil_log2(p: FloatArray) -> FloatArray:
    """The rounds of a binomial tree, without the rounding of log2 at powers of two."""
    return np.ceil(np.log2(p) - 1e-9)


def _floor_log2(p: FloatArray) -> FloatArray:
    """The depth of a binary heap, and most ones of the binary number of a rank below p."""
    return np.floor(np.log2(p) + 1e-9)


def _power(exponent: float) -> Callable[[FloatArray], FloatArray]:
    return lambda p: p**exponent


# All ranks in the row and in the column of a rank, in a grid; without itself they are two fewer.
ROWS_AND_COLUMNS = LawTerm("(rows + columns)", grid_sides)

# The order decides between laws that agree: the term that programs have most often comes first.
TERMS = (
    LawTerm("p", _power(1.0)),
    LawTerm("(p - 1)", lambda p: p - 1.0),
    LawTerm("log2(p)", np.log2),
    LawTerm("ceil(log2(p))", _ceil_log2),
    LawTerm("p^(1/2)", _power(0.5)),
    ROWS_AND_COLUMNS,
    LawTerm("p^2", _power(2.0)),
    LawTerm("(p^2 - p)", lambda p: p * p - p),  # all pairs of different ranks
    LawTerm("p log2(p)", lambda p: p * np.log2(p)),
    LawTerm("p ceil(log2(p))", lambda p: p * _ceil_log2(p)),
    LawTerm("p^(3/2)", _power(1.5)),
    LawTerm("log2(p)^2", lambda p: np.log2(p) ** 2),
    LawTerm("(log2(p)^2 + log2(p))", lambda p: np.log2(p) * (np.log2(p) + 1)),  # a bitonic sort
    LawTerm("p^(2/3)", _power(2 / 3)),
    LawTerm("p^(1/3)", _power(1 / 3)),
    LawTerm("p^(-1)", _power(-1.0)),
    LawTerm("p^(-1/2)", _power(-0.5)),
    LawTerm("p^(-2/3)", _power(-2 / 3)),
    LawTerm("p^(-1/3)", _power(-1 / 3)),
)

# Of even p alone, they are p / 2.
HALVES = (
    LawTerm("floor(p/2)", lambda p: np.floor(p / 2)),
    LawTerm("ceil(p/2)", lambda p: np.ceil(p / 2)),
)

# Of powers of two alone, it is log2(p).
FLOOR_LOG2 = LawTerm("floor(log2(p))", _floor_log2)

STEPS = (*HALVES, FLOOR_LOG2, next(term for term in TERMS if term.name == "ceil(log2(p))"))


@dataclass(frozen=True, slots=True)
class LawFactor:
    """`constant + coefficient * term`."""

    constant: float = 0.0
    coefficient: float = 0.0
    term: LawTerm | None = None

    def at(self, p: float) -> float:
        """The value at one scale."""
        return self.constant + (self.coefficient * self.term.at(p) if self.term else 0.0)

    @property
    def coefficients(self) -> int:
        """How many numbers were fitted."""
        return int(self.constant != 0.0) + int(self.term is not None)

    def times(self, number: float) -> "LawFactor":
        """The factor multiplied by a number."""
        return LawFactor(_tidy(self.constant * number), _tidy(self.coefficient * number), self.term)

    def text(self, unit: str) -> str:
        """The factor for people: `20 (p - 1)`, `160 kB * p`, `60 + 30 p`."""
        if self.term is None:
            return quantity_text(self.constant, unit)
        multiple = multiple_text(self.coefficient, self.term.name, unit)
        if math.isclose(self.constant, -self.coefficient, rel_tol=1e-6) and self.term.name == "p":
            return multiple_text(self.coefficient, "(p - 1)", unit)
        if abs(self.constant) <= 1e-9 * abs(self.coefficient):
            return multiple
        if self.coefficient < 0 < self.constant:
            multiple = multiple_text(-self.coefficient, self.term.name, unit)
            return f"{quantity_text(self.constant, unit)} - {multiple}"
        sign = "-" if self.constant < 0 else "+"
        return f"{multiple} {sign} {quantity_text(abs(self.constant), unit)}"


@dataclass(frozen=True, slots=True)
class ExactLaw:
    """A product of factors that passes through the measured points.

    points: how many of `of` measured scales it passes through.
    """

    factors: tuple[LawFactor, ...]
    points: int
    of: int

    def at(self, p: float) -> float:
        """The value at one scale, never below 0."""
        return max(math.prod(factor.at(p) for factor in self.factors), 0.0)

    @property
    def term(self) -> LawTerm | None:
        """The term of the first factor that has any; None for a constant."""
        return next((factor.term for factor in self.factors if factor.term), None)

    @property
    def single_factor(self) -> LawFactor | None:
        """The product as one factor; None if several of its factors have terms."""
        constants = [factor.constant for factor in self.factors if factor.term is None]
        others = [factor for factor in self.factors if factor.term is not None]
        if len(others) > 1:
            return None
        if not constants:
            return others[0]
        return (others[0] if others else LawFactor(constant=1.0)).times(math.prod(constants))

    def text(self, unit: str, parameter: str = RANKS) -> str:
        """The law for people, over a parameter: constants of a product are multiplied."""
        text = self._text_over_ranks(unit)
        return text if parameter == RANKS else re.sub(rf"\b{RANKS}\b", parameter, text)

    def _text_over_ranks(self, unit: str) -> str:
        single = self.single_factor
        if single is not None and single.term is not None:
            return single.text(unit)
        texts = [factor.text(unit if i == 0 else "1") for i, factor in enumerate(self.factors)]
        if len(texts) == 1:
            return texts[0]
        return " * ".join(f"({text})" for text in texts)


def quantity_text(value: float, unit: str) -> str:
    """A count in full up to a million, anything else with three digits and decimal prefixes."""
    if unit == "B":
        return bytes_text(value)
    if unit == "s":
        return quantity(value, "s")
    if abs(value) < 1e6 and abs(value - round(value)) < 1e-6 * max(1.0, abs(value)):
        return f"{round(value):,}"
    if abs(value) >= 1e9:
        return f"{value / 1e9:.3g} billion"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} million"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def bytes_text(value: float) -> str:
    """Bytes with decimal prefixes, as networks and memory budgets are quoted: `160 kB`."""
    for scale, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= 0.9995 * scale:
            return f"{value / scale:.3g} {name}"
    return f"{value:.3g} B"


def multiple_text(coefficient: float, term: str, unit: str) -> str:
    """A multiple of a term for people: `20 (p - 1)`, `160 kB * p`, `p`."""
    if unit in ("1", "") and math.isclose(coefficient, 1.0, rel_tol=1e-9):
        return term.strip("()") if term.startswith("(") else term
    separator = " * " if unit in ("B", "s") else " "
    return f"{quantity_text(coefficient, unit)}{separator}{term}"


def is_constant(values: FloatArray, tolerance: float = RELATIVE) -> bool:
    """Whether values do not change by more than a share of the largest."""
    largest = float(np.max(np.abs(values), initial=0.0))
    return float(np.ptp(values)) <= max(tolerance * largest, 1e-12)


def find_laws(p: FloatArray, values: FloatArray, tolerance: float = RELATIVE) -> list[ExactLaw]:
    """All laws with the fewest coefficients that pass through the points.

    Args:
        p: (n_scales,), ascending and distinct.
        values: (n_scales,), one value per scale.
        tolerance: the largest residual, as a share of the range of the values.

    Returns:
        Constants alone, else laws of one term, else laws of a constant and a term; empty if there
        is none, or if there are too few points to tell. A program often behaves differently on one
        rank, so that p = 1 is left out where the laws of all points fail. A value of 0 there is no
        point at all: a rank alone has nothing to send, whatever the others do.
    """
    n = len(p)
    has_one_rank = n > 0 and p[0] == 1.0
    if has_one_rank and values[0] == 0 and np.any(values):
        laws = _find_laws(p[1:], values[1:], tolerance, of=n)
        return [replace(law, points=n) if law.at(1.0) == 0 else law for law in laws]

    laws = _find_laws(p, values, tolerance, of=n)
    if laws or not has_one_rank or n < SPARE_POINTS + 3:
        return laws

    return _find_laws(p[1:], values[1:], tolerance, of=n)


def find_laws_to_check(
    p: FloatArray, values: FloatArray, tolerance: float = RELATIVE
) -> list[ExactLaw]:
    """Laws that pass through the points with one point to spare: too few to be certain of them."""
    return _find_laws(p, values, tolerance, of=len(p), spare_points=1)


def _find_laws(
    p: FloatArray,
    values: FloatArray,
    tolerance: float,
    *,
    of: int,
    spare_points: int = SPARE_POINTS,
) -> list[ExactLaw]:
    n = len(p)
    if n < 1 + spare_points:
        return []
    if is_constant(values, tolerance):
        return [ExactLaw((LawFactor(constant=float(np.median(values))),), n, of)]
    return list(_find_terms(tuple(p.tolist()), tuple(values.tolist()), tolerance, of, spare_points))


@lru_cache(maxsize=KEPT)
def _find_terms(
    scales: tuple[float, ...],
    numbers: tuple[float, ...],
    tolerance: float,
    of: int,
    spare_points: int,
) -> tuple[ExactLaw, ...]:
    """Laws with a term: many functions of a program have the same values."""
    p, values = np.array(scales), np.array(numbers)
    n = len(p)
    has_levels = len(set(numbers)) >= LEAST_LEVELS
    exact, *rounded = _allowed_residuals(values, tolerance)
    for allowed in (exact, *rounded):
        needed, largest = spare_points, np.full(n, allowed)
        if allowed > exact:
            # Of a small value, the rounding is no small share: 1, 3, 10, 29 is not 1.21 p log2(p).
            needed = max(spare_points, SPARE_POINTS_ROUNDED)
            largest = np.clip(np.abs(values) / LEAST_ROUNDED_RANGE, exact, allowed)
        for has_constant in (False, True):
            if n < 1 + int(has_constant) + needed:
                break
            if has_constant and np.count_nonzero(values) < LEAST_NONZERO:
                break
            laws = []
            for term in _possible_terms(p, values, allowed, has_constant=has_constant):
                if term in STEPS and not has_levels:
                    continue
                factor = _fit_factor(p, values, term, has_constant=has_constant)
                fitted = factor.constant + factor.coefficient * term.values(p)
                if np.all(np.abs(fitted - values) <= largest):
                    laws.append(ExactLaw((factor,), n, of))
            laws = _without_unlikely_grids(laws)
            if laws:
                return tuple(laws)
        if allowed == exact and tolerance == RELATIVE:
            laws = _laws_of_growing_parts(p, values, allowed, of)
            if laws:
                return tuple(laws)
    return ()


def _laws_of_growing_parts(
    p: FloatArray, values: FloatArray, allowed: float, of: int
) -> list[ExactLaw]:
    """Laws of p or p - 1 parts that are larger on more ranks: each with a header of all, say.

    Sums of 1 to p, such as those of all pairs of p vectors, are p (p + 1) / 2.
    """
    if len(p) < 2 + SPARE_POINTS_ROUNDED:
        return []
    laws = []
    for first in (0.0, 1.0):
        parts = p - first
        design = np.stack([parts, parts * p], axis=1)
        constant, slope = np.linalg.lstsq(design, values, rcond=None)[0].tolist()
        if slope <= 0 or constant < LEAST_CONSTANT * slope:
            continue
        if np.all(np.abs(design @ [constant, slope] - values) <= allowed):
            term = _growing_parts(first, _tidy(constant / slope))
            laws.append(ExactLaw((LawFactor(0.0, _tidy(slope), term),), len(p), of))
    return laws


def _growing_parts(first: float, more: float) -> LawTerm:
    """The term `(p - first) (p + more)`, with its name as a sum of powers."""
    name = "p^2"
    for number, power in ((more - first, " p"), (-first * more, "")):
        if number:
            number_text = quantity_text(abs(number), "1")
            factor = "" if power and number_text == "1" else number_text
            name += f" {'-' if number < 0 else '+'} {factor}{power}".replace("  ", " ")
    return LawTerm(f"({name})", lambda p: (p - first) * (p + more), like="p^2")


def _without_unlikely_grids(laws: list[ExactLaw]) -> list[ExactLaw]:
    """Leave out a law of rows and columns that is below 0 on one rank, or beside one of p.

    On 2, 4, 6 and 8 ranks they are p / 2 + 2, and programs have p more often. On 1, 2, 3, 4 and 6
    they are ceil(log2(p)) + 2: there both laws stay, so that neither is certain.
    """
    grid = next((law for law in laws if law.term is ROWS_AND_COLUMNS), None)
    if grid is None:
        return laws
    others = [law for law in laws if law is not grid]
    has_only_logs = all("log2" in law.term.name for law in others if law.term is not None)
    return laws if has_only_logs and grid.factors[0].at(1.0) >= 0 else others


def _allowed_residuals(values: FloatArray, tolerance: float) -> list[float]:
    """The largest residuals of a law, ascending: of exact values first, then of rounded ones."""
    spread = float(np.ptp(values))
    allowed = [tolerance * spread]
    if tolerance == RELATIVE_HEAP and spread >= LEAST_PAGED_RANGE:
        return [max(allowed[0], PAGE)]

    if tolerance == RELATIVE and bool(np.all(values == np.round(values))):
        # A loop that rounds its bound is entered k times: all counts are multiples of k.
        step = float(math.gcd(*(int(value) for value in values.tolist())))
        if spread >= LEAST_ROUNDED_RANGE * step:
            allowed.append(max(allowed[0], ROUNDED * step))
    return allowed


def _possible_terms(
    p: FloatArray, values: FloatArray, allowed: float, *, has_constant: bool
) -> list[LawTerm]:
    """The terms that may fit within a residual: all are fitted at once, with less precision."""
    terms, columns = _columns_of(tuple(p.tolist()))
    mean = values.mean() if has_constant else 0.0
    centred = columns - columns.mean(axis=1, keepdims=True) if has_constant else columns
    norms = np.maximum((centred**2).sum(axis=1), 1e-300)
    fitted = mean + (centred @ (values - mean) / norms)[:, None] * centred
    residuals = np.max(np.abs(fitted - values), axis=1)
    limit = 2.0 * allowed + 1e-9 * float(np.max(np.abs(values)))
    return [term for term, residual in zip(terms, residuals, strict=True) if residual <= limit]


@lru_cache(maxsize=KEPT)
def _columns_of(scales: tuple[float, ...]) -> tuple[tuple[LawTerm, ...], FloatArray]:
    """The terms that are told apart on these scales, and their values, (n_terms, n_scales)."""
    p = np.array(scales)
    terms = (*TERMS, *HALVES) if np.any(p[p > 1] % 2) else TERMS
    if np.any(np.log2(p) % 1):
        terms = (*terms, FLOOR_LOG2)
    return terms, np.stack([term.values(p) for term in terms])


def _fit_factor(
    p: FloatArray, values: FloatArray, term: LawTerm, *, has_constant: bool
) -> LawFactor:
    """Least squares of one term, with or without a constant."""
    column = term.values(p)
    if has_constant:
        design = np.stack([np.ones_like(column), column], axis=1)
        constant, coefficient = np.linalg.lstsq(design, values, rcond=None)[0].tolist()
    else:
        norm = float(column @ column)
        constant, coefficient = 0.0, float(column @ values) / norm if norm > 0 else 0.0
    return LawFactor(_tidy(constant), _tidy(coefficient), term)


def _tidy(value: float) -> float:
    """An integer that least squares missed by rounding."""
    nearest = round(value)
    return float(nearest) if abs(value - nearest) <= 1e-9 * max(1.0, abs(value)) else value


def product_laws(
    p: FloatArray,
    counts: Sequence[FloatArray],
    values: FloatArray,
    tolerance: float = RELATIVE,
) -> list[ExactLaw]:
    """Laws of `values` as the law of a count times the law of one count's share.

    Args:
        p, values, tolerance: as in `find_laws`.
        counts: each (n_scales,): the visits of the call path that has the values, of its caller,
            and so on. The law of visits may itself be a product with those of the caller.
    """
    if not counts or np.any(counts[0] <= 0):
        return []

    for_shares = find_laws(p, values / counts[0], tolerance)
    if not for_shares:
        return []
    for_counts = find_laws(p, counts[0], RELATIVE) or product_laws(p, counts[1:], counts[0])
    products = []
    for share in for_shares:
        for count in for_counts:
            factors = (*share.factors, *count.factors)
            products.append(ExactLaw(factors, min(share.points, count.points), len(p)))

    return products


def bounds_at(laws: Sequence[ExactLaw], target: float) -> tuple[float, float]:
    """The smallest and the largest value of several laws at one scale."""
    values = [law.at(target) for law in laws]
    return min(values), max(values)


def laws_agree(laws: Sequence[ExactLaw], target: float) -> bool:
    """Whether laws that fit equally well say nearly the same about the target."""
    low, high = bounds_at(laws, target)
    return high <= AGREEMENT * low or high == 0.0


def grows(law: ExactLaw, low: float, high: float) -> bool:
    """Whether a law is larger at `high` than at `low` by more than rounding."""
    return law.at(high) > GROWING * law.at(low)
