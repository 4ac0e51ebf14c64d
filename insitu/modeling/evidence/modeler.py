"""Modeler "evidence": the posterior over hypotheses, and what it says about the growth of a series.

Every function of the lattice (constant, one term, two terms) has a prior that prefers simple
exponents; its evidence is the probability of the data under it, coefficients and noise integrated
out. The noise is shared by the series of a pool. Errors are relative; coefficients are not
negative, so no model predicts a negative time, and falling exponents describe strong scaling.
Compare [REF §3], which takes the best fit of one hypothesis and two thresholds instead. Where
segments explain a series better than one function does, it is cut [SEG].
"""

from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from insitu.entities import Finding
from insitu.modeling.base import ChangePoint, Model, Segment
from insitu.modeling.evidence.answer import KEPT
from insitu.modeling.evidence.batch import Batch, Found, Work
from insitu.modeling.evidence.change_points import bounds
from insitu.modeling.evidence.expected import ALL, Expected, believing
from insitu.modeling.evidence.hypothesis_space import FEW, HIGHEST, MIN_STEEP, lattice, plain
from insitu.modeling.evidence.multi_parameter import Dependencies, several
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.measurement import FloatArray, Points
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.quality import qualities
from insitu.modeling.search import few_points
from insitu.modeling.series import Series, reduce

