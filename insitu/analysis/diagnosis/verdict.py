"""The first line of a diagnosis: whether the program has limits up to the target."""

from collections.abc import Sequence

from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.measurements import LAW_SCALES, Measurements
from insitu.analysis.diagnosis.statements import (
    LIMIT,
    UNCLEAR,
    WARNING,
    Statement,
    list_names,
)
from insitu.analysis.diagnosis.times import CARRIED
from insitu.entities import METRICS
from insitu.units import quantity


def describe_verdict(
    program: str,
    statements: Sequence[Statement],
    measurements: Measurements,
    target: float,
    *,
    counted: Measurements | None = None,
) -> str:
    """Return the first line of a diagnosis, such as `app: no limit found up to 512 ranks`.

    Args:
        program: its name. statements: limits, warnings and doubts. measurements: of its runs.
        target: number of ranks.
        counted: of what counts were judged in, if that is only some of them: these show limits, but
            not that there are none.
    """
    foreign = foreign_metrics(measurements)
    if foreign:
        return f"{program}: nothing is judged: it has only {list_names(foreign)}"
    ranks = f"{target:,.0f} ranks"
    limits = [entry for entry in statements if entry.status == LIMIT]
    if limits and counted is not None:
        measurements = counted
    if len(measurements.p) < LAW_SCALES:
        scales = len(measurements.p)
        at = ", ".join(at_text(*value) for value in measurements.fixed if measurements.elsewhere)
        measured = f"measured at {at}" if at else "measured"
        return f"{program}: {scales} scale{'s' * (scales != 1)} {measured}, laws need {LAW_SCALES}"
    if any(entry.kind == "memory" for entry in limits):
        return f"{program} will not run on {ranks} as it is"
    if limits:
        spent = quantity(sum(entry.seconds or 0.0 for entry in limits), "s")
        if target > CARRIED * measurements.p[-1] and any(map(_is_time, limits)):
            spent = f"at least {spent}"  # times are not predicted as far as the target
        return f"{program} runs on {ranks} but spends {spent} on its limits"
    found = "in counts" if measurements.has_crowded else "found"  # times are not judged then
    doubts = [
        f"{count} {name}{'s' * (count != 1)}"
        for status, name in ((WARNING, "warning"), (UNCLEAR, "doubt"))
        if (count := sum(entry.status == status for entry in statements))
    ]
    if not doubts:
        return f"{program}: no limit {found} up to {ranks}"
    return f"{program}: no certain limit {found} up to {ranks}, but {' and '.join(doubts)}"


def _is_time(entry: Statement) -> bool:
    """Whether a statement is about a predicted time, not about a count at the target."""
    return entry.unit == "s" and not entry.exact


def foreign_metrics(measurements: Measurements) -> list[str]:
    """The names of all metrics, if none is one that insitu knows, as in data of other tools."""
    if {metric.name for metric in METRICS} & measurements.metrics:
        return []
    return sorted(measurements.metrics)
