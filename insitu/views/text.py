"""Boards as text: sparklines, states of ranks, progress, changes between two boards."""

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
from insitu.entities import STATUS_UNKNOWN
from insitu.text import describe_end, list_some, printable
from insitu.units import percent, quantity

BARS = "▁▂▃▄▅▆▇█"
LARGEST_FACTOR = 99_999.5  # larger factors are printed as ">1e5"
FLAT = 0.1  # of the largest value: smaller differences are drawn as a flat line
STATES = {"sealed": "complete", "partial": "incomplete"}  # stored words, and those of texts
MAX_MISSING = 6  # missing ranks that are listed
MAX_LOST_RUNS = 3  # runs that are no longer seen and are named
BY_MEAN = "≈"  # before a value that is the mean over ranks, although their classes differ
BY_MEAN_NOTE = "by the mean over ranks, because the sizes of classes are unknown there"
SIGNS = {AWAITED: "·", MEASURING: "▒", SILENT: "?", ENDED: "█", FAILED: "!", LOST: "×"}


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` finite values as bars: `▁▂▄▆█`. Nearly equal values give a flat line."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if not shown:
        return ""

    low, high = min(shown), max(shown)
    if high - low <= FLAT * max(abs(high), abs(low)):
        return BARS[3] * len(shown)
    steps = (len(BARS) - 1) / (high - low)
    return "".join(BARS[round((value - low) * steps)] for value in shown)


def point_values(row: SeriesRow) -> list[float]:
    """The measured values of a series, ascending by coordinate."""
    return [value for _, value in row.points]


def describe_ranks(run: RunRow) -> str:
    """How many ranks of a run have reported and ended: `3 of 4 heard, 1 ended`."""
    if run.state in ("sealed", "omitted"):
        return f"{run.size} of {run.size} ended"
    if run.state == "partial":
        missing = ", ".join(map(str, run.missing[:MAX_MISSING]))
        more = " …" if len(run.missing) > MAX_MISSING else ""
        return f"{run.ended} of {run.size} ended; missing: {missing}{more}"
    return f"{run.seen} of {run.size} heard, {run.ended} ended"


def describe_failures(run: RunRow) -> str:
    """How the first failed ranks ended: `rank 3: signal 11 (SIGSEGV), rank 5: exit code 2`."""
    return ", ".join(f"rank {rank}: {_describe_status(status)}" for rank, status in run.failures)


def _describe_status(status: int) -> str:
    return "killed, no exit code" if status == STATUS_UNKNOWN else describe_end(status)


def describe_state(run: RunRow) -> str:
    """The state of a run in the words that every view uses."""
    return STATES.get(run.state, run.state)


def rank_bar(run: RunRow, width: int) -> str:
    """The ranks of a run as a bar: full for ended, half for reporting, dots for awaited ranks."""
    size = max(run.size, 1)
    ended = width * run.ended // size
    seen = max(width * run.seen // size, ended)
    return "█" * ended + "▒" * (seen - ended) + "·" * (width - seen)


def describe_agenda(agenda: Agenda | None) -> list[str]:
    """Progress of the planned runs and the time that the others will take; [] without a plan."""
    if agenda is None:
        return []
    words = [f"{agenda.done} of {agenda.done + agenda.left} made"]
    if agenda.left and math.isfinite(agenda.seconds):
        words.append(f"about {format_duration(agenda.seconds)} to go")
    return words


def describe_first_run(campaign: str, agenda: Agenda | None) -> str:
    """How to make the first run of an empty campaign."""
    if agenda is None:
        return f"no run yet: insitu run --campaign {campaign} -- COMMAND measures one"
    runs = f"the {agenda.left} runs" if agenda.left else "the runs"
    return f"no run yet: insitu campaign run {campaign} makes {runs} that campaign.toml plans"


def describe_lost_runs(names: Sequence[str]) -> str:
    """That runs in progress are no longer seen: `p=4#0 is not seen any more: …`."""
    verb, ends = ("is", "it ends") if len(names) == 1 else ("are", "they end")
    return (
        f"{printable(list_some(names, MAX_LOST_RUNS))} {verb} not seen any more, since the"
        f" aggregator ended; what was measured is stored when {ends}"
    )


def list_agenda_changes(before: Agenda | None, after: Agenda | None) -> Iterator[str]:
    """A line with the progress of the campaign if it differs from `before`."""
    if after is None:
        return
    if before is None or (before.done, before.left) != (after.done, after.left):
        yield f"campaign: {', '.join(describe_agenda(after))}"


def describe_run(run: RunRow, now: float) -> str:
    """Progress of a run and the time it will still take at this pace.

    Args:
        run: the run.
        now: seconds since 1970.
    """
    if run.part is None or not run.part > 0:
        return describe_ranks(run)

    words = f"{percent(run.part)} done"
    if 0.0 < run.part < 1.0 and run.started_at:
        left_s = (now - run.started_at) * (1 - run.part) / run.part
        words += f", {format_duration(left_s)} left"
    return f"{words}; {describe_ranks(run)}"


def format_factor(value: float) -> str:
    """A factor in at most eight characters: `× 3.24`, `× 1,630`, `× >1e5`."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "× ∞"
    if value >= LARGEST_FACTOR:
        return "× >1e5"
    return f"× {value:,.0f}" if value >= 1000 else f"× {value:.3g}"


def format_duration(seconds: float) -> str:
    """A rounded duration: `458 ms`, `12 s`, `4 min`, `2.5 h`."""
    if 0 < seconds < 0.95:
        return quantity(seconds, "s")
    if seconds < 90:
        return f"{max(round(seconds), 0)} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def list_changes(before: Board | None, after: Board) -> Iterator[str]:
    """A line for each run, model, deviation and finding of `after` that is not in `before`."""
    runs = {} if before is None else {run.id: run for run in before.runs}
    for run in reversed(after.runs):
        if runs.get(run.id) != run:
            yield f"run {printable(run.name)}: {describe_state(run)}, {describe_ranks(run)}"

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

    printed = set() if before is None else set(before.findings)
    for finding in after.findings:
        if finding not in printed:
            yield f"note: {printable(finding.text)}"


def _key(row: SeriesRow) -> tuple[str, str, str]:
    return row.callpath, row.metric, row.behaviour
