"""A report as Markdown."""

from collections.abc import Iterable, Iterator, Sequence

from insitu.analysis.shares import trust_level
from insitu.analysis.summary import SeriesGrowth, Summary, coordinate_text
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.report.words import (
    TRUST,
    bounds,
    factor,
    headlines,
    next_lead,
    next_rows,
    ranks_told,
    share_then,
    state_of,
    trust_reasons,
    trust_rows,
)

ROWS = 12


def markdown(summary: Summary, made: str) -> str:
    """The whole report, without its pictures.

    Args:
        summary: what to tell.
        made: when, for people.
    """
    lines = [f"# {_text(summary.title)}: how it scales", ""]
    now = coordinate_text(summary.parameters, summary.largest)
    then = coordinate_text(summary.parameters, summary.target)
    lines += [f"{len(summary.runs)} runs up to {now}, looking ahead to {then}; {_text(made)}.", ""]
    lines += [f"- {_text(line)}" for line in headlines(summary)]
    lines += _section(
        f"What will dominate at {then}",
        (f"share of {summary.cost}", "now", "then", "95 %"),
        [
            (
                str(part.callpath),
                percent(part.now),
                *share_then(part),
            )
            for part in summary.shares[:ROWS]
        ],
    )
    head = ("call path", "metric", "class", "model", now, then, "95 %", "times", "trust")
    lines += _section("What grows fastest", head, map(_growth, summary.growing))
    lines += _section("Counts, bytes, memory", head, map(_growth, summary.others))
    lines += _section(
        "What differs between ranks",
        ("call path", "metric", "class", "ranks", "ranks then", "each now", "each then", "trust"),
        _classes(summary),
    )
    lines += _judged(summary) + _next(summary, then)
    if summary.findings:
        lines += ["", "## Findings", ""]
        lines += [f"- `{found.code}`: {_text(found.text)}" for found in summary.findings]
    states = [(str(run.key), state_of(run)) for run in summary.runs]
    lines += _section("Runs", ("run", "state"), states)
    lines += _section("All models", head, map(_growth, summary.series))
    return "\n".join(lines) + "\n"


def _judged(summary: Summary) -> list[str]:
    rows = [
        (one.mark, one.subject, one.series, one.expected, f"{one.word}: {one.text}", one.sure)
        for one in summary.expectations
    ]
    head = ("", "call path", "metric", "expected", "what became of it", "sure")
    return _section("What was expected, and what is broken", head, rows)


def _next(summary: Summary, then: str) -> list[str]:
    """What to measure next, and how far the rest is to be trusted."""
    lines = []
    if summary.proposals is not None:
        head = ("run", "takes about", "on all ranks", "uncertain then", "why")
        rows = next_rows(summary.proposals)
        lines += _section("What to measure next", head, rows, next_lead(summary.proposals))
    reasons = (f"- {line}" for line in trust_reasons(summary))
    head = (f"models at {then}", *TRUST)
    return lines + _section("How far this is to be trusted", head, trust_rows(summary), *reasons)


def _classes(summary: Summary) -> Iterator[Sequence[str]]:
    for one in summary.partitions:
        for line in one.classes:
            grown = line.growth
            yield (
                str(one.callpath),
                one.metric.name,
                line.name,
                str(line.ranks),
                ranks_told(line.ranks_then),
                "–" if grown is None else quantity(grown.now.value, one.metric.unit),
                "–" if grown is None else quantity(grown.then.value, one.metric.unit),
                "–" if grown is None else trust_level(grown.then),
            )


def _growth(one: SeriesGrowth) -> Sequence[str]:
    key, unit = one.series.key, one.series.metric.unit
    return (
        str(key.callpath),
        key.metric,
        key.behaviour,
        str(one.series.model),
        quantity(one.now.value, unit),
        quantity(one.then.value, unit),
        bounds(one.then, unit),
        f"× {factor(one.factor)}",
        trust_level(one.then),
    )


def _section(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *before: str
) -> list[str]:
    """A heading, lines of text and a table; nothing where all that is empty."""
    body = [f"| {' | '.join(map(_text, row))} |" for row in rows]
    if not body and not before:
        return []
    lines = ["", f"## {_text(title)}", "", *map(_text, before)]
    if body:
        lines += [""] * bool(before)
        lines += [f"| {' | '.join(map(_text, head))} |", "|" + " --- |" * len(head), *body]
    return lines


def _text(text: str) -> str:
    """Names as they are: what Markdown or HTML would obey gets a backslash."""
    return "".join(f"\\{c}" if c in "\\`*_[]<|~$&" else c for c in printable(text))
