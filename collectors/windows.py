"""Memory of windows that MPI allocates for the ranks, per call path.

A table has these bytes in a column of the call that creates the window, which receives nothing. In
most libraries this memory is shared between the ranks of a node, and not from the heap. Windows on
memory of the program (`MPI_Win_create`, `MPI_Win_attach`) are in the heap already.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from insitu.collectors.ranks import GaugeValues, Rank
from insitu.collectors.table import MPI, Row
from insitu.entities import WINDOW_BYTES

ALLOCATING_CALLS = frozenset(("MPI_Win_allocate", "MPI_Win_allocate_shared"))


def separate_window_bytes(totals: dict[str, Any], rows: Sequence[Row]) -> None:
    """Move the memory of windows from `bytes_received` to a column of its own.

    Args:
        totals: arrays of shape (n_rows,) by column; `window_bytes` is added if there are windows.
        rows: of the table.
    """
    received = totals.get("bytes_received")
    creating = [i for i, row in enumerate(rows) if _allocates(row)]
    if received is None or not creating:
        return
    window_bytes = array("Q", bytes(8 * len(received)))
    for i in creating:
        if i < len(received):
            window_bytes[i], received[i] = received[i], 0
    totals[WINDOW_BYTES.name] = window_bytes


def window_gauges(rank: Rank, totals: Mapping[str, Any]) -> list[GaugeValues]:
    """The metric `window_bytes` of the calls that allocate windows."""
    window_bytes = totals.get(WINDOW_BYTES.name)
    if window_bytes is None:
        return []

    sums: dict[int, float] = {}  # by row of the node; several threads may have created some
    for i, node_row in enumerate(rank.node_rows[: len(window_bytes)]):
        if _allocates(rank.table.rows[i]) and totals["visits"][i]:
            sums[node_row] = sums.get(node_row, 0.0) + window_bytes[i]
    return [(rank.number, row, {WINDOW_BYTES.name: value}) for row, value in sums.items()]


def _allocates(row: Row) -> bool:
    return row.kind == MPI and row.name in ALLOCATING_CALLS
