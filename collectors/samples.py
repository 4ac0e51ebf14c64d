"""Times of functions that were sampled.

A table counts samples in the rows of the functions in which they were taken, all at the same
interval of CPU time. Here they become times: what a sampled function takes itself is the number of
its samples times the interval.
"""

from array import array
from collections.abc import Mapping, Sequence

from insitu.collectors.table import DEVICE, MPI, STACK, THREAD, Row
from insitu.collectors.table_header import Header

U8_MAX = (1 << 64) - 1


def add_sampled_times(
    totals: Mapping[str, "array[int]"],
    rows: Sequence[Row],
    node_rows: "array[int]",
    header: Header,
    tick_s: float,
) -> None:
    """Replace samples by times, in place.

    The inclusive time of a function adds the sampled times of its callees and the measured times of
    MPI calls. What the samples explain is no longer time of the program itself. The time of a
    thread is that of its functions: between them it waits. It is no time of its creator.

    Args:
        totals: shape (n_rows,) for each column; times are in ticks.
        rows: the rows of the table; a row comes after its parent.
        node_rows: shape (n_rows,), the row of the node's dictionary for each row of the table.
        header: of the table, with the rate of the samples.
        tick_s: seconds per tick.
    """
    visits, time, exclusive = totals["visits"], totals["time"], totals["time_exclusive"]
    interval = 1 / (header.sample_hz * tick_s) if header.sample_hz else 0.0
    sampled = [0] * len(rows)  # ticks of a row and its callees, without MPI calls
    of_callees = [0] * len(rows)  # ticks, with MPI calls
    is_timed = [False] * len(rows)  # a callee was timed otherwise

    for i in reversed(range(len(rows))):  # callees before their callers
        kind, parent = rows[i].kind, rows[i].parent
        if kind == STACK:
            # A damaged table must not stop the agent: no value exceeds its column.
            exclusive[i] = min(round(visits[i] * interval), U8_MAX)
            visits[i] = 0
            sampled[i] += exclusive[i]
            time[i] = min(exclusive[i] + of_callees[i], U8_MAX)
            sampled[parent] += sampled[i]
        elif kind == THREAD and interval and not is_timed[i]:
            time[i] = min(of_callees[i], U8_MAX)
            exclusive[i] = 0
        elif sampled[i]:
            # Samples are drawn: they may exceed what was measured.
            exclusive[i] = max(exclusive[i] - sampled[i], 0)

        if kind != THREAD:  # it runs beside the function that created it
            of_callees[parent] += time[i]
            is_timed[parent] = is_timed[parent] or kind not in (STACK, MPI, DEVICE)
        if kind == STACK and node_rows[i] == node_rows[parent]:
            time[i] = 0  # a copy of its caller: the time of the recursion counts once


def describe_samples(heads: Sequence[Header]) -> dict[str, float]:
    """The share of the samples of some ranks that were taken when they were due, if they have any.

    The task clock takes these, timers the others; see `native/sample.c`.
    """
    taken = sum(head.samples_taken for head in heads)
    if not taken:
        return {}
    return {"precise_samples": round(sum(head.samples_precise for head in heads) / taken, 3)}
