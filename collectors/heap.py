"""Heap memory of a node's ranks per call path, from the tables that the native library counts
into.

The table counts where a block comes and goes; what is told of a call path includes all that is
called from there. A phase has what the whole process allocates while it runs.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from insitu.collectors.table import PHASE, Row
from insitu.wire.messages import Group

NAMES = ("allocations", "bytes_allocated", "heap_growth", "heap_peak")
TYPES = ("Q", "Q", "d", "Q")  # growth may be negative: a call path may free what others made


@dataclass(frozen=True, slots=True)
class RankHeap:
    """One rank's heap: for each row of the node's dictionary one value per name."""

    number: int
    values: dict[int, tuple[int, int, int, int]]


def heap_of(
    number: int,
    rows: Sequence[Row],
    node_rows: "array[int]",
    totals: "dict[str, array[int]]",
) -> RankHeap | None:
    """The inclusive values of a rank's rows; None where its allocator could not be followed."""
    if not all(name in totals for name in NAMES) or not any(totals["heap_peak"]):
        return None
    calls, allocated, peak = (
        totals[name].tolist() for name in ("allocations", "bytes_allocated", "heap_peak")
    )
    growth = array("q", totals["heap_growth"].tobytes()).tolist()
    values: dict[int, tuple[int, int, int, int]] = {}
    for i in range(len(rows) - 1, -1, -1):  # a row stands behind its parent
        if not (calls[i] or growth[i] or peak[i]):
            continue
        if i and rows[i].kind != PHASE:  # a phase is no part of what called it
            parent = rows[i].parent
            calls[parent] += calls[i]
            allocated[parent] += allocated[i]
            growth[parent] += growth[i]
            peak[parent] = max(peak[parent], peak[i])
        place = node_rows[i]
        if i and place == node_rows[rows[i].parent]:
            continue  # a throttled function is part of its caller
        before = values.get(place, (0, 0, 0, 0))  # several rows of a rank may be one call path
        values[place] = (
            before[0] + calls[i],
            before[1] + allocated[i],
            before[2] + growth[i],
            max(before[3], peak[i]),
        )
    return RankHeap(number, values)


def groups(ranks: Sequence[RankHeap], columns: tuple[int, ...]) -> list[Group]:
    """As messages carry them; ranks that allocate in the same rows share a group."""
    by_rows: dict[tuple[int, ...], list[RankHeap]] = {}
    for rank in ranks:
        by_rows.setdefault(tuple(sorted(rank.values)), []).append(rank)
    return [
        Group(
            array("i", [rank.number for rank in members]).tobytes(),
            array("I", rows).tobytes(),
            array("d", [0.0] * len(members)).tobytes(),
            columns,
            tuple(
                b"".join(
                    array(kind, [rank.values[row][i] for row in rows]).tobytes() for rank in members
                )
                for i, kind in enumerate(TYPES)
            ),
        )
        for rows, members in by_rows.items()
        if rows
    ]
