"""Judges a campaign: one result per expectation and series."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from insitu.entities import CallPath, number
from insitu.errors import UsageError
from insitu.expectations.accepted_values import are_as_accepted, find_no_evidence
from insitu.expectations.ceilings import Ceiling, compare_with_ceiling, target_point
from insitu.expectations.confirmation import find_disturbing_point
from insitu.expectations.entries import Entry
from insitu.expectations.growth import CONSTANT
from insitu.expectations.guidelines import Compliance, Guideline, check_guideline
from insitu.expectations.limits import Expectation
from insitu.expectations.litmus import apply_litmus_tests
from insitu.expectations.lookup import SeriesLookup, describe_line, describe_missing
from insitu.expectations.observations import collect_values, divide_by_reference
from insitu.expectations.result import Result, Status
from insitu.expectations.settle import find_settling_point_for_limit
from insitu.expectations.uniformity import ClassExpectation, check_classes
from insitu.expectations.validate import SURE, Match, Verdict, check_parameters, validate
from insitu.modeling.base import ALL, Model, ModelSet, SeriesModel
from insitu.modeling.horizon import unclear_at, unclear_without_evidence
from insitu.modeling.joint_parameters import find_joint_change
from insitu.modeling.measurement import Experiment, SeriesKey
from insitu.modeling.target import default_target, points_along
from insitu.units import percent, quantity

LEAST_CONSTANT = 0.1  # of the value at the largest scale, below which it decides nothing
BEYOND = 1e6  # times the largest scale: what is left there of a law that falls is its constant


def assess(
    entries: Sequence[Entry],
    experiment: Experiment,
    models: ModelSet,
) -> list[Result]:
    """Judge every entry, in their order, and apply litmus tests to the results.

    Args:
        entries: the expectations.
        experiment, models: of the campaign.

    Raises:
        UsageError: an entry names something that has no model; the message lists what has.
    """
    lookup = SeriesLookup(models)
    return apply_litmus_tests(_judge(entries, experiment, lookup))


def _judge(entries: Sequence[Entry], experiment: Experiment, lookup: SeriesLookup) -> list[Result]:
    """Judge every entry, in their order."""
    growth_entries = [entry for entry in entries if isinstance(entry.subject, Expectation)]
    growth_results = _judge_growth(growth_entries, experiment, lookup)
    if growth_entries:
        lookup = SeriesLookup(_with_expected_growth(lookup.models, growth_results))

    results: list[Result] = []
    for entry in entries:
        if isinstance(entry.subject, Expectation):
            results += growth_results[id(entry)]
        elif isinstance(entry.subject, Ceiling):
            for series in lookup.find(entry):
                if series.crowding:
                    results.append(_unjudged(entry, "limit", entry.subject.text, series))
                else:
                    results.append(_judge_ceiling(entry, entry.subject, series, lookup))
        elif isinstance(entry.subject, Guideline):
            results.append(_judge_guideline(entry, entry.subject, lookup))
        else:
            results += _judge_classes(entry, entry.subject, lookup)

    return results


def find_judgeable(
    entries: Sequence[Entry], experiment: Experiment, models: ModelSet
) -> tuple[list[Entry], list[str]]:
    """The entries that can be judged, and why each of the others cannot."""
    lookup = SeriesLookup(models)
    judgeable: list[Entry] = []
    reasons: list[str] = []
    for entry in entries:
        try:
            if isinstance(entry.subject, Expectation):
                check_parameters(entry.subject, models.parameters)
                lookup.find(entry)
                if entry.reference:
                    lookup.find_reference(entry)
            else:
                _judge([entry], experiment, lookup)
        except UsageError as error:
            line, text = describe_line(entry), str(error)
            reasons.append(text if text.startswith(line) else line + text)
        else:
            judgeable.append(entry)
    return judgeable, reasons


def growth_result(
    entry: Entry, series: SeriesModel, verdict: Verdict, *, disturbing_point: str = ""
) -> Result:
    """Return a verdict on growth as a line of a report.

    Args:
        entry: the expectation.
        series: that it is about.
        verdict: of its measurements.
        disturbing_point: without which the measurements are as expected, "" if there is none.
    """
    key, status = series.key, _growth_status(verdict)
    doubt = find_no_evidence(entry.accepted, series.model, series.metric, noise=verdict.noise)
    if not doubt and not series.metric.is_deterministic:
        doubt = _describe_small_constant(verdict)
    if not doubt and disturbing_point:
        doubt = f"only the measurement at {disturbing_point} shows it"
    probability = max(verdict.violation, 1 - verdict.violation)
    is_overruled = status is Status.VIOLATED and doubt != ""
    is_equal = status is Status.UNSETTLED and are_as_accepted(entry.accepted, series.model)
    if is_overruled:
        status = Status.UNSETTLED
    elif is_equal:
        status, probability = Status.MET, 1.0

    relative = f" relative to {entry.reference}" if entry.reference else ""
    text = f"grows{relative} as {verdict.growth}, expected {verdict.expectation}"
    advice = str(verdict.settling_point) if verdict.settling_point else ""
    if is_equal:
        text += ": all values are equal to the accepted ones"
        advice = ""
    elif status is Status.VIOLATED:
        text += f": with {percent(probability)} probability outside {_limits(verdict)}"
    elif verdict.doubt:
        text += f": unclear, {verdict.doubt}"
        advice = advice or "measure a larger scale"
    elif verdict.is_drowned:
        text += f": undecided, measurements scatter by {percent(verdict.noise)} or more"
        advice = "repeat them on a quiet machine"
    elif is_overruled:
        text += f": undecided, {doubt}"
        advice = "repeat the runs, or measure a larger scale"
    elif status is Status.UNSETTLED:
        text += f": undecided, outside with a probability of {percent(verdict.violation)}"

    is_known = is_equal or not (verdict.is_drowned or verdict.doubt or is_overruled)
    return Result(
        entry=entry,
        kind="growth",
        subject=str(key.callpath),
        metric=key.metric,
        behaviour=key.behaviour,
        expected=str(verdict.expectation),
        found=str(verdict.growth),
        status=status,
        text=text,
        probability=probability if is_known else float("nan"),
        divergence=verdict.divergence,
        adjusted_r2=verdict.adjusted_r2,
        advice=advice,
        settling_point=None if is_equal else verdict.settling_point,
        verdict=verdict,
    )


def _with_expected_growth(models: ModelSet, results_by_entry: dict[int, list[Result]]) -> ModelSet:
    """Replace models by those fitted under an expectation of growth; limits and rules use them."""
    fitted: dict[SeriesKey, Model] = {}
    for results in results_by_entry.values():
        for result in results:
            if result.verdict is not None and not result.entry.reference:
                path = CallPath.parse(result.subject)
                fitted[SeriesKey(path, result.metric, result.behaviour)] = result.verdict.model

    updated = []
    for series in models.models:
        model = fitted.get(series.key, series.model)
        model = replace(model, depends_on=series.model.depends_on)
        updated.append(replace(series, model=model))
    return replace(models, models=updated)


def _judge_growth(
    entries: Sequence[Entry], experiment: Experiment, lookup: SeriesLookup
) -> dict[int, list[Result]]:
    """Judge all growth of a metric at once, so that its series share the estimate of their noise.

    Quotients with the same reference are judged together for the same reason.

    Returns:
        The results by id() of the entry.
    """
    pairs_by_quantity: dict[tuple[str, str], list[tuple[Entry, SeriesModel]]] = {}
    results: dict[int, list[Result]] = {id(entry): [] for entry in entries}
    for entry in entries:
        for series in lookup.find(entry):
            if series.crowding:
                result = _unjudged(entry, "growth", str(entry.subject), series)
                results[id(entry)].append(result)
            else:
                quantity_key = (entry.metric, entry.reference)
                pairs_by_quantity.setdefault(quantity_key, []).append((entry, series))

    models = lookup.models
    for (_, reference), pairs in pairs_by_quantity.items():
        measured = collect_values(experiment, models, [series.key for _, series in pairs])
        if reference:
            paths = lookup.find_reference(pairs[0][0])
            measured = divide_by_reference(measured, experiment, models, paths)
        verdicts = validate(
            measured.coordinates,
            measured.values,
            [entry.subject for entry, _ in pairs if isinstance(entry.subject, Expectation)],
            parameters=models.parameters,
            keys=measured.keys,
        )
        for (entry, series), verdict, values in zip(pairs, verdicts, measured.values, strict=True):
            point = ""
            if verdict.is_violated and not series.metric.is_deterministic:
                point = find_disturbing_point(
                    measured.coordinates,
                    values,
                    verdict.expectation,
                    parameters=models.parameters,
                    noise=verdict.noise,
                )
            result = growth_result(entry, series, verdict, disturbing_point=point)
            results[id(entry)].append(result)

    return results


def _unjudged(entry: Entry, kind: str, expected: str, series: SeriesModel) -> Result:
    """The result for times of ranks that shared cores, which show who had to wait."""
    return Result(
        entry=entry,
        kind=kind,
        subject=str(series.key.callpath),
        metric=series.key.metric,
        behaviour=series.key.behaviour,
        expected=expected,
        found="not judged",
        status=Status.UNJUDGED,
        text=f"not judged: {series.crowding}",
        advice="measure with a core of its own for each rank, or check a count instead",
    )


def _describe_small_constant(verdict: Verdict) -> str:
    """That a value falls but for a small constant, which noise imitates; "" if it does not."""
    largest = verdict.model.coordinates.max(axis=0)
    now, then = verdict.model.predict([largest, BEYOND * largest])
    if verdict.growth != CONSTANT or not 0 < then < LEAST_CONSTANT * now:
        return ""
    return f"only {percent(then / now)} of the largest scale seem to be constant"


def _limits(verdict: Verdict) -> str:
    limits = verdict.expectation
    if limits.is_bound or str(limits.lower) == str(limits.upper):
        return f"{limits.upper}"
    return f"{limits.lower} to {limits.upper}"


def _growth_status(verdict: Verdict) -> Status:
    if verdict.is_violated:
        return Status.VIOLATED
    if not verdict.is_settled:
        return Status.UNSETTLED
    return Status.NEAR if verdict.match is Match.APPROXIMATE else Status.MET


def _status_from_violation(probability: float) -> Status:
    """Return the status from the probability of a violation; UNSETTLED for NaN."""
    if probability >= SURE:
        return Status.VIOLATED
    return Status.MET if probability <= 1 - SURE else Status.UNSETTLED


def _judge_ceiling(
    entry: Entry, ceiling: Ceiling, series: SeriesModel, lookup: SeriesLookup
) -> Result:
    unit, model = series.metric.unit, series.model
    if ceiling.unit not in ("1", unit):
        raise UsageError(
            f"{describe_line(entry)}limit '{ceiling.text}': "
            f"{entry.metric} is in {unit}, not {ceiling.unit}"
        )

    comparison = compare_with_ceiling(ceiling, model)
    value = quantity(comparison.value, unit)
    low, high = (quantity(bound, unit) for bound in comparison.bounds)
    text = f"{value} ({low} to {high})" if ceiling.at else f"at most {value} was measured"

    status = _status_from_violation(comparison.probability)
    settling_point = None
    goal = (
        target_point(dict(ceiling.at), model.parameters, model.coordinates, text=ceiling.text)
        if ceiling.at
        else []
    )
    reason = unclear_without_evidence(model, goal) if goal else ""
    is_near = comparison.bounds[0] <= ceiling.most <= comparison.bounds[1]
    if reason:
        status = Status.UNSETTLED
        text = reason
    elif goal and is_near and (reason := unclear_at(model, goal, comparison.bounds)):
        status, text = Status.UNSETTLED, f"{reason}: {low} to {high}"
    elif status is Status.UNSETTLED:
        text += f": undecided, {_ceiling_doubt(comparison.probability, model)}"
    if status is Status.UNSETTLED:
        limit_per_rank = ceiling.most / ceiling.ranks
        settling_point = find_settling_point_for_limit(model, goal, limit_per_rank, sure=SURE)

    breaks = comparison.breaks
    if breaks is not None and not reason and find_joint_change(model, _at(model, breaks)) is None:
        start = number(float(np.ceil(breaks)))
        ranks = f" with {ceiling.ranks} ranks" if ceiling.ranks > 1 else ""
        text += f"; exceeds {quantity(ceiling.most, unit)} from {model.parameters[0]} = {start} on"
        text += ranks

    probability = max(comparison.probability, 1 - comparison.probability)
    return Result(
        entry=entry,
        kind="limit",
        subject=str(series.key.callpath),
        metric=series.key.metric,
        behaviour=series.key.behaviour,
        expected=ceiling.text,
        found="unclear" if reason else value,
        status=status,
        text=text,
        probability=probability if ceiling.at and not reason else float("nan"),
        adjusted_r2=model.adjusted_r2,
        advice=str(settling_point) if settling_point else "",
        settling_point=settling_point,
    )


def _at(model: Model, value: float) -> list[float]:
    """The coordinate at a value of the first parameter: see `compare_with_ceiling`."""
    largest = model.coordinates.max(axis=0)
    point: list[float] = points_along(largest, 0, np.array([value]), model.coordinates)[0].tolist()
    return point


def _ceiling_doubt(probability: float, model: Model) -> str:
    if np.isnan(probability):
        return f"the modeler {model.modeler} has no uncertainty here"
    return f"above the limit with a probability of {percent(probability)}"


def _judge_guideline(entry: Entry, guideline: Guideline, lookup: SeriesLookup) -> Result:
    def models_of(name: str) -> list[Model]:
        series = lookup.find(Entry(name, entry.metric, guideline, line=entry.line))
        paths = dict.fromkeys(found.key.callpath for found in series)
        return [_slowest(series, path) for path in paths]

    coordinates = []
    parameters = lookup.models.parameters
    for name in guideline.names:
        coordinates += [model.coordinates for model in models_of(name)]
    measured = np.concatenate(coordinates)
    largest = measured.max(axis=0).tolist()
    target = list(default_target(parameters, largest, {}, measured))
    if entry.at:
        target = target_point(dict(entry.at), parameters, measured, text=guideline.text)

    for name in guideline.names:
        compared = Entry(name, entry.metric, guideline, line=entry.line)
        for series in lookup.find(compared):
            if series.crowding:
                result = _unjudged(entry, "rule", guideline.text, series)
                return replace(result, subject=guideline.text, behaviour=ALL)

    compliance = check_guideline(guideline, models_of, largest=largest, at=target)
    if compliance.begins is not None:
        crossing = [compliance.begins, *largest[1:]]
        models = [model for name in guideline.names for model in models_of(name)]
        if any(find_joint_change(model, crossing) is not None for model in models):
            compliance = replace(compliance, begins=None)
    worst = max(compliance.now, compliance.later)
    text = _compliance_text(compliance, parameters[0], largest[0])
    reason = ""
    if compliance.now < SURE:
        reason = _reason_of_doubt(guideline.names, models_of, compliance.at)
    return Result(
        entry=entry,
        kind="rule",
        subject=guideline.text,
        metric=entry.metric,
        behaviour=ALL,
        expected=guideline.text,
        found="violated now" if compliance.now >= SURE else "",
        status=Status.UNSETTLED if reason else _status_from_violation(worst),
        text=reason or text,
        probability=float("nan") if reason else max(worst, 1 - worst),
    )


def _reason_of_doubt(
    names: Sequence[str], models_of: Callable[[str], list[Model]], at: Sequence[float]
) -> str:
    """Why a model of a rule is no evidence at a target, "" if all are."""
    for name in names:
        for model in models_of(name):
            reason = unclear_without_evidence(model, at)
            if reason:
                return f"{name}: {reason}"
    return ""


def _compliance_text(compliance: Compliance, name: str, largest: float) -> str:
    """Say where a rule is violated, along the first parameter, and how probable that is."""
    now, target = f"{name} = {number(largest)}", f"{name} = {number(compliance.at[0])}"
    if compliance.now >= SURE:
        return f"violated at {now} already, with a probability of {percent(compliance.now)}"

    text = f"violated at {target} with a probability of {percent(compliance.later)}"
    if compliance.later <= 1 - SURE:
        text = f"holds at {target}, violated with a probability of {percent(compliance.later)}"
    elif compliance.later >= SURE:
        text = f"holds at the measured points, {text}"
    if compliance.begins is not None:
        text += f"; the models cross at {name} = {compliance.begins:.3g}"
    return text


def _slowest(series: Sequence[SeriesModel], path: CallPath) -> Model:
    """Return the model of the class with the largest value at its last point, or of all ranks."""
    of_path = [found for found in series if found.key.callpath == path]
    of_classes = [found for found in of_path if found.key.behaviour != ALL]
    return max(of_classes or of_path, key=lambda found: float(found.model.values[-1])).model


def _judge_classes(entry: Entry, rule: ClassExpectation, lookup: SeriesLookup) -> list[Result]:
    models = lookup.models
    results = []
    for path in dict.fromkeys(series.key.callpath for series in lookup.find(entry)):
        clusters = []
        for found in models.clusters:
            if found.callpath == path and found.metric == entry.metric:
                clusters.append(found)
        classes = []
        for series in models.models:
            if series.key.callpath == path and series.key.metric == entry.metric:
                classes.append(series)

        uniformity = check_classes(rule, clusters, classes)
        if uniformity is None:
            existing = {series.key.behaviour for series in classes}
            missing = [name for name in rule.names or () if name not in existing]
            raise UsageError(
                describe_missing(entry, f"class of {path}", ", ".join(missing), existing)
            )
        results.append(
            Result(
                entry=entry,
                kind="classes",
                subject=str(path),
                metric=entry.metric,
                behaviour=ALL,
                expected=rule.text,
                found="",
                status=Status.MET if uniformity.is_met else Status.VIOLATED,
                text=uniformity.text,
            )
        )

    return results