TOLD = 0.5  # posterior below which the growth of a series is said to be uncertain
STEEP_GAIN = 1.5  # what a series must grow by over its last quarter
LASTING = 2.0  # power that both of the last two steps must exceed
FALLS = 3.0  # times the largest fall that they must rise together
UNCERTAIN = "growth-uncertain"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The default modeler.

    exponential: also consider 2^(γ·x), x^α · 2^(γ·x) and powers up to 8 for every series of one
    parameter; otherwise they are considered for those that grow faster than x⁴. dependencies:
    which parameters may occur together in a term of a call path, where that is known. expected:
    growth of one parameter that is believed before any data; the models then keep all functions
    that compete with it. executor: does the work, in parts that are the same without it.
    """

    exponential: bool = False
    dependencies: Dependencies = field(default_factory=dict)
    expected: Expected | None = None
    executor: Executor | None = None
    name: ClassVar[str] = "evidence"
    min_points: ClassVar[int] = 5
    shares_noise: ClassVar[bool] = True

    def fit(self, points: Points) -> list[Model]:
        """See Modeler; the series of one call share what is learnt about noise."""
        series = reduce(points)
        if len(points.parameters) > 1:
            found = [
                Found((one,)) for one in several(points, series, self.dependencies, self._work)
            ]
            return _models(found, series, points.parameters, self.name)
        found = self._one_parameter(points, series)
        return _models(found, series, points.parameters, self.name)

    @property
    def _work(self) -> Work:
        return map if self.executor is None else self.executor.map

    def _one_parameter(self, points: Points, series: Series) -> list[Found]:
        names = [key.metric for key in points.keys] or [""] * len(series.values)
        parameter, x = points.parameters[0], series.coordinates[:, 0]
        steep = grows_steeply(series) | self.exponential
        span = (float(np.ptp(x)) if len(x) else 0.0) or 1.0
        few = (np.isfinite(series.values).sum(axis=1) <= FEW) & (self.expected is None)
        found: dict[int, Found] = {}
        for rows, possible in (
            (np.flatnonzero(~steep & ~few), lattice(parameter)),
            (np.flatnonzero(~steep & few), plain(parameter)),
            (np.flatnonzero(steep), lattice(parameter, exponential=span)),
        ):
            if len(rows) == 0:
                continue
            terms, kept = possible, KEPT
            if self.expected is not None:
                terms, kept = believing(possible, self.expected), ALL
            part = replace(
                series,
                values=series.values[rows],
                counts=series.counts[rows],
                deviations=series.deviations[rows],
            )
            metrics = [names[row] for row in rows]
            batch = Batch(part, metrics, parameter, terms, kept_hypotheses=kept)
            found |= {int(rows[i]): one for i, one in batch.find(self._work).items()}
        return [found[row] for row in range(len(series.values))]


def grows_steeply(series: Series) -> BoolArray:
    """Which series of one parameter grow faster than the powers of the lattice can: (s,).

    Told by the power that joins the first and the last of the last quarter of the points measured,
    and by what noise rarely does: both of the last two steps are steep too, and together they rise
    several times as far as the series ever falls between neighbours.
    """
    known = np.isfinite(series.values)
    numbers = known.sum(axis=1)
    rows = np.arange(len(known))
    order = np.argsort(~known, axis=1, kind="stable")  # measured points first, ascending
    if known.shape[1] < MIN_STEEP:
        return np.zeros(len(known), dtype=bool)
    first = np.maximum(numbers - 1 - np.maximum(numbers // 4, 1), 0)
    last = np.maximum(numbers - 1, 0)
    x = np.take_along_axis(np.broadcast_to(series.coordinates[:, 0], known.shape), order, 1)
    y = np.take_along_axis(np.abs(np.nan_to_num(series.values)), order, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes, powers = np.log(y), np.log(x)
        steps = np.diff(sizes, axis=1)
        slopes = steps / np.diff(powers, axis=1)
        times = sizes[rows, last] - sizes[rows, first]
        power = times / (powers[rows, last] - powers[rows, first])
        lasting = np.minimum(*(slopes[rows, np.maximum(last - k, 0)] for k in (1, 2)))
        rise = sizes[rows, last] - sizes[rows, np.maximum(last - 2, 0)]
    within = np.arange(steps.shape[1]) < (numbers - 1)[:, None]
    fall = np.where(within & np.isfinite(steps), -steps, 0.0).max(axis=1, initial=0.0)
    enough = (numbers >= MIN_STEEP) & (times > np.log(STEEP_GAIN))
    return np.asarray(enough & (power > HIGHEST) & (lasting > LASTING) & (rise > FALLS * fall))


def _models(
    found: list[Found], series: Series, parameters: tuple[str, ...], name: str
) -> list[Model]:
    x = series.coordinates
    fitted = _fitted(found, x)
    columns = np.array(
        [
            sum(answer.columns for answer in one.answers) if one.cuts else one.answers[0].columns
            for one in found
        ]
    )
    measures = qualities(series.values, fitted, columns)
    full = np.isfinite(series.values.sum(axis=1))
    models = []
    for i, one in enumerate(found):
        points, values = x, series.values[i]
        if not full[i]:
            measured = ~np.isnan(values)
            points, values = points[measured], values[measured]
        last = one.answers[-1]
        models.append(
            Model(
                parameters=parameters,
                segments=_segments(one, x),
                quality=measures[i],
                modeler=name,
                coordinates=points,
                values=values,
                change_points=_change_points(one, x) if one.cuts else (),
                spreads=tuple([answer.spread for answer in one.answers if answer.spread]),
                probability=last.probability,
                change_probabilities=(one.probability * one.place,) * len(one.cuts),
                findings=few_points(len(values)) or _uncertain(last.probability),
            )
        )
    return models


def _fitted(found: list[Found], x: FloatArray) -> FloatArray:
    """The functions of all series at all points; each shared term is evaluated once."""
    parameters = found[0].answers[0].function.parameters if found else ()
    fitted = np.empty((len(found), len(x)))
    known: dict[int, int] = {}
    rows: list[FloatArray] = []

    def place(term: Term) -> int:
        at = known.get(id(term.factors))
        if at is None:
            at = known[id(term.factors)] = len(rows)
            rows.append(Function(parameters, 0.0, (Term(1.0, term.factors),))(x))
        return at

    whole = [(i, one.answers[0].function) for i, one in enumerate(found) if not one.cuts]
    fitted[[i for i, _ in whole]] = np.array([f.constant for _, f in whole])[:, None]
    for k in range(max((len(f.terms) for _, f in whole), default=0)):
        more = [(i, f.terms[k]) for i, f in whole if len(f.terms) > k]
        places = [place(term) for _, term in more]
        coefficients = np.array([term.coefficient for _, term in more])
        fitted[[i for i, _ in more]] += coefficients[:, None] * np.array(rows)[places]
    for i, one in enumerate(found):
        if not one.cuts:
            continue
        for (start, end), answer in zip(bounds(one.cuts, len(x)), one.answers, strict=True):
            part = fitted[i, start:end]
            part[:] = answer.function.constant
            for term in answer.function.terms:
                part += term.coefficient * rows[place(term)][start:end]
    return fitted


def _change_points(found: Found, x: FloatArray) -> tuple[ChangePoint, ...]:
    return tuple(ChangePoint(float(x[k - 1, 0]), float(x[k, 0])) for k in found.cuts)


def _segments(found: Found, x: FloatArray) -> tuple[Segment, ...]:
    lower, upper = -np.inf, np.inf
    if not found.cuts:
        return (Segment(lower, upper, found.answers[0].function),)
    return tuple(
        Segment(
            lower if start == 0 else float(x[start, 0]),
            upper if end == len(x) else float(x[end - 1, 0]),
            answer.function,
        )
        for (start, end), answer in zip(bounds(found.cuts, len(x)), found.answers, strict=True)
    )


def _uncertain(probability: float) -> tuple[Finding, ...]:
    if not probability < TOLD:
        return ()
    text = (
        f"the leading term is right with a probability of {probability:.0%} only; "
        "measure a larger scale, or repeat measurements"
    )
    return (Finding(UNCERTAIN, text),)
