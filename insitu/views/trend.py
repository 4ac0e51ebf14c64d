"""Boards in words and signs: trends of points, ranks of runs, what is new."""

import math
from collections.abc import Iterator, Sequence

from insitu.analysis.board import (
    AWAITED,
    ENDED,
    FAILED,
    LOST,
    MEASURING,
    SILENT,
    Board,
    RunRow,
    SeriesRow,
)
from insitu.analysis.progress import Agenda
from insitu.text import printable
from insitu.units import percent

BARS = "▁▂▃▄▅▆▇█"
MANY = 99_999.5  # times; more is not told exactly
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
    if run.state in ("sealed", "omitted"):
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


SIGNS = {AWAITED: "·", MEASURING: "▒", SILENT: "?", ENDED: "█", FAILED: "!", LOST: "×"}


def agenda_words(agenda: Agenda | None) -> list[str]:
    """How far the runs that campaign.toml asks for are, and how long the others will take."""
    if agenda is None:
        return []
    words = [f"{agenda.done} of {agenda.done + agenda.left} made"]
    if agenda.left and math.isfinite(agenda.seconds):
        words.append(f"about {duration(agenda.seconds)} to go")
    return words


def first_run_words(campaign: str, agenda: Agenda | None) -> str:
    """What makes the first run of a campaign that has none."""
    if agenda is None:
        return f"no run yet: insitu run --campaign {campaign} -- COMMAND measures one"
    many = f"the {agenda.left} runs" if agenda.left else "the runs"
    return f"no run yet: insitu campaign run {campaign} makes {many} that campaign.toml asks for"


def plan_news(before: Agenda | None, after: Agenda | None) -> Iterator[str]:
    """How far the campaign is, where that is new."""
    if after is not None and (
        before is None or (before.done, before.left) != (after.done, after.left)
    ):
        yield f"campaign: {', '.join(agenda_words(after))}"


def run_words(run: RunRow, now: float) -> str:
    """How far a run in progress is, and how long it will take at this pace.

    now: seconds since 1970.
    """
    if run.part is None or not run.part > 0:
        return ranks_of(run)
    words = f"{percent(run.part)} done"
    if 0.0 < run.part < 1.0 and run.started_at:
        left = (now - run.started_at) * (1 - run.part) / run.part
        words += f", {duration(left)} left"
    return f"{words}; {ranks_of(run)}"


def times(value: float) -> str:
    """How many times, in eight characters: `× 3.24`, `× 1,630`, `× >1e5`."""
    if not math.isfinite(value) or value >= MANY:
        return "× ∞" if math.isinf(value) else "–" if math.isnan(value) else "× >1e5"
    return f"× {value:,.0f}" if value >= 1000 else f"× {value:.3g}"


def duration(seconds: float) -> str:
    """Seconds as a person says them: `12 s`, `4 min`, `2.5 h`."""
    if seconds < 90:
        return f"{max(round(seconds), 0)} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def news(before: Board | None, after: Board) -> Iterator[str]:
    """What a person did not know yet, one line each: runs, models, deviations, findings."""
    known = {} if before is None else {run.id: run for run in before.runs}
    for run in reversed(after.runs):
        if known.get(run.id) != run:
            yield f"run {printable(run.name)}: {run.state}, {ranks_of(run)}"
    texts = {} if before is None else {_key(row): row.text for row in before.series}
    for row in after.series:
        if row.text and texts.get(_key(row)) != row.text:
            name = printable(f"{row.callpath} {row.metric} {row.behaviour}")
            yield f"model {name}: {printable(row.text)}"
    marked = set() if before is None else {_key(row) for row in before.series if row.verdict}
    for row in after.series:
        if row.verdict and _key(row) not in marked:
            name = printable(f"{row.callpath} {row.metric} {row.behaviour}")
            yield f"deviation {name}: {row.verdict} than predicted"
    told = set() if before is None else set(before.findings)
    for finding in after.findings:
        if finding not in told:
            yield f"note: {printable(finding.text)}"


def _key(row: SeriesRow) -> tuple[str, str, str]:
    return row.callpath, row.metric, row.behaviour
