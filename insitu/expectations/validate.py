"""Judges whether measurements grow as expected: divergence, match and probability [VAL §2.4].

[VAL] compares the leading term of the function that fits best. Here every hypothesis that explains
the data counts with its posterior probability, and the expectation has a prior probability of one
half: the match is the rank with the largest probability.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from insitu.errors import UsageError
from insitu.expectations.growth import Growth, Product
from insitu.expectations.limits import Expectation, expect, weighted_ticks
from insitu.expectations.rounding import find_unit
from insitu.expectations.settle import SettlingPoint, find_settling_point
from insitu.modeling.base import Model
from insitu.modeling.doubt import MIN_VALUES, no_evidence
from insitu.modeling.evidence.expected_growth import ExpectedGrowth
from insitu.modeling.evidence.modeler import Evidence
from insitu.modeling.measurement import FloatArray, SeriesKey
from insitu.modeling.modelers import as_numbers
from insitu.modeling.pmnf import Factor, Function, Term, powers
from insitu.modeling.quality import qualities
from insitu.modeling.series import reduce_repetitions
from insitu.modeling.spread import Spread

SURE = 0.9  # probability from which a verdict is settled
EXPECTED_ODDS = 10.0  # prior of the expectation over that of another hypothesis
NOISE_LIMIT = 0.3  # relative; posteriors assume at most 0.4
# Terms of a law of counts that change none of them by more may describe their rounding, which few
# points enlarge.
ROUNDED_UNITS, ROUNDED_SHARE = 4.0, 0.1
TINY = 1e-300  # keeps divisions finite
EXPONENT_DENOMINATOR = 1000  # the largest one
ExpectationLike = str | Growth | Expectation


class Match(StrEnum):
    """How well growth matches its expectation [VAL §2.4]."""

    TOTAL = "total"
    APPROXIMATE = "approximate"
    NONE = "none"


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """The comparison of the measurements of one series with an expectation.

    Attributes:
        expectation: E with its limits.
        growth: G, the most probable one of the rank `match`.
        function: with this growth, and coefficients.
        match: the most probable rank.
        probability: that the rank is right.
        shares: the probability of each rank.
        above: the probability that growth is above the upper limit.
        adjusted_r2: of the function.
        noise: relative, of one measurement.
        settling_point: the further measurement that would settle the verdict, None if settled.
        doubt: why there is no evidence for this growth, "" if there is.
        model: fitted to the measurements under this expectation.
    """

    expectation: Expectation
    growth: Growth
    function: Function
    match: Match
    probability: float
    shares: dict[Match, float]
    above: float
    adjusted_r2: float
    noise: float
    settling_point: SettlingPoint | None
    model: Model
    doubt: str = ""

    def __repr__(self) -> str:
        """The verdict in words."""
        state = "violated" if self.is_violated else "undecided"
        if self.is_settled and not self.is_violated:
            state = "near" if self.match is Match.APPROXIMATE else "met"
        return (
            f"<{state}: grows as {self.growth}, expected {self.expectation},"
            f" {max(self.violation, 1 - self.violation):.0%} sure>"
        )

    @property
    def is_settled(self) -> bool:
        """Whether the data decide; otherwise the match is only the most probable one."""
        is_sure = max(self.violation, 1 - self.violation) >= SURE
        return is_sure and not self.is_drowned and not self.doubt

    @property
    def is_drowned(self) -> bool:
        """Whether the noise is too large for the probabilities to be reliable."""
        return self.noise >= NOISE_LIMIT

    @property
    def violation(self) -> float:
        """The probability that growth is outside the limits, or above them for an upper bound."""
        return self.above if self.expectation.is_bound else self.shares[Match.NONE]

    @property
    def is_violated(self) -> bool:
        """Whether growth is outside the limits with a probability of at least `SURE`."""
        return self.violation >= SURE and self.is_settled

    @property
    def divergence(self) -> str:
        """δ = G/E as big-O text."""
        quotient = self.growth.over(self.expectation.growth)
        if quotient is None:
            return f"{self.growth} / {self.expectation.growth}"
        return str(quotient)


def validate(
    points: "ArrayLike",
    values: "ArrayLike",
    expectation: ExpectationLike | Sequence[ExpectationLike],
    *,
    deviation: str | Growth | None = None,
    parameters: Sequence[str] = ("p",),
    keys: Sequence[SeriesKey] = (),
) -> list[Verdict]:
    """Return one verdict per series of measurements.

    Args:
        points: (n_points, n_parameters), or (n_points,) with one parameter.
        values: (n_points,), (n_series, n_points) or (n_series, n_points, n_repetitions), NaN where
            not measured. The series of a call share the estimate of their noise.
        expectation: `"O(p log p)"`, the same for all series or one per series.
        deviation: D; None: the default [VAL §2.3].
        parameters: names of the columns of points.
        keys: of the series, to share the noise by metric.

    Raises:
        UsageError: an expectation cannot be parsed, or names another parameter.
        ModelingError: points and values do not fit.
    """
    names = tuple(parameters)
    coordinates = as_numbers(points, "points")
    if coordinates.ndim == 1 and len(names) == 1:
        coordinates = coordinates.reshape(-1, 1)
    table = as_numbers(values, "values")
    if table.ndim == 1:
        table = table[None]
    if table.ndim == 2:
        table = table[:, :, None]

    # Series with the same expectation are fitted together.
    groups: dict[Expectation, list[int]] = defaultdict(list)

    for i, expected in enumerate(_per_series(expectation, len(table), deviation)):
        check_parameters(expected, names)
        groups[expected].append(i)

    verdicts: dict[int, Verdict] = {}
    for expected, members in groups.items():
        member_keys = [keys[i] for i in members] if keys else ()
        points_of_group = reduce_repetitions(names, coordinates, table[members], member_keys)
        models = build_modeler(expected, names).fit(points_of_group)
        for i, model in zip(members, models, strict=True):
            verdicts[i] = judge(model, expected)

    return [verdicts[i] for i in range(len(table))]


def build_modeler(expectation: Expectation, parameters: tuple[str, ...]) -> Evidence:
    """Return the modeler for an expectation: its search space is the ruler, its prior the weights.

    With several parameters, `judge` applies the prior of the expectation afterwards.
    """
    if len(parameters) > 1:
        is_exponential = False
        for product in expectation.growth.products:
            is_exponential |= any(factor.gamma for factor in product)
        return Evidence(exponential=is_exponential)

    (product,) = expectation.growth.products
    factor = product[0] if product else Factor(parameters[0])
    ticks = weighted_ticks(factor) | dict.fromkeys(expectation.further, 1.0)
    is_exponential = any(tick.gamma for tick in (factor, *expectation.further))
    return Evidence(exponential=is_exponential, expected=ExpectedGrowth(factor, ticks))


def judge(model: Model, expectation: Expectation) -> Verdict:
    """Return the verdict from the competing hypotheses in the last segment of a model."""
    names = model.parameters
    if not model.spreads:
        return _verdict_without_data(model, expectation)

    growths = list_growths(model.spreads[-1], names, visible=_find_visible(model))
    ranks = [match_of(growth, expectation) for growth in growths]
    if len(names) > 1:
        model = _with_prior(model, [rank is Match.TOTAL for rank in ranks])

    spread, weights = model.spreads[-1], model.spreads[-1].weights
    is_above = [not growth.is_bounded_by(expectation.upper) for growth in growths]
    above = 0.0
    shares = dict.fromkeys(Match, 0.0)

    laws = zip(weights.tolist(), ranks, is_above, probability_of_rise(spread), strict=True)
    for weight, rank, exceeds, rise in laws:
        if np.isnan(rise):
            shares[rank] += weight
            above += weight if exceeds else 0.0
        else:  # a new law begins at the newest point, of any exponent: it may be as expected
            as_expected = 0.0
            if rank is Match.NONE:
                as_expected = 1 - rise if exceeds else rise
            shares[Match.TOTAL] += weight * as_expected
            shares[Match.NONE] += weight * (1 - as_expected)
            above += weight * rise

    best = max(Match, key=lambda rank: shares[rank])
    chosen = _most_probable(growths, weights, [rank is best for rank in ranks])
    same = [i for i, growth in enumerate(growths) if growth == growths[chosen]]
    function = function_of(spread, max(same, key=lambda i: float(weights[i])), names)
    verdict = Verdict(
        expectation=expectation,
        growth=growths[chosen],
        function=function,
        match=best,
        probability=shares[best],
        shares=shares,
        above=above,
        adjusted_r2=_adjusted_r2(function, model),
        noise=spread.sigma,
        settling_point=None,
        model=model,
        doubt=_doubt(function, model),
    )
    if verdict.is_settled:
        return verdict

    outside = is_above if expectation.is_bound else [rank is Match.NONE for rank in ranks]
    settling_point = find_settling_point(
        spread, np.array(outside), model.coordinates, names, sure=SURE
    )
    return replace(verdict, settling_point=settling_point)


def probability_of_rise(spread: Spread) -> list[float]:
    """Return that the exponent of each hypothesis rises at the newest point: (k,).

    NaN where no new law begins there.
    """
    result = []
    for *_, mean, deviation in spread.all_tails().tolist():
        if mean == 0 and deviation <= 0:
            result.append(float("nan"))
            continue
        from scipy.special import ndtr  # takes 0.2 s to import, and few hypotheses have a new law

        result.append(float(ndtr(mean / max(deviation, TINY))))
    return result


def _doubt(function: Function, model: Model) -> str:
    """Why there is no evidence for the growth of a function in the last segment, "" if there is."""
    if not function.terms and len(model.values) >= MIN_VALUES:
        return ""
    fitted = model.formula_at(model.coordinates)
    return no_evidence(model.findings, _adjusted_r2(function, model), model.values, fitted)


def _with_prior(model: Model, is_expected: Sequence[bool]) -> Model:
    """Return the model with a larger prior probability of the expected growth."""
    spread = model.spreads[-1]
    weights = spread.weights * np.where(is_expected, EXPECTED_ODDS, 1.0)
    spread = replace(spread, weights=weights / weights.sum())
    return replace(model, spreads=(*model.spreads[:-1], spread))


def _verdict_without_data(model: Model, expectation: Expectation) -> Verdict:
    """Return a verdict in which all ranks are equally probable."""
    return Verdict(
        expectation=expectation,
        growth=expectation.growth,
        function=model.function,
        match=Match.TOTAL,
        probability=1 / 3,
        shares=dict.fromkeys(Match, 1 / 3),
        above=1 / 3,
        adjusted_r2=model.adjusted_r2,
        noise=float("nan"),
        settling_point=None,
        model=model,
    )


def match_of(growth: Growth, expectation: Expectation) -> Match:
    """Return the rank of a growth: the expected one, within the deviation limits, or outside."""
    if growth.is_same(expectation.growth):
        return Match.TOTAL
    if expectation.lower.is_bounded_by(growth) and growth.is_bounded_by(expectation.upper):
        return Match.APPROXIMATE
    return Match.NONE


def _find_visible(model: Model) -> NDArray[np.bool_] | None:
    """Which terms of each hypothesis change counts by more than their rounding: (k, 1 + t).

    None if all of them do, as for values that are no counts. Work that is divided, n / p, is
    rounded to whole units; a constant or a steep term that describes this is no growth.
    """
    values, spread = model.values, model.spreads[-1]
    unit = find_unit(values.tolist())
    if unit == 0 or np.any(values <= 0):
        return None
    terms = powers(model.coordinates.T, spread.exponents[:, :, :, None]).prod(axis=2)
    columns = np.concatenate([np.ones((len(terms), 1, len(values))), terms], axis=1)
    parts = columns * spread.coefficients[:, :, None]
    is_small = np.all(np.abs(parts) <= ROUNDED_SHARE * values, axis=2)
    is_rounding = is_small & np.all(np.abs(parts) <= ROUNDED_UNITS * unit, axis=2)

    # Terms of an exact function may nearly cancel each other, as in log(p) - 7.
    together = np.abs((parts * is_small[:, :, None]).sum(axis=1))
    cancels = np.max(together, axis=1, keepdims=True) <= ROUNDED_UNITS * unit
    is_rounding |= is_small & cancels
    return np.asarray(~is_rounding)


def list_growths(
    spread: Spread, parameters: tuple[str, ...], *, visible: NDArray[np.bool_] | None = None
) -> list[Growth]:
    """Return the growth of each hypothesis of a spread.

    Args:
        spread: k hypotheses of t terms at most.
        parameters: of the model.
        visible: (k, 1 + t), the constants and terms that count, None for all.
    """
    present_terms = spread.coefficients != 0
    if visible is not None:
        present_terms &= visible | ~visible.any(axis=1, keepdims=True)
    return [
        _growth_of(exponents.tobytes(), present.tobytes(), parameters)
        for exponents, present in zip(spread.exponents, present_terms, strict=True)
    ]


@lru_cache(maxsize=1 << 14)  # the hypotheses of thousands of series have few distinct growths
def _growth_of(exponents: bytes, present: bytes, parameters: tuple[str, ...]) -> Growth:
    """The growth of a hypothesis.

    Args:
        exponents: (t, n_parameters, 3), as numbers of 64 bits.
        present: (1 + t), the constants and terms that count, as bytes.
        parameters: of the model.
    """
    is_present = np.frombuffer(present, np.bool_)
    terms = np.frombuffer(exponents).reshape(len(is_present) - 1, len(parameters), 3)
    products = [_product(term, parameters) for term in terms[is_present[1:]]]
    if is_present[0] or not products:
        products.append(())
    return Growth.of(products)


def function_of(spread: Spread, i: int, parameters: tuple[str, ...]) -> Function:
    """Return the i-th hypothesis of a spread as a function."""
    constant, *coefficients = spread.coefficients[i].tolist()
    terms = [
        Term(coefficient, _product(exponents, parameters))
        for coefficient, exponents in zip(coefficients, spread.exponents[i], strict=True)
        if coefficient
    ]
    return Function(parameters, constant, tuple(terms))


def _adjusted_r2(function: Function, model: Model) -> float:
    """Return the adjusted R² of a function in the last segment.

    NaN if it is not defined: a constant explains no variation, so that its R² is 0 or rounding.
    """
    if not function.terms:
        return math.nan
    last = model.coordinates[:, 0] >= model.segments[-1].lower
    points, values = model.coordinates[last], model.values[last]
    columns = 1 + len(function.terms)
    return qualities(values[None], function(points)[None], np.array([columns]))[0].adjusted_r2


def _per_series(
    expectation: ExpectationLike | Sequence[ExpectationLike],
    count: int,
    deviation: str | Growth | None,
) -> list[Expectation]:
    if isinstance(expectation, str | Growth | Expectation):
        expectation = [expectation] * count
    if len(expectation) != count:
        raise UsageError(f"{len(expectation)} expectations for {count} series; give one per series")
    return [
        expected if isinstance(expected, Expectation) else expect(expected, deviation=deviation)
        for expected in expectation
    ]


def check_parameters(expectation: Expectation, parameters: tuple[str, ...]) -> None:
    """Refuse an expectation over parameters that were not varied.

    Raises:
        UsageError: it names another parameter, or extends the search over several.
    """
    if expectation.further and len(parameters) > 1:
        raise UsageError(
            f"search: the measurements vary {', '.join(parameters)}, but search extends the search"
            " space of a single parameter only; remove it"
        )
    further = [factor.parameter for factor in expectation.further]
    names = (*expectation.growth.parameters, *further)
    unknown = [name for name in names if name not in parameters]
    if unknown:
        raise UsageError(
            f"{expectation}: the measurements vary {', '.join(parameters)}, not {unknown[0]};"
            f" write growth over them, as in O({parameters[0]} * log2({parameters[0]}))"
        )


def _product(exponents: FloatArray, parameters: tuple[str, ...]) -> Product:
    """Return the factors with exponents (n_parameters, 3); those without effect are left out."""
    factors = []
    for name, row in zip(parameters, exponents.tolist(), strict=True):
        rounded = [Fraction(value).limit_denominator(EXPONENT_DENOMINATOR) for value in row]
        if any(rounded):
            factors.append(Factor(name, *rounded))
    return tuple(factors)


def _most_probable(growths: list[Growth], weights: FloatArray, allowed: list[bool]) -> int:
    """Return the index of a hypothesis with the most probable growth among the allowed ones."""
    total: dict[Growth, float] = defaultdict(float)
    for growth, weight, is_allowed in zip(growths, weights, allowed, strict=True):
        total[growth] += float(weight) if is_allowed else 0.0
    best = max(total, key=lambda growth: total[growth])
    return growths.index(best)
