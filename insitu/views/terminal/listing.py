"""Runs, call paths and findings as lines of text."""

import time
from collections.abc import Sequence

from rich.text import Text

from insitu.analysis.board import RunRow, SeriesRow
from insitu.analysis.callpaths import last_frames
from insitu.analysis.outlook import Outlook
from insitu.entities import ARROW, Finding
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.terminal.selection import key_of
from insitu.views.terminal.view import SCROLLBAR, cut, deviation_text, mark_of_row
from insitu.views.text import describe_run, format_factor, point_values, rank_bar, sparkline

SPARK = 8
FIXED = {
    "": 1,
    "share": 6,
    "ahead": 6,
    "metric": 14,
    "class": 6,
    "growth": 8,
    "points": SPARK,
}
COLUMNS = ("", "share", "ahead", "call path", "metric", "class", "model", "growth", "points")
ONLY_WIDE = ("ahead", "growth")
STATES = {
    "sealed": "green",
    "partial": "red",
    "omitted": "dim",
    "measuring": "cyan",
    "closing": "cyan",
}


def column_widths(total: int, *, has_metric: bool, is_wide: bool) -> dict[str, int]:
    """Columns that fill the width; each takes two more for its margins."""
    fixed = {
        name: width
        for name, width in FIXED.items()
        if (has_metric or name != "metric") and (is_wide or name not in ONLY_WIDE)
    }
    room = total - sum(fixed.values()) - 2 * (len(fixed) + 2) - SCROLLBAR
    path = max(min(room * 9 // 20, 48), 14)
    flexible = {"call path": path, "model": max(room - path, 12)}
    return {name: (fixed | flexible)[name] for name in COLUMNS if name in fixed | flexible}


def cells(
    row: SeriesRow, widths: dict[str, int], ahead: Outlook, *, is_new: bool, is_tree: bool
) -> list[Text]:
    """One line of the table; the call path stands only in its first one."""
    if row.text:
        model = Text(cut(row.text, widths["model"]))
    elif row.live is not None:
        model = Text(f"now {quantity(row.live, row.unit)}", style="cyan")
    else:
        model = Text("")
    name = _branch(row.callpath) if is_tree else row.callpath
    path = (cut if is_tree else last_frames)(name, widths["call path"])
    share, growth = ahead.shares.get(row.callpath), ahead.factors.get(key_of(row))
    found = {
        "": mark_of_row(row),
        "share": Text(percent(row.share) if is_new else "", justify="right"),
        "ahead": Text(percent(share) if is_new and share is not None else "", justify="right"),
        "call path": Text(path if is_new else "", "bold"),
        "metric": Text(cut(row.metric, FIXED["metric"])),
        "class": Text(cut(row.behaviour, FIXED["class"])),
        "model": model,
        "growth": Text("" if growth is None else format_factor(growth)),
        "points": Text(sparkline(point_values(row), SPARK), style="green"),
    }
    return [found[name] for name in widths]


def sources(
    row: SeriesRow, ahead: Outlook, widths: dict[str, int], is_new: bool, order: str
) -> tuple[object, ...]:
    """All that a line is made of; while models stay as they are little of it changes."""
    live = row.live if not row.text else None
    told = row.share, row.verdict, row.text, row.points, live
    return (
        *told,
        ahead.shares.get(row.callpath),
        ahead.factors.get(key_of(row)),
        widths,
        is_new,
        order,
    )


def _branch(callpath: str) -> str:
    """The last frame, as far to the right as it has callers."""
    frames = callpath.split(ARROW)
    return "  " * (len(frames) - 1) + frames[-1]


def findings_text(findings: Sequence[Finding], most: int) -> Text:
    """A paragraph per finding, `most` of each kind."""
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.code, []).append(finding)
    lines = []
    for code, alike in kinds.items():
        lines += [
            Text.assemble((f"{code}: ", "yellow"), printable(one.text)) for one in alike[:most]
        ]
        if len(alike) > most:
            lines.append(Text(f"… and {len(alike) - most} more like this; f shows all", "dim"))
    return Text("\n").join(lines or [Text("no findings", style="dim")])


def run_line(run: RunRow, name: int, width: int) -> Text:
    """A run in one line: name, state, how far its ranks are."""
    style = STATES.get(run.state, "")
    parts = [
        (f"{cut(run.name, name):<{name}} ", ""),
        (f"{run.state:<10}", style),
        (rank_bar(run, 6), style),
    ]
    line = Text.assemble(*parts, f" {printable(describe_run(run, time.time()))}", no_wrap=True)
    line.truncate(width, overflow="ellipsis")
    return line


def detail(row: SeriesRow, parameters: tuple[str, ...]) -> Text:
    """Everything about the chosen series."""
    error = "" if row.smape is None else f"   error {percent(row.smape / 100)}"
    lines = [
        Text(printable(row.callpath), style="bold"),
        Text(
            printable(f"{row.metric}, class {row.behaviour}: {row.text or 'no model yet'}{error}")
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
