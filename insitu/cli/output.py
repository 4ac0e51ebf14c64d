"""What commands print: tables, JSON lines, findings."""

import json
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import click

from insitu.analysis.callpaths import last_frames
from insitu.cli.messages import print_note
from insitu.entities import Finding
from insitu.modeling.search import TOO_FEW_POINTS
from insitu.text import printable
from insitu.units import percent

MIN_WIDTH = 60  # columns of a table, however narrow the terminal is
MIN_WIDE = 16  # columns of the cell that is folded
SHOWN_FINDINGS = 2  # of each kind


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a table. The wide one takes the remaining width and folds its text."""

    title: str
    is_right: bool = False
    is_wide: bool = False
    colours: Mapping[str, str] = field(default_factory=dict)  # by the beginning of a cell


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a table below a heading of their own, such as a call path; `mark` is its share."""

    mark: str
    heading: str
    rows: Sequence[Sequence[str]]


def print_blocks(title: str, columns: Sequence[OutputColumn], blocks: Sequence[Block]) -> None:
    """Print a table as wide as the terminal, or 80 columns, with its rows grouped in blocks.

    Args:
        title: of the marks left of the headings, such as `share`.
        columns: of the rows; exactly one of them is wide.
        blocks: in the order in which they are printed.
    """
    indent = max(len(title), *(len(block.mark) for block in blocks)) + 2
    widths = _column_widths(columns, blocks, table_width() - indent)

    titles = [
        _align(column.title, column, width) for column, width in zip(columns, widths, strict=True)
    ]
    click.secho(f"{title:>{indent - 2}}  {'  '.join(titles)}".rstrip(), dim=True)
    for block in blocks:
        heading = last_frames(block.heading, table_width() - indent)
        click.echo(f"{block.mark:>{indent - 2}}  " + click.style(heading, bold=True))
        for row in block.rows:
            _print_row(row, columns, widths, indent=indent)


def _column_widths(
    columns: Sequence[OutputColumn], blocks: Sequence[Block], available: int
) -> list[int]:
    """Return the width of each column; the wide one gets what the others leave."""
    widths = [len(column.title) for column in columns]
    for block in blocks:
        for row in block.rows:
            for i, cell in enumerate(row):
                widths[i] = max(widths[i], len(printable(cell)))

    wide = next(i for i, column in enumerate(columns) if column.is_wide)
    others = sum(widths) - widths[wide] + 2 * (len(columns) - 1)
    widths[wide] = min(widths[wide], max(available - others, MIN_WIDE))
    return widths


def _print_row(
    row: Sequence[str], columns: Sequence[OutputColumn], widths: Sequence[int], *, indent: int
) -> None:
    """Print a row, on several lines if the text of its wide cell is folded."""
    wide = next(i for i, column in enumerate(columns) if column.is_wide)
    folded = textwrap.wrap(printable(row[wide]), widths[wide]) or [""]

    for line_number, line in enumerate(folded):
        texts = []
        for i, cell in enumerate(row):
            shown = printable(cell) if line_number == 0 else ""
            texts.append(_align(line if i == wide else shown, columns[i], widths[i]))
        click.echo(" " * indent + "  ".join(texts).rstrip())


def _align(text: str, column: OutputColumn, width: int) -> str:
    aligned = text.rjust(width) if column.is_right else text.ljust(width)
    for beginning, colour in column.colours.items():
        if text.startswith(beginning):
            return click.style(aligned, fg=colour)
    return aligned


def table_width() -> int:
    """Return the width of the terminal, 80 without one, and at least MIN_WIDTH."""
    return max(shutil.get_terminal_size((80, 24)).columns, MIN_WIDTH)


def print_folded(text: str, indent: int = 0) -> None:
    """Print a sentence in lines as wide as a table, behind `indent` spaces."""
    click.echo(
        textwrap.fill(
            printable(text),
            table_width(),
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 2),
            break_on_hyphens=False,
        )
    )


def print_hidden_callpaths(count: int, start_up: float = 0.0) -> None:
    """Print how many call paths a table leaves out, and the share of start-up among them."""
    if count:
        among = f", start-up with {percent(start_up)} among them" if start_up else ""
        click.echo(f"{count_text(count, 'more call path')}{among}; --top 0 shows all")


def print_hidden_metrics(names: Sequence[str]) -> None:
    """Print which metrics a table leaves out."""
    if names:
        print_folded(f"more metrics with --metric NAME or --callpath PATTERN: {', '.join(names)}")


def print_json(rows: Iterable[object]) -> None:
    """Print each row as one line of JSON."""
    for row in rows:
        click.echo(json.dumps(row, allow_nan=False))


def print_findings(findings: Sequence[Finding], *, is_json: bool = False) -> None:
    """Print findings on standard error: all of them with --json, else a few of each kind."""
    for text in [finding.text for finding in findings] if is_json else summarise_findings(findings):
        print_note(text)


def summarise_findings(findings: Sequence[Finding]) -> list[str]:
    """Return a few findings of each kind as lines; series with too few points are only counted."""
    lines: list[str] = []
    counts: dict[str, int] = {}
    unmodelled: list[str] = []
    for finding in findings:
        if finding.code == TOO_FEW_POINTS and finding.where:
            unmodelled.append(finding.where)
            continue
        counts[finding.code] = counts.get(finding.code, 0) + 1
        if counts[finding.code] <= SHOWN_FINDINGS:
            lines.append(finding.text)

    for code, count in counts.items():
        if count > SHOWN_FINDINGS:
            lines.append(f"{count - SHOWN_FINDINGS} more of this kind ({code})")

    if unmodelled:
        paths = count_text(len(set(unmodelled)), "call path")
        series = count_text(len(unmodelled), "series", "series")
        lines.append(f"{series} of {paths} have no model yet: measured at too few scales")

    return lines


def count_text(count: int, singular: str, plural: str = "") -> str:
    """Return `1 run` or `2 runs`."""
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"
