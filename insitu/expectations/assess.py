"""A campaign against what is expected of it: one result per expectation and series."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from insitu.entities import CallPath, number
from insitu.errors import UsageError
from insitu.expectations.ceilings import Ceiling, compare_with_ceiling, target_point
from insitu.expectations.entries import Entry
from insitu.expectations.guidelines import Guideline, check_guideline
from insitu.expectations.limits import Expectation
from insitu.expectations.observed import collect_values
from insitu.expectations.settle import SettlingPoint, find_settling_point_for_limit
from insitu.expectations.uniformity import ClassExpectation, check_classes
from insitu.expectations.validate import SURE, Match, Verdict, validate
from insitu.modeling.base import Model, ModelSet, SeriesModel
from insitu.modeling.classes.match import ALL
from insitu.modeling.measurement import Experiment, SeriesKey
from insitu.units import percent, quantity

NEARBY = 6  # names in an error


class Status(StrEnum):
    """What became of an expectation."""

    MET = "met"
    NEAR = "near"  # approximate match [VAL §2.4]
    VIOLATED = "violated"
    UNSETTLED = "unsettled"  # cannot tell yet


@dataclass(frozen=True, slots=True)
class Result:
    """One line of a report.

    kind: growth, limit, rule or classes; expected, found: as people read them; probability: that
    the status is right, NaN where that is no question of probability or not known; divergence: δ of
    growth; adjusted_r2: NaN where not defined; text: a sentence; advice: what to do about a doubt;
    settling_point: the point that would settle it; verdict: of growth.
    """

    entry: Entry
    kind: str
    subject: str
    metric: str
    behaviour: str
    expected: str
    found: str
    status: Status
    text: str
    probability: float = float("nan")
    divergence: str = ""
    adjusted_r2: float = float("nan")
    advice: str = ""
    settling_point: SettlingPoint | None = None
    verdict: Verdict | None = None


def assess(entries: Sequence[Entry], experiment: Experiment, models: ModelSet) -> list[Result]:
    """Judge every entry, in their order.

    Raises:
        UsageError: an entry is about something that was not measured; it says what was.
    """
    growths = [one for one in entries if isinstance(one.subject, Expectation)]
    judged = _judge_growth(growths, experiment, models)
    models = _believed(models, judged)
    results: list[Result] = []
    for entry in entries:
        if isinstance(entry.subject, Expectation):
            results += judged[id(entry)]
        elif isinstance(entry.subject, Ceiling):
            results += [_ceiling(entry, entry.subject, one) for one in series_of(entry, models)]
        elif isinstance(entry.subject, Guideline):
            results.append(_guideline(entry, entry.subject, models))
        else:
            results += _classes(entry, entry.subject, models)
    return results


def _believed(models: ModelSet, judged: dict[int, list[Result]]) -> ModelSet:
    """Limits and rules take the models of series whose growth is expected with that expectation."""
    known = {
        SeriesKey(CallPath.parse(one.subject), one.metric, one.behaviour): one.verdict.model
        for results in judged.values()
        for one in results
        if one.verdict is not None
    }
    better = [
        replace(one, model=known[one.key]) if one.key in known else one for one in models.models
    ]
    return replace(models, models=better)


def series_of(entry: Entry, models: ModelSet) -> list[SeriesModel]:
    """The series that an entry is about.

    Raises:
        UsageError: there is none.
    """
    about = [one for one in models.models if entry.is_about(one.key.callpath)]
    chosen = [
        one
        for one in about
        if one.key.metric == entry.metric
        and (not entry.behaviour or one.key.behaviour == entry.behaviour)
    ]
    if chosen:
        return chosen
    if not about:
        raise UsageError(_missing(entry, "call path", entry.callpath, _functions(models)))
    if entry.behaviour and any(one.key.metric == entry.metric for one in about):
        known = {one.key.behaviour for one in about if one.key.metric == entry.metric}
        raise UsageError(_missing(entry, "class", entry.behaviour, known))
    known = {one.key.metric for one in about}
    raise UsageError(_missing(entry, f"metric of {entry.callpath} named", entry.metric, known))


def _missing(entry: Entry, kind: str, name: str, known: set[str]) -> str:
    shown = sorted(known)
    more = f" and {len(shown) - NEARBY} more" if len(shown) > NEARBY else ""
    listed = f"there are {', '.join(shown[:NEARBY])}{more}" if shown else "there is no model at all"
    return f"{_where(entry)}no {kind} '{name}' has a model; {listed}"


def _where(entry: Entry) -> str:
    return f"[[expect]] in line {entry.line}: " if entry.line else ""


def _functions(models: ModelSet) -> set[str]:
    return {one.key.callpath.name for one in models.models}


def _judge_growth(
    entries: Sequence[Entry], experiment: Experiment, models: ModelSet
) -> dict[int, list[Result]]:
    """All growth of a metric at once: its series share what is learnt about noise."""
    wanted: dict[str, list[tuple[Entry, SeriesModel]]] = {}
    for entry in entries:
        for one in series_of(entry, models):
            wanted.setdefault(entry.metric, []).append((entry, one))
    results: dict[int, list[Result]] = {id(entry): [] for entry in entries}
    for pairs in wanted.values():
        seen = collect_values(experiment, models, [one.key for _, one in pairs])
        verdicts = validate(
            seen.coordinates,
            seen.values,
            [entry.subject for entry, _ in pairs if isinstance(entry.subject, Expectation)],
            parameters=models.parameters,
            keys=seen.keys,
        )
        for (entry, one), verdict in zip(pairs, verdicts, strict=True):
            results[id(entry)].append(growth_result(entry, one.key, verdict))
    return results


def growth_result(entry: Entry, key: SeriesKey, verdict: Verdict) -> Result:
    """A verdict as a line of a report."""
    status = _status(verdict)
    probability = max(verdict.violation, 1 - verdict.violation)
    text = f"grows as {verdict.growth}, expected {verdict.expectation}"
    if status is Status.VIOLATED:
        text += f": {percent(probability)} sure that this is outside {_limits(verdict)}"
    elif verdict.is_drowned:
        text += f": cannot tell, measurements scatter by {percent(verdict.noise)} and more"
    elif status is Status.UNSETTLED:
        text += f": cannot tell yet, outside with a probability of {percent(verdict.violation)}"
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
        probability=float("nan") if verdict.is_drowned else probability,
        divergence=verdict.divergence,
        adjusted_r2=verdict.adjusted_r2,
        advice=_advice(verdict),
        settling_point=verdict.settling_point,
        verdict=verdict,
    )


def _advice(verdict: Verdict) -> str:
    if verdict.is_drowned:
        return "repeat them on a quiet machine"
    return str(verdict.settling_point) if verdict.settling_point else ""


def _limits(verdict: Verdict) -> str:
    limits = verdict.expectation
    return f"{limits.upper}" if limits.is_bound else f"{limits.lower} to {limits.upper}"


def _status(verdict: Verdict) -> Status:
    if verdict.is_violated:
        return Status.VIOLATED
    if not verdict.is_settled:
        return Status.UNSETTLED
    return Status.NEAR if verdict.match is Match.APPROXIMATE else Status.MET


def _decided(probability: float) -> Status:
    """From the probability of a violation."""
    if probability >= SURE:
        return Status.VIOLATED
    return Status.MET if probability <= 1 - SURE else Status.UNSETTLED


def _ceiling(entry: Entry, ceiling: Ceiling, one: SeriesModel) -> Result:
    unit = one.metric.unit
    if ceiling.unit not in ("1", unit):
        raise UsageError(
            f"{_where(entry)}limit '{ceiling.text}': "
            f"{entry.metric} is in {unit}, not {ceiling.unit}"
        )
    found = compare_with_ceiling(ceiling, one.model)
    low, high = (quantity(bound, unit) for bound in found.bounds)
    name = one.model.parameters[0]
    where = f" with {ceiling.ranks} ranks" if ceiling.ranks > 1 else ""
    breaks = ""
    if found.breaks is not None:
        at = number(float(np.ceil(found.breaks)))
        breaks = f"; exceeds {quantity(ceiling.most, unit)} from {name} = {at} on{where}"
    value = quantity(found.value, unit)
    told = f"{value} ({low} to {high})" if ceiling.at else f"at most {value} was measured"
    status, settling_point = _decided(found.probability), None
    if status is Status.UNSETTLED:
        told += ": cannot tell yet, " + (
            f"the modeler {one.model.modeler} knows no uncertainty here"
            if np.isnan(found.probability)
            else f"above the limit with a probability of {percent(found.probability)}"
        )
        goal = target_point(dict(ceiling.at), one.model.parameters, text=ceiling.text)
        settling_point = find_settling_point_for_limit(
            one.model, goal, ceiling.most / ceiling.ranks, sure=SURE
        )
    return Result(
        entry=entry,
        kind="limit",
        subject=str(one.key.callpath),
        metric=one.key.metric,
        behaviour=one.key.behaviour,
        expected=ceiling.text,
        found=value,
        status=status,
        text=told + breaks,
        probability=max(found.probability, 1 - found.probability) if ceiling.at else float("nan"),
        adjusted_r2=one.model.adjusted_r2,
        advice=str(settling_point) if settling_point else "",
        settling_point=settling_point,
    )


def models_first(model: Model) -> str:
    """The parameter along which it is told where something ends."""
    return model.parameters[0]


def _guideline(entry: Entry, guideline: Guideline, models: ModelSet) -> Result:
    def of(name: str) -> list[Model]:
        found = series_of(Entry(name, entry.metric, guideline, line=entry.line), models)
        return [_slowest(found, path) for path in {one.key.callpath: None for one in found}]

    several = [model for name in guideline.names for model in of(name)]
    largest = np.max([model.coordinates.max(axis=0) for model in several], axis=0).tolist()
    at = target_point(dict(entry.at), models.parameters, text=guideline.text) if entry.at else None
    found = check_guideline(guideline, of, largest=largest, at=at)
    name = models.parameters[0]
    worst = max(found.now, found.later)
    place = f"{name} = {number(found.at[0])}"
    if found.now >= SURE:
        text = f"violated at {name} = {number(largest[0])} already"
    elif found.later >= SURE:
        begins = "" if found.begins is None else f", from {name} = {found.begins:.3g} on"
        text = f"holds where it was measured, violated at {place}{begins}"
    else:
        text = f"violated at {place} with a probability of {percent(found.later)}"
    return Result(
        entry=entry,
        kind="rule",
        subject=guideline.text,
        metric=entry.metric,
        behaviour=ALL,
        expected=guideline.text,
        found="violated now" if found.now >= SURE else "",
        status=_decided(worst),
        text=text,
        probability=max(worst, 1 - worst),
    )


def _slowest(series: Sequence[SeriesModel], path: CallPath) -> Model:
    """The model of all ranks, else of the class with the largest value at its last point."""
    mine = [one for one in series if one.key.callpath == path]
    whole = [one for one in mine if one.key.behaviour == ALL]
    return (whole or sorted(mine, key=lambda one: -float(one.model.values[-1])))[0].model


def _classes(entry: Entry, rule: ClassExpectation, models: ModelSet) -> list[Result]:
    results = []
    for path in {one.key.callpath: None for one in series_of(entry, models)}:
        clusters = [c for c in models.clusters if (c.callpath, c.metric) == (path, entry.metric)]
        series = [
            one
            for one in models.models
            if (one.key.callpath, one.key.metric) == (path, entry.metric)
        ]
        found = check_classes(rule, clusters, series)
        if found is None:
            known = {one.key.behaviour for one in series}
            missing = [name for name in rule.names or () if name not in known]
            raise UsageError(_missing(entry, f"class of {path}", ", ".join(missing), known))
        results.append(
            Result(
                entry=entry,
                kind="classes",
                subject=str(path),
                metric=entry.metric,
                behaviour=ALL,
                expected=rule.text,
                found="",
                status=Status.MET if found.is_met else Status.VIOLATED,
                text=found.text,
            )
        )
    return results
