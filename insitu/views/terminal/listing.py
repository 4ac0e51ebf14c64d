"""Runs, call paths and findings as lines of a terminal."""

import textwrap
import time
from collections.abc import Sequence

from rich.text import Text

from insitu.analysis.board import RunRow, SeriesRow
from insitu.analysis.callpaths import fitted_name, last_frames
from insitu.analysis.outlook import Outlook
from insitu.entities import ARROW, Finding
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.terminal.selection import TreeBranch, series_id
from insitu.views.terminal.view import SCROLLBAR, cut, deviation_mark, deviation_text
from insitu.views.text import (
    describe_run,
    describe_state,
    format_factor,
    point_values,
    rank_bar,
    sparkline,
)

SPARK_WIDTH = 8
FIXED_WIDTHS = {  # columns whose width does not depend on the terminal
    "": 1,
    "share": 6,
    "ahead": 6,
    "metric": 14,
    "class": 6,
    "growth": 8,
    "points": SPARK_WIDTH,
}
COLUMNS = ("", "share", "ahead", "call path", "metric", "class", "model", "growth", "points")
WIDE_COLUMNS = ("ahead", "growth")  # shown from ROOMY columns
CROWDED = "crowded: "  # before models of times of ranks that shared cores
STATE_STYLES = {
    "sealed": "green",
    "partial": "red",
    "omitted": "dim",
    "measuring": "cyan",
    "closing": "cyan",
}


def column_widths(total: int, *, has_metric: bool, is_wide: bool) -> dict[str, int]:
    """Widths of the columns so that they fill `total`; each has a margin of two."""
    fixed = {
        name: width
        for name, width in FIXED_WIDTHS.items()
        if (has_metric or name != "metric") and (is_wide or name not in WIDE_COLUMNS)
    }
    room = total - sum(fixed.values()) - 2 * (len(fixed) + 2) - SCROLLBAR
    path = max(min(room * 9 // 20, 48), 14)
    flexible = {"call path": path, "model": max(room - path, 12)}
    return {name: (fixed | flexible)[name] for name in COLUMNS if name in fixed | flexible}


def make_cells(
    row: SeriesRow,
    widths: dict[str, int],
    ahead: Outlook,
    *,
    is_new: bool,
    branch: TreeBranch | None,
) -> list[Text]:
    """The cells of a row; only its first row has the call path, as a tree if `branch` is given."""
    if row.text:
        is_crowded = row.text.startswith(CROWDED)
        text = row.text.removeprefix(CROWDED)
        model = Text(cut(text, widths["model"]), style="dim" if is_crowded else "")
    elif row.live is not None:
        model = Text(f"now {quantity(row.live, row.unit)}", style="cyan")
    else:
        model = Text("")

    width = widths["call path"]
    path = last_frames(row.callpath, width) if branch is None else _branch_text(branch, width)
    share, growth = ahead.shares.get(row.callpath), ahead.factors.get(series_id(row))

    cells = {
        "": deviation_mark(row),
        "share": Text(percent(row.share) if is_new else "", justify="right"),
        "ahead": Text(percent(share) if is_new and share is not None else "", justify="right"),
        "call path": Text(path if is_new else "", "bold"),
        "metric": Text(cut(row.metric, FIXED_WIDTHS["metric"])),
        "class": Text(cut(row.shown_class.removesuffix(" only"), FIXED_WIDTHS["class"])),
        "model": model,
        "growth": Text("" if growth is None else format_factor(growth)),
        "points": Text(sparkline(point_values(row), SPARK_WIDTH), style="green"),
    }
    return [cells[name] for name in widths]


def cell_inputs(
    row: SeriesRow,
    ahead: Outlook,
    widths: dict[str, int],
    *,
    is_new: bool,
    branch: TreeBranch | None,
) -> tuple[object, ...]:
    """Everything the cells of a row depend on, to redraw only rows that changed."""
    live = row.live if not row.text else None
    return (
        row.share,
        row.verdict,
        row.text,
        row.points,
        live,
        ahead.shares.get(row.callpath),
        ahead.factors.get(series_id(row)),
        widths,
        is_new,
        branch,
    )


def _branch_text(branch: TreeBranch, width: int) -> str:
    """The frames of a branch, indented by its depth as far as half of the width allows.

    The last one alone if it leaves no room for another.
    """
    indent = min(2 * branch.depth, width // 2)
    room = width - indent
    *callers, name = branch.frames.split(ARROW)
    has_room = len(printable(name)) + len(f"…{ARROW}") <= room
    text = last_frames(branch.frames, room) if callers and has_room else fitted_name(name, room)
    return " " * indent + text


def findings_text(findings: Sequence[Finding], most: int) -> Text:
    """A paragraph per finding, at most `most` of each code."""
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.code, []).append(finding)
    lines = []
    for code, same in kinds.items():
        for finding in same[:most]:
            lines.append(Text.assemble((f"{code}: ", "yellow"), printable(finding.text)))
        if len(same) > most:
            lines.append(Text(f"… and {len(same) - most} more of these; f shows all", "dim"))
    return Text("\n").join(lines or [Text("no findings", style="dim")])


def group_findings(findings: Sequence[Finding], width: int) -> list[Text]:
    """All findings: for each code a title with their number, then a paragraph each."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code, []).append(finding)

    lines = []
    for code, group in groups.items():
        count = f" ({len(group)})" if len(group) > 1 else ""
        lines.append(Text.assemble((printable(code), "bold yellow"), (count, "dim")))
        for finding in group:
            paragraph = textwrap.wrap(
                printable(finding.text), width, initial_indent="  • ", subsequent_indent="    "
            )
            lines += map(Text, paragraph)
    return lines or [Text("no findings", style="dim")]


def run_line(run: RunRow, name: int, width: int) -> Text:
    """A run in one line: name, state, progress of its ranks."""
    style = STATE_STYLES.get(run.state, "")
    line = Text.assemble(
        f"{cut(run.name, name):<{name}} ",
        (f"{describe_state(run):<10} ", style),
        (rank_bar(run, 6), style),
        f" {printable(describe_run(run, time.time()))}",
        no_wrap=True,
    )
    line.truncate(width, overflow="ellipsis")
    return line


def make_detail(row: SeriesRow, parameters: tuple[str, ...]) -> Text:
    """The selected series: call path, model, value of the run in progress, points."""
    error = "" if row.smape is None else f"   error {percent(row.smape / 100)}"
    lines = [
        Text(printable(row.callpath), style="bold"),
        Text(
            printable(f"{row.metric}, class {row.shown_class}: {row.text or 'no model yet'}{error}")
        ),
    ]
    now = deviation_text(row)
    if now:
        lines.append(now)

    names = ",".join(parameters)
    points = [
        f"{','.join(f'{value:g}' for value in at)}: {quantity(value, row.unit)}"
        for at, value in row.points[-12:]
    ]
    if points:
        lines.append(Text(printable(f"{names} = {'   '.join(points)}"), style="dim"))

    return Text("\n").join(lines)
