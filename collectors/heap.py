"""Heap memory per call path, from the tables that the native library counts into.

A table counts allocations where they happen. The values sent for a call path include everything
that is called from it. A phase has what the whole process allocates while the phase runs.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from insitu.collectors.table import PHASE, Row
from insitu.wire.messages import Group

NAMES = ("allocations", "bytes_allocated", "heap_growth", "heap_peak")
TYPES = ("Q", "Q", "d", "Q")  # growth is negative where a call path frees what others allocated


@dataclass(frozen=True, slots=True)
class RankHeap:
    """The heap of one rank: for each row of the node's dictionary one value per name."""

    number: int
    values: dict[int, tuple[int, int, int, int]]


def read_heap(
    number: int,
    rows: Sequence[Row],
    node_rows: "array[int]",
    totals: "dict[str, array[int]]",
) -> RankHeap | None:
    """Sum the heap of a rank up its call tree.

    Args:
        number: the rank.
        rows: the rows of its table; a row comes after its parent.
        node_rows: shape (n_rows,), the row of the node's dictionary for each row of the table.
        totals: shape (n_rows,) per name, the values of each row without its callees.

    Returns:
        The inclusive values; None if the allocator of the rank could not be intercepted.
    """
    if any(name not in totals for name in NAMES) or not any(totals["heap_peak"]):
        return None

    calls = totals["allocations"].tolist()
    allocated = totals["bytes_allocated"].tolist()
    peak = totals["heap_peak"].tolist()
    growth = array("q", totals["heap_growth"].tobytes()).tolist()  # stored as unsigned words

    values: dict[int, tuple[int, int, int, int]] = {}
    for i in range(len(rows) - 1, -1, -1):  # callees before their callers
        if not (calls[i] or growth[i] or peak[i]):
            continue

        if i and rows[i].kind != PHASE:  # a phase is not part of its caller
            parent = rows[i].parent
            calls[parent] += calls[i]
            allocated[parent] += allocated[i]
            growth[parent] += growth[i]
            peak[parent] = max(peak[parent], peak[i])

        node_row = node_rows[i]
        if i and node_row == node_rows[rows[i].parent]:
            continue  # a throttled function, which counts as part of its caller

        # Several rows of a rank may be the same call path, for example those of threads.
        before = values.get(node_row, (0, 0, 0, 0))
        values[node_row] = (
            before[0] + calls[i],
            before[1] + allocated[i],
            before[2] + growth[i],
            max(before[3], peak[i]),
        )
    return RankHeap(number, values)


def heap_groups(ranks: Sequence[RankHeap], columns: tuple[int, ...]) -> list[Group]:
    """The heaps as groups of a message. Ranks that allocate in the same rows share a group."""
    by_rows: dict[tuple[int, ...], list[RankHeap]] = {}
    for rank in ranks:
        by_rows.setdefault(tuple(sorted(rank.values)), []).append(rank)
    return [_group(rows, members, columns) for rows, members in by_rows.items() if rows]


def _group(rows: tuple[int, ...], members: list[RankHeap], columns: tuple[int, ...]) -> Group:
    matrices = []
    for i, kind in enumerate(TYPES):
        lines = [array(kind, [rank.values[row][i] for row in rows]) for rank in members]
        matrices.append(b"".join(line.tobytes() for line in lines))
    return Group(
        ranks=array("i", [rank.number for rank in members]).tobytes(),
        rows=array("I", rows).tobytes(),
        tick_s=array("d", [0.0] * len(members)).tobytes(),
        columns=columns,
        matrices=tuple(matrices),
    )
