"""Whether measurements grow as expected: divergence, match and how sure it is [VAL §2.4].

[VAL] takes the function that fits best and compares its leading term. Here every function that
explains the data speaks in proportion to its posterior probability, of which the expectation had
half before any data: the match is the rank with most probability.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from insitu.errors import UsageError
from insitu.expectations.growth import Growth, Product
from insitu.expectations.limits import Expectation, expect, weighted_ticks
from insitu.expectations.settle import SettlingPoint, find_settling_point
from insitu.modeling.base import Model
from insitu.modeling.evidence.expected import Expected
from insitu.modeling.evidence.modeler import Evidence
from insitu.modeling.measurement import FloatArray, SeriesKey
from insitu.modeling.pmnf import Factor, Function, Term
from insitu.modeling.quality import qualities
from insitu.modeling.series import reduce_repetitions
from insitu.modeling.spread import Spread

SURE = 0.9  # probability from which a match is told as a fact
BELIEVED = 10.0  # times the prior of another function over several parameters
DROWNING = 0.3  # relative noise; 0.4 is the most that is considered
FINEST = 1000  # denominator of exponents
Wanted = str | Growth | Expectation


class Match(StrEnum):
    """How well growth corresponds to its expectation [VAL §2.4]."""

    TOTAL = "total"
    APPROXIMATE = "approximate"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the measurements of one series say about an expectation.

    growth: the most probable one of the rank `match`, G; function: with its coefficients;
    probability: that the rank is right; shares: of each rank; above: the probability that growth is
    above the upper limit; adjusted_r2: of the function; noise: relative, of one measurement;
    settling_point: the further point that would settle a doubt, None where nothing is in doubt.
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

    @property
    def is_settled(self) -> bool:
        """Whether the data tell; else the match is only the most probable one."""
        return max(self.violation, 1 - self.violation) >= SURE and not self.is_drowned

    @property
    def is_drowned(self) -> bool:
        """Whether the noise is larger than any that posteriors can be trusted with."""
        return self.noise >= DROWNING

    @property
    def violation(self) -> float:
        """The probability that growth is outside the limits; above them, for an upper bound."""
        return self.above if self.expectation.is_bound else self.shares[Match.NONE]

    @property
    def is_violated(self) -> bool:
        """Whether growth is outside the limits for sure."""
        return self.violation >= SURE and not self.is_drowned

    @property
    def divergence(self) -> str:
        """δ = G/E as big-O."""
        quotient = self.growth.over(self.expectation.growth)
        if quotient is None:
            return f"{self.growth} / {self.expectation.growth}"
        return str(quotient)


def validate(
    points: ArrayLike,
    values: ArrayLike,
    expectation: Wanted | Sequence[Wanted],
    *,
    deviation: str | Growth | None = None,
    parameters: Sequence[str] = ("p",),
    keys: Sequence[SeriesKey] = (),
) -> list[Verdict]:
    """One verdict per series of measurements.

    Args:
        points: (n_points, n_parameters), or (n_points,) with one parameter.
        values: (n_points,), (n_series, n_points) or (n_series, n_points, n_repetitions), NaN where
            not measured; series of one call share what is learnt about their noise.
        expectation: `"O(p log p)"`, the same for all series or one per series.
        deviation: D, where it is not the default [VAL §2.3].
        parameters: names of the columns of points.
        keys: of the series, for pooling noise by metric.

    Raises:
        UsageError: an expectation that cannot be read or names another parameter.
        ModelingError: points and values do not fit.
    """
    names = tuple(parameters)
    coordinates = np.asarray(points, dtype=np.float64)
    if coordinates.ndim == 1 and len(names) == 1:
        coordinates = coordinates.reshape(-1, 1)
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 1:
        table = table[None]
    if table.ndim == 2:
        table = table[:, :, None]
    wanted = _per_series(expectation, len(table), deviation)
    groups: dict[Expectation, list[int]] = defaultdict(list)
    for i, one in enumerate(wanted):
        _check_parameters(one, names)
        groups[one].append(i)
    answers: dict[int, Verdict] = {}
    for one, members in groups.items():
        chosen = [keys[i] for i in members] if keys else ()
        models = build_modeler(one, names).fit(
            reduce_repetitions(names, coordinates, table[members], chosen)
        )
        answers |= {i: judge(model, one) for i, model in zip(members, models, strict=True)}
    return [answers[i] for i in range(len(table))]


def build_modeler(expectation: Expectation, parameters: tuple[str, ...]) -> Evidence:
    """The modeler that looks about an expectation: its ruler as search space, itself as belief.

    With several parameters the expectation has its part of the prior afterwards, in `judge`.
    """
    if len(parameters) > 1:
        return Evidence(exponential=any(f.gamma for p in expectation.growth.products for f in p))
    (product,) = expectation.growth.products
    factor = product[0] if product else Factor(parameters[0])
    ticks = weighted_ticks(factor) | dict.fromkeys(expectation.further, 1.0)
    is_exponential = any(one.gamma for one in (factor, *expectation.further))
    return Evidence(exponential=is_exponential, expected=Expected(factor, ticks))


def judge(model: Model, expectation: Expectation) -> Verdict:
    """The verdict from the functions that compete in the last segment of a model."""
    names = model.parameters
    if not model.spreads:
        return _unmeasured(model, expectation)
    growths = list_growths(model.spreads[-1], names)
    ranks = [match_of(growth, expectation) for growth in growths]
    if len(names) > 1:
        model = _believing(model, [rank is Match.TOTAL for rank in ranks])
    spread, weights = model.spreads[-1], model.spreads[-1].weights
    shares = {
        rank: float(sum(w for w, r in zip(weights, ranks, strict=True) if r is rank))
        for rank in Match
    }
    above = sum(
        float(weight)
        for weight, growth in zip(weights, growths, strict=True)
        if not growth.is_bounded_by(expectation.upper)
    )
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
    )
    if verdict.is_settled:
        return verdict
    if expectation.is_bound:
        outside = [not growth.is_bounded_by(expectation.upper) for growth in growths]
    else:
        outside = [rank is Match.NONE for rank in ranks]
    settling_point = find_settling_point(
        spread, np.array(outside), model.coordinates, names, sure=SURE
    )
    return replace(verdict, settling_point=settling_point)


def _believing(model: Model, as_expected: Sequence[bool]) -> Model:
    """The model of someone to whom the expected growth is more probable than any other."""
    spread = model.spreads[-1]
    weights = spread.weights * np.where(as_expected, BELIEVED, 1.0)
    spread = replace(spread, weights=weights / weights.sum())
    return replace(model, spreads=(*model.spreads[:-1], spread))


def _unmeasured(model: Model, expectation: Expectation) -> Verdict:
    """Nothing was measured: nothing is known."""
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
    """The rank of one growth: the expected one, within its deviation limits, or outside."""
    if growth.is_same(expectation.growth):
        return Match.TOTAL
    if expectation.lower.is_bounded_by(growth) and growth.is_bounded_by(expectation.upper):
        return Match.APPROXIMATE
    return Match.NONE


def list_growths(spread: Spread, parameters: tuple[str, ...]) -> list[Growth]:
    """The growth of each function of a spread."""
    known: dict[bytes, Growth] = {}
    answer = []
    for exponents, coefficients in zip(spread.exponents, spread.coefficients, strict=True):
        present = coefficients != 0
        key = exponents.tobytes() + present.tobytes()
        if key not in known:
            products = [
                _product(exponents[j], parameters) for j in np.flatnonzero(present[1:]).tolist()
            ]
            known[key] = Growth.of([*products, *([()] if present[0] or not products else [])])
        answer.append(known[key])
    return answer


def function_of(spread: Spread, i: int, parameters: tuple[str, ...]) -> Function:
    """The i-th function of a spread."""
    constant, *coefficients = spread.coefficients[i].tolist()
    terms = [
        Term(coefficient, _product(exponents, parameters))
        for coefficient, exponents in zip(coefficients, spread.exponents[i], strict=True)
        if coefficient
    ]
    return Function(parameters, constant, tuple(terms))


def _adjusted_r2(function: Function, model: Model) -> float:
    """How well a function fits the points of the last segment; NaN where that is not defined."""
    last = model.coordinates[:, 0] >= model.segments[-1].lower
    points, values = model.coordinates[last], model.values[last]
    columns = 1 + len(function.terms)
    return qualities(values[None], function(points)[None], np.array([columns]))[0].adjusted_r2


def _per_series(
    expectation: Wanted | Sequence[Wanted], count: int, deviation: str | Growth | None
) -> list[Expectation]:
    if isinstance(expectation, str | Growth | Expectation):
        expectation = [expectation] * count
    if len(expectation) != count:
        raise UsageError(f"{len(expectation)} expectations for {count} series; give one per series")
    return [
        one if isinstance(one, Expectation) else expect(one, deviation=deviation)
        for one in expectation
    ]


def _check_parameters(expectation: Expectation, parameters: tuple[str, ...]) -> None:
    if expectation.further and len(parameters) > 1:
        raise UsageError(
            f"search: the measurements vary {', '.join(parameters)}, and terms can be added to the "
            "search space of one parameter only; leave search away"
        )
    named = (*expectation.growth.parameters, *(one.parameter for one in expectation.further))
    unknown = [name for name in named if name not in parameters]
    if unknown:
        raise UsageError(
            f"{expectation}: the measurements vary {', '.join(parameters)}, not {unknown[0]}"
        )


def _product(exponents: FloatArray, parameters: tuple[str, ...]) -> Product:
    rows = zip(parameters, exponents.tolist(), strict=True)
    factors = (
        Factor(name, *(Fraction(value).limit_denominator(FINEST) for value in row))
        for name, row in rows
    )
    return tuple(factor for factor in factors if any(factor[1:]))


def _most_probable(growths: list[Growth], weights: FloatArray, allowed: list[bool]) -> int:
    total: dict[Growth, float] = defaultdict(float)
    for growth, weight, is_allowed in zip(growths, weights, allowed, strict=True):
        total[growth] += float(weight) if is_allowed else 0.0
    best = max(total, key=lambda growth: total[growth])
    return growths.index(best)
