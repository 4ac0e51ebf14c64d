"""The ranks of a node, and their values as groups of a message."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from insitu.collectors import smaps
from insitu.collectors.table import DEVICE, FILE, LIBRARY, MPI, STACK, TableReader
from insitu.entities import (
    DETERMINISTIC,
    MESSAGE_CHAIN,
    METRICS,
    PARTNERS,
    POSITIONS,
    WINDOW_BYTES,
)
from insitu.wire.messages import Column, Group

# Metrics that a table counts, as whole numbers. All others are sent as floating-point numbers.
TABLE_METRICS = {
    *("time", "time_exclusive", "allocations", "bytes_allocated", "heap_peak"),
    *(DETERMINISTIC - {PARTNERS.name, MESSAGE_CHAIN.name, WINDOW_BYTES.name}),
}
COLUMNS = tuple(
    Column(m.name, m.unit, m.kind.value, "u8" if m.name in TABLE_METRICS else "f8") for m in METRICS
)
COLUMN_INDEX = {column.name: i for i, column in enumerate(COLUMNS)}

NS_PER_S = 1e9

GaugeValues = tuple[int, int, Mapping[str, float]]  # rank, row of the node, value by metric


@dataclass(slots=True)
class Rank:
    """One rank: its table and what the agent knows about it."""

    table: TableReader
    number: int
    memory: smaps.Memory = field(default_factory=smaps.Memory)
    # The row of the node's dictionary for each row of the table.
    node_rows: array = field(default_factory=lambda: array("I"))  # type: ignore[type-arg]
    marks: int = 0  # number of named marks when the memory was last read
    pages: dict[int, dict[str, int]] = field(default_factory=dict)  # by number of the phase
    throttled_rows: set[int] = field(default_factory=set)
    tick_s: float = 0.0
    is_running: bool = True  # the process that writes the table
    has_ended: bool = False  # and so has the wrapper that started it, if there is one
    # Patterns of the functions to record, and of those not to record.
    selection: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    throttled_before: frozenset[str] = frozenset()  # compiled functions, in earlier runs
    is_final: bool = False  # the totals after the end of all ranks were taken


def table_groups(
    rows: "array[int]",
    kinds: bytes,
    members: list[tuple[Rank, dict[str, Any]]],
    *,
    is_sampled: bool,
) -> list[Group]:
    """The totals of ranks that have the same rows.

    Columns that only rows of MPI, file calls or libraries have are sent for these rows only. Rows
    that were read from stacks have times if they were sampled, and no other columns. What a device
    did has no time of the host.

    Args:
        rows: shape (n_rows,), rows of the node's dictionary.
        kinds: shape (n_rows,), kinds of rows.
        members: the ranks, with the totals of their rows by column.
        is_sampled: whether the ranks were sampled.
    """
    columns = members[0][0].table.columns
    common = [column.name for column in columns if column.kinds == "all"]

    timed_rows = [i for i, kind in enumerate(kinds) if kind not in (STACK, DEVICE)]
    groups = [_table_group(rows, timed_rows, common, members)]
    device_rows = [i for i, kind in enumerate(kinds) if kind == DEVICE]
    if device_rows:
        groups.append(_table_group(rows, device_rows, ["visits"], members))
    stack_rows = [i for i, kind in enumerate(kinds) if kind == STACK]
    if stack_rows and is_sampled:
        groups.append(_table_group(rows, stack_rows, ["time", "time_exclusive"], members))
    for kind_of_row, kind_of_column in ((MPI, "mpi"), (FILE, "file"), (LIBRARY, "library")):
        selection = [i for i, kind in enumerate(kinds) if kind == kind_of_row]
        names = [column.name for column in columns if column.kinds == kind_of_column]
        if selection and any(name in COLUMN_INDEX for name in names):
            groups.append(_table_group(rows, selection, names, members))
    return groups


def _table_group(
    rows: "array[int]",
    selection: Iterable[int],
    names: list[str],
    members: list[tuple[Rank, dict[str, Any]]],
) -> Group:
    """The values of some rows, for those of the columns that messages have."""
    selection = list(selection)
    names = [name for name in names if name in COLUMN_INDEX]
    is_all = len(selection) == len(rows)

    matrices = []
    for name in names:
        lines = []
        for _, totals in members:
            values = totals[name]
            lines.append(values if is_all else array("Q", [values[i] for i in selection]))
        matrices.append(b"".join(line.tobytes() for line in lines))

    return Group(
        ranks=array("i", [rank.number for rank, _ in members]).tobytes(),
        rows=array("I", [rows[i] for i in selection]).tobytes(),
        tick_s=array("d", [rank.tick_s for rank, _ in members]).tobytes(),
        columns=tuple(COLUMN_INDEX[name] for name in names),
        matrices=tuple(matrices),
    )


def root_gauges(rank: Rank) -> GaugeValues:
    """Memory, hardware counters and grid position of a rank, at the root of the call tree.

    Values that the rank itself read at its end take precedence over those that the agent read.
    """
    head, memory = rank.table.header, rank.memory
    sizes = {
        "memory_rss": head.memory_rss or memory.rss,
        "memory_rss_peak": head.memory_rss_peak or memory.rss_peak,
        "memory_pss": head.memory_pss or memory.pss,
        "memory_private": head.memory_private or memory.private,
        "memory_shared": head.memory_shared or memory.shared,
        "memory_mpi": head.memory_mpi,
        "instructions": head.instructions,
        "cycles": head.cycles,
    }
    values = {name: float(value) for name, value in sizes.items() if value}
    if head.cpu_ns:
        values["cpu_time"] = head.cpu_ns / NS_PER_S
    if head.queued_ns:
        values["processor_wait"] = head.queued_ns / NS_PER_S
    if head.blocked_ns:
        values["blocked_time"] = head.blocked_ns / NS_PER_S

    swap = head.memory_swap if head.memory_pss else memory.swap
    if swap is not None:  # no swapped memory is a value, too
        values["memory_swap"] = float(swap)
    for metric, coordinate in zip(POSITIONS, head.cart_coordinates, strict=False):
        values[metric.name] = float(coordinate)
    return rank.number, 0, values


def gauge_groups(gauges: Iterable[GaugeValues]) -> list[Group]:
    """The values of single rows; one group for each row and set of metrics."""
    by_names: dict[tuple[int, tuple[str, ...]], list[tuple[int, list[float]]]] = {}
    for number, row, values in gauges:
        if values:
            members = by_names.setdefault((row, tuple(values)), [])
            members.append((number, list(values.values())))
    return [_gauge_group(row, names, members) for (row, names), members in by_names.items()]


def _gauge_group(row: int, names: tuple[str, ...], members: list[tuple[int, list[float]]]) -> Group:
    columns = zip(*(values for _, values in members), strict=True)
    return Group(
        ranks=array("i", [number for number, _ in members]).tobytes(),
        rows=array("I", [row]).tobytes(),
        tick_s=array("d", [0.0] * len(members)).tobytes(),
        columns=tuple(COLUMN_INDEX[name] for name in names),
        matrices=tuple(array("d", column).tobytes() for column in columns),
    )
