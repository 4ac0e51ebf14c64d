"""Boards in words and signs: trends of points, ranks of runs, what is new."""

import math
from collections.abc import Iterator, Sequence

from insitu.monitor.board import Board, RunRow, SeriesRow
from insitu.monitor.names import printable

BARS = "▁▂▃▄▅▆▇█"
FLAT = 0.1  # of the largest value: smaller differences are no trend


def spark(values: Sequence[float], width: int) -> str:
    """The last values as bars, one character each: `▁▂▄▆█`; a level line where they are alike."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    if high - low <= FLAT * max(abs(high), abs(low)):
        return BARS[3] * len(shown)
    steps = (len(BARS) - 1) / (high - low)
    return "".join(BARS[round((value - low) * steps)] for value in shown)


def points_of(row: SeriesRow) -> list[float]:
    """The measured values of a series, ascending by coordinate."""
    return [value for _, value in row.points]


def ranks_of(run: RunRow) -> str:
    """How far the ranks of a run are, in words."""
    if run.state == "sealed":
        return f"{run.size} of {run.size} ended"
    if run.state == "partial":
        lost = ", ".join(map(str, run.missing[:6])) + (" …" if len(run.missing) > 6 else "")
        return f"{run.ended} of {run.size} ended; missing: {lost}"
    return f"{run.seen} of {run.size} heard, {run.ended} ended"


def bar(run: RunRow, width: int) -> str:
    """The same as a bar: full where a rank has ended, half where it was heard."""
    size = max(run.size, 1)
    ended = width * run.ended // size
    seen = max(width * run.seen // size, ended)
    return "█" * ended + "▒" * (seen - ended) + "·" * (width - seen)


def news(before: Board | None, after: Board) -> Iterator[str]:
    """What a person did not know yet, one line each: runs, models, findings."""
    known = {} if before is None else {run.id: run for run in before.runs}
    for run in reversed(after.runs):
        if known.get(run.id) != run:
            yield f"run {printable(run.name)}: {run.state}, {ranks_of(run)}"
    texts = {} if before is None else {_key(row): row.text for row in before.series}
    for row in after.series:
        if row.text and texts.get(_key(row)) != row.text:
            name = printable(f"{row.callpath} {row.metric} {row.behaviour}")
            yield f"model {name}: {printable(row.text)}"
    told = set() if before is None else set(before.findings)
    for finding in after.findings:
        if finding not in told:
            yield f"note: {printable(finding.text)}"


def _key(row: SeriesRow) -> tuple[str, str, str]:
    return row.callpath, row.metric, row.behaviour
