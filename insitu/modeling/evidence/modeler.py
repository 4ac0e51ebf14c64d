"""Modeler "evidence": the posterior over hypotheses, and what it says about the growth of a series.

Every function of the hypothesis space (constant, one term, two terms) has a prior that prefers
simple exponents. Its evidence is the probability of the data under it, with coefficients and noise
integrated out. The noise is shared by the series of a pool. Errors are relative. Coefficients are
not negative, so no model predicts a negative time, and falling exponents describe strong scaling.
Compare [REF §3], which takes the best fit of one hypothesis and two thresholds instead. Where
segments explain a series better than one function does, it is cut [SEG].
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from insitu.entities import Finding, number
from insitu.modeling.adjustments import divide_evenly
from insitu.modeling.base import ChangePoint, Model, Segment
from insitu.modeling.doubt import (
    report_few_values,
    report_grid_change,
    report_one_value,
    report_unconfirmed_change,
    report_unlike_smaller,
)
from insitu.modeling.evidence.alternation import find_alternation
from insitu.modeling.evidence.answer import N_COMPETING, TARGET_FACTOR, Answer
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.change_points import segment_spans
from insitu.modeling.evidence.duplicates import find_distinct_series
from insitu.modeling.evidence.expected_growth import (
    ALL_HYPOTHESES,
    ExpectedGrowth,
    apply_expectation,
)
from insitu.modeling.evidence.grid_changes import leave_out_before
from insitu.modeling.evidence.hypothesis_space import (
    MAX_EXPONENT,
    MAX_PLAIN_POINTS,
    MIN_STEEP_POINTS,
    build_hypothesis_space,
    build_plain_space,
)
from insitu.modeling.evidence.learn import Map
from insitu.modeling.evidence.multi_parameter import (
    Dependencies,
    solve_multi_parameter,
    solve_with_changes,
)
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.odd_zeros import (
    choose_with_first_zero,
    find_first_zeros,
    find_odd_zeros,
    leave_out,
    report_odd_zero,
)
from insitu.modeling.evidence.quotient import solve_with_quotients
from insitu.modeling.evidence.solve import solve_batch
from insitu.modeling.grid_shape import grid_elongation
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.parallel import map_tasks
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.quality import qualities
from insitu.modeling.search import report_few_points, report_short_segments
from insitu.modeling.series import Series

UNCERTAIN_BELOW = 0.5  # posterior of the leading term
MIN_DISAGREEMENT = 2.0  # factor between functions; from 1.5, P7 had 4 times as many without need
GROWTH_UNCERTAIN = "growth-uncertain"
DIVIDED_UNEVENLY = "divided-unevenly"
GRID_SHAPE = "grid-shape"

# When a series grows steeply; the last two conditions make noise an unlikely cause. Without them
# 15 and 9 of 300 constant series with log-normal noise of 0.8 became exponentials, with them 0.
MIN_STEEP_GAIN = 1.5  # factor of growth over the last quarter of the points
MIN_LAST_POWER = 2.0  # each of the last two steps must grow faster than this power of x
MIN_FAST_POINTS = 3  # that have two steps
MIN_RISE_OVER_FALL = 3.0  # together they must rise this many times as far as the series ever falls


@dataclass(frozen=True, slots=True)
class Evidence:
    """The default modeler.

    exponential: consider 2^(γ·x), x^α · 2^(γ·x) and powers up to 8 for every series of one
    parameter; otherwise only for series that grow faster than x⁴. dependencies: which parameters
    may occur together in a term of a call path, where that is known. expected: growth of one
    parameter that is assumed before any data; the spreads of the models then have all competing
    functions. executor: computes chunks of series; the models are the same without it.
    """

    exponential: bool = False
    dependencies: Dependencies = field(default_factory=dict)
    expected: ExpectedGrowth | None = None
    executor: Executor | None = None
    name: ClassVar[str] = "evidence"
    min_points: ClassVar[int] = 5
    shares_noise: ClassVar[bool] = True

    def fit(self, series: Series) -> list[Model]:
        """Return one model per series; see Modeler. The series share what is learnt about noise."""
        map_: Map = partial(map_tasks, self.executor)
        if len(series.parameters) > 1:
            answers = solve_with_changes(
                series,
                self.dependencies,
                lambda some: solve_with_quotients(
                    some, lambda part: solve_multi_parameter(part, self.dependencies, map_)
                ),
            )
            changes = [answer.grid_changes for answer in answers]
            return _make_models(answers, leave_out_before(series, changes), self.name)

        is_zero = find_first_zeros(series)
        rows = np.flatnonzero(is_zero.any(axis=1))
        if len(rows) == 0:
            return self._fit_one_parameter(series, map_)

        models = self._fit_one_parameter(leave_out(series, is_zero), map_)
        of_all = self._fit_one_parameter(series.select(rows), map_)
        for row, whole in zip(rows.tolist(), of_all, strict=True):
            models[row] = choose_with_first_zero(whole, models[row], series.parameters[0])
        return models

    def _fit_one_parameter(self, series: Series, map_: Map) -> list[Model]:
        """Fit series of one parameter, without values that are zeros by a failed measurement."""
        is_odd = find_odd_zeros(series)
        if is_odd.any():
            models = self._fit_one_parameter(leave_out(series, is_odd), map_)
            return [
                report_odd_zero(model, series.coordinates[odd, 0], series.parameters[0])
                for model, odd in zip(models, is_odd, strict=True)
            ]

        metrics = [key.metric for key in series.keys] or [""] * len(series.values)
        answers = self._solve_one_parameter(series, metrics, map_)
        distinct = find_distinct_series(series, metrics)
        of_first = [answers[row] for row in distinct.first.tolist()]
        models = _make_models(of_first, series.select(distinct.first), self.name)
        return [models[group] for group in distinct.group.tolist()]

    def _solve_one_parameter(
        self, series: Series, metrics: Sequence[str], map_: Map
    ) -> list[Answer]:
        """Solve the series in up to four batches, each with a hypothesis space of its own."""
        parameter, x = series.parameters[0], series.coordinates[:, 0]
        span = (float(np.ptp(x)) if len(x) else 0.0) or 1.0
        is_steep = grows_steeply(series) | self.exponential
        is_short = np.isfinite(series.values).sum(axis=1) <= MAX_PLAIN_POINTS
        is_short &= ~is_steep & (self.expected is None)
        is_fast = is_short & grows_fast(series) if is_short.any() else is_short

        answers: dict[int, Answer] = {}
        for is_member, general_space in (
            (~is_steep & ~is_short, build_hypothesis_space(parameter)),
            (is_short & ~is_fast, build_plain_space(parameter)),
            (is_fast, build_plain_space(parameter, max_exponent=MAX_EXPONENT)),
            (is_steep, build_hypothesis_space(parameter, exponential=span)),
        ):
            rows = np.flatnonzero(is_member)
            if len(rows) == 0:
                continue

            space, n_hypotheses = general_space, N_COMPETING
            if self.expected is not None:
                space = apply_expectation(general_space, self.expected)
                n_hypotheses = ALL_HYPOTHESES
            build = partial(
                Batch,
                metrics=[metrics[row] for row in rows.tolist()],
                space=space,
                n_hypotheses=n_hypotheses,
                is_tested=self.expected is None,
            )
            for i, answer in _solve(series.select(rows), build, map_).items():
                answers[int(rows[i])] = answer

        return [answers[row] for row in range(len(series.values))]


def _solve(series: Series, build: Callable[[Series], Batch], map_: Map) -> dict[int, Answer]:
    """Solve series, those that alternate without what they alternate by."""
    batch = build(series)
    is_examined = batch.is_tested and not batch.is_exponential
    alternation = find_alternation(batch) if is_examined else None
    if alternation is None:
        return solve_batch(batch, map_)
    answers = solve_batch(build(alternation.remove_from(series)), map_)
    return answers | alternation.add_to(answers)


def grows_fast(series: Series) -> BoolArray:
    """Return which series of one parameter grow faster than x² in both of their last steps: (s,).

    Where only the last step is so steep, the newest value alone supports a power above that.
    """
    if len(series.coordinates) < MIN_FAST_POINTS:
        return np.zeros(len(series.values), dtype=bool)
    log_y, log_x, counts = _measured_first(series)
    rows, last = np.arange(len(counts)), np.maximum(counts - 1, 2)

    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.diff(log_y, axis=1) / np.diff(log_x, axis=1)
        slowest = np.minimum(slopes[rows, last - 1], slopes[rows, last - 2])
    return np.asarray((counts >= MIN_FAST_POINTS) & (slowest > MIN_LAST_POWER))


def grows_steeply(series: Series) -> BoolArray:
    """Return which series of one parameter grow faster than the powers of x considered: (s,).

    The power between the first and the last of the last quarter of the points decides. Each of the
    last two steps must be steep as well, and together they must rise several times as far as the
    series ever falls between neighbours, which noise rarely does.
    """
    if len(series.coordinates) < MIN_STEEP_POINTS:
        return np.zeros(len(series.values), dtype=bool)
    log_y, log_x, counts = _measured_first(series)
    rows = np.arange(len(counts))
    first = np.maximum(counts - 1 - np.maximum(counts // 4, 1), 0)  # of the last quarter
    last = np.maximum(counts - 1, 0)

    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.diff(log_y, axis=1)
        slopes = steps / np.diff(log_x, axis=1)
        log_gain = log_y[rows, last] - log_y[rows, first]
        power = log_gain / (log_x[rows, last] - log_x[rows, first])
        last_slope = slopes[rows, np.maximum(last - 1, 0)]
        slope_before = slopes[rows, np.maximum(last - 2, 0)]
        rise = log_y[rows, last] - log_y[rows, np.maximum(last - 2, 0)]

    is_step = np.arange(steps.shape[1]) < (counts - 1)[:, None]
    fall = np.where(is_step & np.isfinite(steps), -steps, 0.0).max(axis=1, initial=0.0)

    has_grown = (counts >= MIN_STEEP_POINTS) & (log_gain > np.log(MIN_STEEP_GAIN))
    is_lasting = np.minimum(last_slope, slope_before) > MIN_LAST_POWER
    is_visible = rise > MIN_RISE_OVER_FALL * fall
    return np.asarray(has_grown & (power > MAX_EXPONENT) & is_lasting & is_visible)


def _measured_first(series: Series) -> tuple[FloatArray, FloatArray, IntArray]:
    """Logarithms of values and coordinates, measured points first: (s, n); their number: (s,)."""
    is_measured = np.isfinite(series.values)
    order = np.argsort(~is_measured, axis=1, kind="stable")
    x = np.broadcast_to(series.coordinates[:, 0], is_measured.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_y = np.log(np.abs(np.nan_to_num(series.values)))
        log_x = np.log(x)
    ordered = [np.take_along_axis(logs, order, 1) for logs in (log_y, log_x)]
    return ordered[0], ordered[1], is_measured.sum(axis=1)


def _make_models(answers: Sequence[Answer], series: Series, modeler: str) -> list[Model]:
    coordinates = series.coordinates
    fitted = _evaluate(answers, series)
    _add_alternation(fitted, answers, coordinates)
    _add_quotients(fitted, answers, coordinates)
    columns = np.array([answer.columns for answer in answers])
    measures = qualities(series.values, fitted, columns)
    is_complete = np.isfinite(series.values.sum(axis=1))

    models = []
    for i, answer in enumerate(answers):
        points, values = coordinates, series.values[i]
        if not is_complete[i]:
            is_measured = ~np.isnan(values)
            points, values = points[is_measured], values[is_measured]

        models.append(
            Model(
                parameters=series.parameters,
                segments=_segments(answer, coordinates),
                quality=measures[i],
                modeler=modeler,
                coordinates=points,
                values=values,
                change_points=_change_points(answer, coordinates) if answer.cuts else (),
                spreads=tuple([spread for spread in answer.spreads if spread]),
                probability=answer.probability,
                change_probabilities=(answer.change_probability,) * len(answer.cuts),
                findings=_report(answer, points, series),
                back_tests=answer.back_tests,
            )
        )
    return models


def _add_alternation(
    fitted: FloatArray, answers: Sequence[Answer], coordinates: FloatArray
) -> None:
    """Multiply the functions (s, n) of series that alternate by their factors."""
    rows = [i for i, answer in enumerate(answers) if answer.alternation != 1]
    if rows:
        factors = np.array([answers[i].alternation for i in rows])
        fitted[rows] *= factors[:, None] ** grid_elongation(coordinates[:, 0])


def _add_quotients(fitted: FloatArray, answers: Sequence[Answer], coordinates: FloatArray) -> None:
    """Replace the functions (s, n) of series whose work is a parameter by those with steps."""
    for i, answer in enumerate(answers):
        if answer.quotient is not None:
            fitted[i] = answer.functions[0](divide_evenly(coordinates, answer.quotient))


def _evaluate(answers: Sequence[Answer], series: Series) -> FloatArray:
    """The functions of all series at all points (s, n); each shared term is evaluated once."""
    coordinates, parameters = series.coordinates, series.parameters
    fitted = np.empty((len(answers), len(coordinates)))
    rows: list[FloatArray] = []  # value of each term at all points
    row_of = _term_rows(coordinates, parameters, rows)

    # Series of one function: all constants at once, then all first terms, all second terms …
    uncut = [(i, answer.functions[0]) for i, answer in enumerate(answers) if not answer.cuts]
    constants = np.array([function.constant for _, function in uncut])
    fitted[[i for i, _ in uncut]] = constants[:, None]
    for k in range(max((len(function.terms) for _, function in uncut), default=0)):
        with_term = [(i, function.terms[k]) for i, function in uncut if len(function.terms) > k]
        indices = [row_of(term) for _, term in with_term]
        coefficients = np.array([term.coefficient for _, term in with_term])
        fitted[[i for i, _ in with_term]] += coefficients[:, None] * np.array(rows)[indices]

    # Series of several segments.
    for i, answer in enumerate(answers):
        if not answer.cuts:
            continue
        spans = segment_spans(answer.cuts, len(coordinates))
        for (start, end), function in zip(spans, answer.functions, strict=True):
            segment = fitted[i, start:end]
            segment[:] = function.constant
            for term in function.terms:
                segment += term.coefficient * rows[row_of(term)][start:end]

    return fitted


def _term_rows(
    coordinates: FloatArray, parameters: tuple[str, ...], rows: list[FloatArray]
) -> Callable[[Term], int]:
    """A function that returns the index of a term in `rows`, and adds the term if it is new.

    Answers share the factors of a hypothesis space, so their identity suffices as a key.
    """
    index_of: dict[int, int] = {}

    def row_of(term: Term) -> int:
        index = index_of.get(id(term.factors))
        if index is None:
            index = index_of[id(term.factors)] = len(rows)
            rows.append(Function(parameters, 0.0, (Term(1.0, term.factors),))(coordinates))
        return index

    return row_of


def _change_points(answer: Answer, coordinates: FloatArray) -> tuple[ChangePoint, ...]:
    x = coordinates[:, 0]
    return tuple(ChangePoint(float(x[cut - 1]), float(x[cut])) for cut in answer.cuts)


def _segments(answer: Answer, coordinates: FloatArray) -> tuple[Segment, ...]:
    if not answer.cuts:
        return (Segment(-np.inf, np.inf, answer.functions[0]),)

    n_points = len(coordinates)
    segments = []
    spans = segment_spans(answer.cuts, n_points)
    for (start, end), function in zip(spans, answer.functions, strict=True):
        lower = -np.inf if start == 0 else float(coordinates[start, 0])
        upper = np.inf if end == n_points else float(coordinates[end - 1, 0])
        segments.append(Segment(lower, upper, function))
    return tuple(segments)


def _report(answer: Answer, points: FloatArray, series: Series) -> tuple[Finding, ...]:
    """The findings about an answer on points (k, m), some of the coordinates (n, m) of series."""
    parameters, n_points = series.parameters, len(series.coordinates)
    changes = [
        report_grid_change(parameters[change.column], change.behind, len(points), n_points)
        for change in answer.grid_changes
    ]
    return (*changes, *_report_law(answer, points, series))


def _report_law(answer: Answer, points: FloatArray, series: Series) -> tuple[Finding, ...]:
    """The findings about the law of the points."""
    parameters, coordinates, is_exact = series.parameters, series.coordinates, series.is_exact
    few_points = report_few_points(len(points))
    few_values: tuple[Finding, ...] = ()
    if points.shape[1] > 1:
        few_values = report_few_values(parameters, points, answer.functions)
    if few_points or few_values:
        return (*few_points, *few_values)
    if points.shape[1] > 1 and np.isfinite(answer.newest_factor):
        factor = answer.newest_factor
        return (report_unlike_smaller(points, factor, parameters, is_exact=is_exact),)
    if answer.quotient is not None:
        work, processes = (parameters[i] for i in answer.quotient)
        text = (
            f"the values follow ceil({work} / {processes}): they fall in steps; the formula "
            f"describes the smooth law, of {work} / ceil({work} / {processes}) in place of "
            f"{processes}"
        )
        return (Finding(DIVIDED_UNEVENLY, text), *_report_uncertain(answer, points))
    parameter = parameters[0]
    if answer.follows_one_law():
        return _report_uncertain(answer, points)
    if np.isfinite(answer.newest_factor):
        factor = answer.newest_factor
        return (report_unconfirmed_change(points[:, 0], factor, parameter, is_exact=is_exact),)
    off = _report_off(answer, points[:, 0], parameter)
    changes = _change_points(answer, coordinates) if answer.cuts else ()
    short = report_short_segments(points[:, 0], changes, parameter) if changes else ()
    sole = _report_sole(answer, points[:, 0], parameter, is_exact=is_exact)
    shape = (*_report_division(answer, parameter), *_report_alternation(answer, parameter))
    return (*off, *short, *shape, *(sole or _report_uncertain(answer, points)))


def _report_off(answer: Answer, x: FloatArray, parameter: str) -> tuple[Finding, ...]:
    """Report that an earlier point leaves the law of the others."""
    if answer.off_point < 0:
        return ()
    code = "point-off" if answer.off_point else "first-point-off"
    others = "other" if answer.off_point else "larger"
    text = (
        f"the value at {parameter}={number(x[answer.off_point])} is {answer.off_factor:.2g} times "
        f"what the {others} runs predict; the model is that of the {others} runs"
    )
    return (Finding(code, text),)


def _report_division(answer: Answer, parameter: str) -> tuple[Finding, ...]:
    """Report that work is divided unevenly."""
    if answer.work is None:
        return ()
    low, high = map(number, answer.work)
    work = low if low == high else f"{low} to {high}"
    text = (
        f"the values follow ceil(N / {parameter}) with N = {work}: they fall in steps, and no "
        f"longer beyond {parameter}={high}; the formula describes the smooth law"
    )
    return (Finding(DIVIDED_UNEVENLY, text),)


def _report_alternation(answer: Answer, parameter: str) -> tuple[Finding, ...]:
    """Report that values alternate between square and other grids."""
    if answer.alternation == 1:
        return ()
    text = (
        f"where {parameter} is twice a square, as 8 and 32, values are {answer.alternation:.3g} "
        "times those of the law, which describes squares, as 16 and 64"
    )
    return (Finding(GRID_SHAPE, text),)


def _report_sole(
    answer: Answer, x: FloatArray, parameter: str, *, is_exact: bool
) -> tuple[Finding, ...]:
    """Report that the leading term rests on one value."""
    if answer.sole_point < 0:
        return ()
    point, probability = answer.sole_point, answer.probability
    return (report_one_value(x, point, probability, parameter, is_exact=is_exact),)


def _report_uncertain(answer: Answer, points: FloatArray) -> tuple[Finding, ...]:
    """Report that the leading term is uncertain, where the functions that compete differ."""
    if not answer.probability < UNCERTAIN_BELOW:  # NaN is not a finding
        return ()
    target = TARGET_FACTOR * points.max(axis=0)
    spread = answer.spreads[-1]
    factor = float(spread.disagreement(target[None])[0]) if spread else np.inf
    if factor < MIN_DISAGREEMENT:
        return ()
    text = (
        f"the leading term has a probability of only {answer.probability:.0%}; "
        "measure a larger scale or repeat measurements"
    )
    return (Finding(GROWTH_UNCERTAIN, text),)
