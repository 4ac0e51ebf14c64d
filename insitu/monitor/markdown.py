"""A report as Markdown."""

from collections.abc import Iterable, Iterator, Sequence

from insitu.monitor.names import printable
from insitu.monitor.summary import Growth, Summary, place_of, trust
from insitu.monitor.words import bounds, factor, headlines, ranks_told, state_of
from insitu.units import percent, quantity

ROWS = 12


def markdown(summary: Summary, made: str) -> str:
    """The whole report, without its pictures.

    Args:
        summary: what to tell.
        made: when, for people.
    """
    lines = [f"# {_text(summary.title)}: how it scales", ""]
    now = place_of(summary.parameters, summary.largest)
    then = place_of(summary.parameters, summary.target)
    lines += [f"{len(summary.runs)} runs up to {now}, looking ahead to {then}; {_text(made)}.", ""]
    lines += [f"- {_text(line)}" for line in headlines(summary)]
    if summary.judged:
        rows = [(one.mark, one.subject, one.text) for one in summary.judged]
        lines += _section("What was expected", ("", "call path", "what became of it"), rows)
    lines += _section(
        f"What will dominate at {then}",
        (f"share of {summary.cost}", "now", "then", "95 %"),
        [
            (
                str(part.callpath),
                percent(part.now),
                percent(part.then.value),
                f"{percent(part.then.low)} … {percent(part.then.high)}",
            )
            for part in summary.parts[:ROWS]
        ],
    )
    head = ("call path", "metric", "class", "model", now, then, "95 %", "times", "trust")
    lines += _section("What grows fastest", head, map(_growth, summary.growing))
    lines += _section("Counts, bytes, memory", head, map(_growth, summary.others))
    lines += _section(
        "What differs between ranks",
        ("call path", "metric", "class", "ranks", "ranks then", "each now", "each then"),
        _classes(summary),
    )
    if summary.findings:
        lines += ["", "## Findings", ""]
        lines += [f"- `{found.code}`: {_text(found.text)}" for found in summary.findings]
    states = [(str(run.key), state_of(run)) for run in summary.runs]
    lines += _section("Runs", ("run", "state"), states)
    lines += _section("All models", head, map(_growth, summary.series))
    return "\n".join(lines) + "\n"


def _classes(summary: Summary) -> Iterator[Sequence[str]]:
    for one in summary.partings:
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
            )


def _growth(one: Growth) -> Sequence[str]:
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
        trust(one.then),
    )


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = [f"| {' | '.join(map(_text, row))} |" for row in rows]
    if not body:
        return []
    return [
        "",
        f"## {_text(title)}",
        "",
        f"| {' | '.join(map(_text, head))} |",
        "|" + " --- |" * len(head),
        *body,
    ]


def _text(text: str) -> str:
    """Names as they are: what Markdown or HTML would obey gets a backslash."""
    return "".join(f"\\{c}" if c in "\\`*_[]<|~$&" else c for c in printable(text))
