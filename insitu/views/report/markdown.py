"""The report as Markdown."""

from collections.abc import Iterable, Iterator, Sequence

from insitu.analysis.diagnosis.efficiency_table import efficiency_lines
from insitu.analysis.diagnosis.lines import diagnosis_lines
from insitu.analysis.summary import SeriesGrowth, Summary, coordinate_text
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.report.sentences import (
    CROWDED_GROWTH,
    TRUST_LEVELS,
    describe_state,
    format_bounds,
    format_rank_count,
    growth_factor,
    has_crowded_cost,
    headlines,
    listed_shares,
    predicted_share,
    predicted_value,
    proposal_rows,
    proposals_lead,
    subtitle,
    trust_reasons,
    trust_rows,
)

MAX_SHARES = 12  # call paths in the table of shares
ESCAPED = "\\`*_[]<|~$&"


def markdown(summary: Summary, date: str) -> str:
    """The whole report without pictures.

    Args:
        summary: the content.
        date: when the report was made, as text.
    """
    now = coordinate_text(summary.parameters, summary.largest)
    then = coordinate_text(summary.parameters, summary.target)

    lines = [f"# {_text(summary.title)}: how it scales", ""]
    lines += [f"{_text(subtitle(summary))}; {_text(date)}.", ""]
    if summary.diagnosis is not None:
        lines += [f"    {line}".rstrip() for line in diagnosis_lines(summary.diagnosis)]
        tables = efficiency_lines(summary.diagnosis.efficiencies)
        lines += ["", *(f"    {line}".rstrip() for line in tables)] if tables else []
        lines.append("")
    lines += [f"- {_text(line)}" for line in headlines(summary)]
    lines += _shares_section(summary, then)

    head = ("call path", "metric", "class", "model", now, then, "95 %", "ratio", "trust")
    doubts = (CROWDED_GROWTH,) if has_crowded_cost(summary) else ()
    lines += _section("What grows fastest", head, _growth_rows(summary.growing, summary), *doubts)
    lines += _section("Counts, bytes, memory", head, _growth_rows(summary.others, summary))
    lines += _classes_section(summary)
    lines += _expectations_section(summary)
    lines += _proposals_section(summary)
    lines += _trust_section(summary, then)
    if summary.findings:
        lines += ["", "## Findings", ""]
        lines += [f"- `{finding.code}`: {_text(finding.text)}" for finding in summary.findings]
    states = [(str(run.key), describe_state(run)) for run in summary.runs]
    lines += _section("Runs", ("run", "state"), states)
    lines += _section("All models", head, _growth_rows(summary.series, summary))
    return "\n".join(lines) + "\n"


def _shares_section(summary: Summary, then: str) -> list[str]:
    rows = []
    for share in listed_shares(summary)[:MAX_SHARES]:
        then_text = predicted_share(share, summary.unclear_shares)
        rows.append((str(share.callpath), percent(share.now), *then_text))
    head = (f"share of {summary.cost}", "now", "then", "95 %")
    return _section(f"What will dominate at {then}", head, rows)


def _classes_section(summary: Summary) -> list[str]:
    head = ("call path", "metric", "class", "ranks", "ranks then", "each now", "each then", "trust")
    return _section("What differs between ranks", head, _class_rows(summary))


def _class_rows(summary: Summary) -> Iterator[Sequence[str]]:
    for partition in summary.partitions:
        unit = partition.metric.unit
        for line in partition.classes:
            growth = line.growth
            yield (
                str(partition.callpath),
                partition.metric.name,
                line.name,
                str(line.ranks),
                format_rank_count(line.ranks_then),
                "–" if growth is None else quantity(growth.now, unit),
                "–" if growth is None else predicted_value(growth, summary),
                "–" if growth is None else growth.trust,
            )


def _expectations_section(summary: Summary) -> list[str]:
    rows = []
    for line in summary.expectations:
        verdict = f"{line.word}: {line.text}"
        rows.append((line.mark, line.subject, line.series, line.expected, verdict, line.sure))
    head = ("", "call path", "metric", "expected", "verdict", "sure")
    return _section("Expectations", head, rows)


def _proposals_section(summary: Summary) -> list[str]:
    proposals = summary.proposals
    if proposals is None:
        return []
    head = ("run", "takes about", "on all ranks", "uncertainty then", "why")
    rows = list(proposal_rows(summary, proposals))
    return _section("What to measure next", head, rows, proposals_lead(summary, proposals))


def _trust_section(summary: Summary, then: str) -> list[str]:
    if not summary.series:
        return []
    reasons = (f"- {line}" for line in trust_reasons(summary))
    head = (f"models at {then}", *TRUST_LEVELS)
    return _section("How far to trust this", head, trust_rows(summary), *reasons)


def _growth_rows(series: Iterable[SeriesGrowth], summary: Summary) -> Iterator[Sequence[str]]:
    return (_growth_row(growth, summary) for growth in series)


def _growth_row(growth: SeriesGrowth, summary: Summary) -> Sequence[str]:
    key, unit = growth.series.key, growth.series.metric.unit
    return (
        str(key.callpath),
        key.metric,
        growth.series.class_text,
        growth.series.text,
        quantity(growth.now, unit),
        predicted_value(growth, summary),
        format_bounds(growth.then, unit),
        growth_factor(growth, summary),
        growth.trust,
    )


def _section(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *before: str
) -> list[str]:
    """A heading, lines of text and a table; nothing if there is neither text nor a row."""
    body = [f"| {' | '.join(map(_text, row))} |" for row in rows]
    if not body and not before:
        return []

    lines = ["", f"## {_text(title)}", "", *map(_text, before)]
    if body:
        lines += [""] * bool(before)
        lines += [f"| {' | '.join(map(_text, head))} |", "|" + " --- |" * len(head), *body]
    return lines


def _text(text: str) -> str:
    """Text with a backslash before every character that Markdown or HTML would interpret."""
    return "".join(f"\\{char}" if char in ESCAPED else char for char in printable(text))
