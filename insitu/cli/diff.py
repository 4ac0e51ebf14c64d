"""`insitu diff`: what changed between two campaigns of a program."""

import math

import click

from insitu.analysis.comparison import CHANGED, FASTER, GONE, NEW, SLOWER, Change, Comparison
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.predict import format_point
from insitu.cli.messages import print_note
from insitu.cli.options import TABLE_CALLPATHS, json_option
from insitu.cli.output import Block, OutputColumn, count_text, print_blocks, print_json
from insitu.entities import finite
from insitu.workflows.diff import diff_campaigns

FAILURES = {SLOWER: {SLOWER}, CHANGED: {SLOWER, CHANGED, NEW, GONE}}  # of --fail-on
COLUMNS = (
    OutputColumn("", colours={SLOWER: "red", FASTER: "green"}),
    OutputColumn("metric"),
    OutputColumn("class"),
    OutputColumn("before -> after", is_wide=True),
    OutputColumn("ratio", is_right=True),
)


@click.command(name="diff")
@click.argument("before", type=click.Path(), metavar="BEFORE")
@click.argument("after", type=click.Path(), metavar="AFTER")
@click.option(
    "-t",
    "--top",
    type=click.IntRange(0),
    default=TABLE_CALLPATHS,
    show_default=True,
    metavar="N",
    help="Show only the first N changes; 0 shows all.",
)
@click.option(
    "--fail-on",
    type=click.Choice(list(FAILURES)),
    help="Exit with 1 if a time became longer; with `changed` also if a count differs, or a call"
    " path is new or gone. For tests.",
)
@json_option
def command(before: str, after: str, *, top: int, fail_on: str | None, is_json: bool) -> None:
    """Show what changed from the campaign BEFORE to the campaign AFTER of the same program.

    Times are compared by class of ranks, at the largest point that both campaigns have; the ratio
    has bounds of 95 %. Counts of visits, messages and bytes are compared at all common points, with
    their laws, as is memory that stays allocated. Notes name the limits that only one of the two
    has at the target of BEFORE.
    """
    comparison = diff_campaigns(before, after)
    if is_json:
        print_json(_row(change) for change in comparison.changes)
    else:
        _print_comparison(comparison, top)
    found = {change.status for change in comparison.changes}
    if found & FAILURES.get(fail_on or "", set()):
        click.get_current_context().exit(1)


def _print_comparison(comparison: Comparison, top: int) -> None:
    point = format_point(zip(comparison.parameters, comparison.at, strict=True))
    shown = comparison.changes[: top or None]
    if shown:
        click.echo(f"at {point}\n")
        _print_table(shown)
    hidden = len(comparison.changes) - len(shown)
    if hidden:
        click.echo(f"{count_text(hidden, 'more change')}; --top 0 shows all")
    click.echo(_conclusion(comparison))
    for note in comparison.notes:
        print_note(note)


def _print_table(changes: tuple[Change, ...]) -> None:
    rows: dict[str, list[tuple[str, ...]]] = {}
    for change in changes:
        rows.setdefault(str(change.callpath), []).append(
            (change.status, change.metric, change.behaviour, _values(change), _ratio(change))
        )
    print_blocks("", COLUMNS, [Block("", path, lines) for path, lines in rows.items()])


def _values(change: Change) -> str:
    """The laws if they differ, else the values."""
    if change.has_other_law:
        return f"{change.law_before or 'no law'} -> {change.law_after or 'no law'}"
    values = (change.before, change.after)
    texts = ["–" if math.isnan(value) else quantity_text(value, change.unit) for value in values]
    return " -> ".join(texts)


def _ratio(change: Change) -> str:
    if math.isnan(change.ratio):
        return ""
    if math.isnan(change.low):
        return f"{change.ratio:.3g}"
    return f"{change.ratio:.3g} ({change.low:.3g} to {change.high:.3g})"


def _conclusion(comparison: Comparison) -> str:
    counts: dict[str, int] = {}
    for change in comparison.changes:
        counts[change.status] = counts.get(change.status, 0) + 1
    laws = sum(change.has_other_law for change in comparison.changes)
    texts = [f"{count} {status}" for status, count in counts.items()]
    texts += [f"{laws} with another law"] if laws else []
    return "; ".join([*texts, f"{count_text(comparison.n_alike, 'series', 'series')} alike"])


def _row(change: Change) -> dict[str, object]:
    return {
        "callpath": str(change.callpath),
        "metric": change.metric,
        "unit": change.unit,
        "class": change.behaviour or None,
        "status": change.status,
        "before": finite(change.before),
        "after": finite(change.after),
        "ratio": finite(change.ratio),
        "low": finite(change.low),
        "high": finite(change.high),
        "law_before": change.law_before or None,
        "law_after": change.law_after or None,
        "other_law": change.has_other_law,
    }
