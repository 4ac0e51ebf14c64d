"""What the commands that look at a campaign have in common: their options, how they print."""

import fnmatch
import json
import shutil
import textwrap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import click

from insitu.analysis.callpaths import last_frames
from insitu.analysis.cost import metric_order
from insitu.campaign.selection import select_runs
from insitu.campaign.store import SqliteStore
from insitu.entities import (
    ARROW,
    BYTES_SENT,
    ITERATION_TIME,
    MEMORY_RSS,
    METRICS,
    TIME,
    TIME_EXCLUSIVE,
    TIME_WAITING,
    CallPath,
    Finding,
    number,
)
from insitu.errors import UsageError
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.search import TOO_FEW
from insitu.text import printable

MIN_WIDTH = 60
MIN_WIDE = 16
TOP = 15  # call paths in a table for people who did not say how many
SHOWN_FINDINGS = 2
NO_MODEL = (TOO_FEW, "not-modelled")  # findings of modeling
HEADLINES = frozenset(  # metrics that a table shows where nobody asked for one
    one.name for one in (TIME, TIME_EXCLUSIVE, TIME_WAITING, BYTES_SENT, MEMORY_RSS, ITERATION_TIME)
)
_OWN = frozenset(metric.name for metric in METRICS)
Command = Callable[..., None]

campaign_argument = click.argument("campaign", type=click.Path(), metavar="CAMPAIGN")
json_option = click.option(
    "--json", "is_json", is_flag=True, help="Print one JSON object per line, nothing else."
)


def series_options(function: Command) -> Command:
    """Options that choose some of the series."""
    for option in (
        click.option(
            "--top",
            type=click.IntRange(0),
            metavar="N",
            help=f"Only the N costliest call paths, 0 for all; tables show {TOP}.",
        ),
        click.option("--metric", metavar="NAME", help="Only this metric, as in time."),
        click.option(
            "--callpath",
            metavar="PATTERN",
            help="Only call paths that contain PATTERN; * and ? match.",
        ),
    ):
        function = option(function)
    return function


def is_chosen(key: SeriesKey, callpath: str | None, metric: str | None) -> bool:
    """Whether the options choose a series."""
    return (metric is None or key.metric == metric) and (
        callpath is None or matches(str(key.callpath), callpath)
    )


def matches(text: str, pattern: str) -> bool:
    """Whether a call path contains the pattern as it is, or matches it with * and ?."""
    return pattern in text or fnmatch.fnmatchcase(text, pattern)


def dearest(
    paths: Iterable[CallPath], top: int | None, *, is_json: bool
) -> tuple[set[CallPath], int]:
    """The call paths to show of those in order of cost, and how many are left out."""
    distinct = list(dict.fromkeys(paths))
    count = top if top is not None else 0 if is_json else TOP
    shown = set(distinct[:count] if count else distinct)
    return shown, len(distinct) - len(shown)


def headlines(rows: Sequence[tuple[str, str, str]]) -> list[bool]:
    """Which rows a table shows where neither a metric nor a call path was asked for.

    Those of the metrics that tell most and are not zero; times without the functions called from
    there only where there are such; metrics that other tools measured, all; everything where
    nothing else would be left.

    Args:
        rows: call path, metric and model as texts.
    """
    callers = {path.rpartition(ARROW)[0] for path, _, _ in rows}
    timed = {path for path, metric, _ in rows if metric == TIME.name}
    shown = [
        (metric in HEADLINES or metric not in _OWN)
        and text != "0"
        and (metric != TIME_EXCLUSIVE.name or path in callers or path not in timed)
        for path, metric, text in rows
    ]
    return shown if any(shown) else [True] * len(rows)


def print_other_metrics(names: Iterable[str]) -> None:
    """Say which metrics a table does not show."""
    there = sorted(names, key=metric_order)
    if there:
        text = f"more metrics with --metric NAME or --callpath PATTERN: {', '.join(there)}"
        print_folded(text)


def print_folded(text: str) -> None:
    """A sentence in lines as wide as tables."""
    folded = textwrap.fill(printable(text), width(), subsequent_indent="  ", break_on_hyphens=False)
    click.echo(folded)


def width() -> int:
    """How wide tables are: as the terminal, or 80 columns."""
    return max(shutil.get_terminal_size((80, 24)).columns, MIN_WIDTH)


def none_chosen(names: Iterable[str], callpath: str | None, metric: str | None) -> UsageError:
    """Which option chose nothing, and what there is.

    Args:
        names: of the metrics that there are.
        callpath: what was asked for.
        metric: likewise.
    """
    metrics = sorted(set(names))
    if metric is not None and metric not in metrics:
        like = get_close_matches(metric, metrics, 1)
        hint = f"did you mean {like[0]}? There are " if like else "there are "
        return UsageError(f"no metric '{metric}' here; {hint}{', '.join(metrics)}")
    of = f" and has {metric}" if metric is not None and callpath is not None else ""
    return UsageError(
        f"no call path matches --callpath {callpath or '*'}{of}; `insitu models CAMPAIGN --top 0`"
        " shows all"
    )


def print_left_out(number: int) -> None:
    """Say how many call paths a table does not show."""
    if number:
        paths = "call path" if number == 1 else "call paths"
        click.echo(f"{number} more {paths}; --top 0 shows all")


def print_json(rows: Iterable[object]) -> None:
    """JSON Lines on standard output."""
    for row in rows:
        click.echo(json.dumps(row, allow_nan=False))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; the one that is wide takes the room that is left, in several lines."""

    title: str
    is_right: bool = False
    is_wide: bool = False
    colours: Mapping[str, str] = field(default_factory=dict)  # by what a cell begins with


@dataclass(frozen=True, slots=True)
class Block:
    """Rows under a heading of their own, as wide as the terminal; all of them are data."""

    mark: str
    heading: str
    rows: Sequence[Sequence[str]]


def print_blocks(title: str, columns: Sequence[Column], blocks: Sequence[Block]) -> None:
    """A table whose rows stand in blocks, as wide as the terminal or 80 columns.

    Args:
        title: of the marks left of the headings, as in `share`.
        columns: of the rows; exactly one of them is wide.
        blocks: in the order in which they are printed.
    """
    total = width()
    indent = max(len(title), *(len(block.mark) for block in blocks)) + 2
    cells = [[printable(cell) for cell in row] for block in blocks for row in block.rows]
    widths = [
        max(len(column.title), *(len(row[i]) for row in cells)) for i, column in enumerate(columns)
    ]
    wide = next(i for i, column in enumerate(columns) if column.is_wide)
    others = sum(width for i, width in enumerate(widths) if i != wide)
    room = total - indent - others - 2 * (len(columns) - 1)
    widths[wide] = max(min(widths[wide], room), MIN_WIDE)
    head = "  ".join(
        _aligned(column.title, column, w) for column, w in zip(columns, widths, strict=True)
    )
    click.secho(f"{title:>{indent - 2}}  {head}".rstrip(), dim=True)
    for block in blocks:
        name = last_frames(block.heading, total - indent)
        click.echo(f"{block.mark:>{indent - 2}}  " + click.style(name, bold=True))
        for row in block.rows:
            _print_row(row, columns, widths=widths, wide=wide, indent=indent)


def _print_row(
    row: Sequence[str], columns: Sequence[Column], *, widths: list[int], wide: int, indent: int
) -> None:
    folded = textwrap.wrap(printable(row[wide]), widths[wide]) or [""]
    for i, line in enumerate(folded):
        cells = [
            line if k == wide else printable(cell) if i == 0 else "" for k, cell in enumerate(row)
        ]
        parts = zip(cells, columns, widths, strict=True)
        text = "  ".join(_aligned(cell, column, width) for cell, column, width in parts)
        click.echo(" " * indent + text.rstrip())


def _aligned(text: str, column: Column, width: int) -> str:
    aligned = text.rjust(width) if column.is_right else text.ljust(width)
    colour = next((of for start, of in column.colours.items() if text.startswith(start)), None)
    return click.style(aligned, fg=colour) if colour else aligned


def print_findings(findings: Sequence[Finding], *, is_json: bool = False) -> None:
    """What a person should know, on standard error; a few of each kind, JSON readers get all."""
    lines = [finding.text for finding in findings] if is_json else few_of(findings)
    for line in lines:
        click.echo(f"note: {printable(line)}", err=True)


def few_of(findings: Sequence[Finding]) -> list[str]:
    """A few findings of each kind as lines; series with too few points are only counted."""
    waiting = [one for one in findings if one.code == TOO_FEW and one.where]
    lines = []
    shown: dict[str, int] = {}
    for finding in findings:
        if finding.code == TOO_FEW and finding.where:
            continue
        shown[finding.code] = shown.get(finding.code, 0) + 1
        if shown[finding.code] <= SHOWN_FINDINGS:
            lines.append(finding.text)
    lines += [
        f"{count - SHOWN_FINDINGS} more of this kind ({code})"
        for code, count in shown.items()
        if count > SHOWN_FINDINGS
    ]
    if waiting:
        paths = counted(len({one.where for one in waiting}), "call path")
        series = counted(len(waiting), "series", "series")
        lines.append(f"{series} of {paths} have no model yet: measured at too few scales")
    return lines


def about(models: ModelSet, shown: Container[CallPath]) -> list[Finding]:
    """The findings about the call paths that are shown, with those about none."""
    hidden = {str(one.callpath) for one in models.clusters if one.callpath not in shown}
    return [finding for finding in models.findings if finding.where not in hidden]


def kept_models(store: SqliteStore) -> ModelSet:
    """The models of a campaign; where there are none, standard error says why."""
    models = store.models()
    if not models.models:
        click.echo(f"insitu: {printable(why_none(store, models))}", err=True)
    return models


def why_none(store: SqliteStore, models: ModelSet) -> str:
    """Why a campaign has no models, with what to do."""
    runs, _ = select_runs(store.runs())
    if not runs:
        return (
            f"{store.path}: no complete run yet; measure with"
            f" `insitu run --campaign {store.path} -- COMMAND`"
        )
    reason = next((found.text for found in models.findings if found.code in NO_MODEL), "")
    return f"{store.path}: no models: {reason or f'make them with `insitu refit {store.path}`'}"


def counted(count: object, one: str, many: str = "") -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def place(parameters: Iterable[tuple[str, float]]) -> str:
    """Parameters for a person: `p=16, n=256`."""
    return ", ".join(f"{name}={number(value)}" for name, value in parameters)
