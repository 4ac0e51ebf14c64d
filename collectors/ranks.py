"""The ranks of a node as groups of a message."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from insitu.collectors import smaps
from insitu.collectors.table import TableReader
from insitu.entities import DETERMINISTIC, METRICS, POSITIONS
from insitu.wire.messages import Column, Group

IN_TABLE = {
    *("time", "time_exclusive", "allocations", "bytes_allocated", "heap_peak"),
    *DETERMINISTIC,
}
COLUMNS = tuple(
    Column(m.name, m.unit, m.kind.value, "u8" if m.name in IN_TABLE else "f8") for m in METRICS
)
INDEX = {column.name: i for i, column in enumerate(COLUMNS)}


@dataclass(slots=True)
class Rank:
    """One rank's table and what the node knows of it."""

    table: TableReader
    number: int
    memory: smaps.Memory = field(default_factory=smaps.Memory)
    node_rows: array = field(default_factory=lambda: array("I"))  # type: ignore[type-arg]
    marks: int = 0  # of named phases, when memory was read last
    pages: dict[int, dict[str, int]] = field(default_factory=dict)  # by number of the phase
    throttled_rows: set[int] = field(default_factory=set)
    tick_s: float = 0.0
    has_ended: bool = False
    is_final: bool = False  # the totals after its end have been taken


def table_groups(
    rows: "array[int]", kinds: bytes, members: list[tuple[Rank, dict[str, Any]]]
) -> list[Group]:
    """Times and visits of all rows, bytes of MPI rows only: a column that a row cannot have is not
    sent."""
    ranks = array("i", [rank.number for rank, _ in members]).tobytes()
    tick_s = array("d", [rank.tick_s for rank, _ in members]).tobytes()
    table = members[0][0].table
    everywhere = [c.name for c in table.columns if c.kinds == "all" and c.name in INDEX]
    matrices = tuple(
        b"".join(totals[name].tobytes() for _, totals in members) for name in everywhere
    )
    groups = [
        Group(ranks, rows.tobytes(), tick_s, tuple(INDEX[name] for name in everywhere), matrices)
    ]
    at = [i for i, is_mpi in enumerate(kinds) if is_mpi]
    only_mpi = [c.name for c in table.columns if c.kinds == "mpi" and c.name in INDEX]
    if at and only_mpi:
        matrices = tuple(
            b"".join(array("Q", [totals[name][i] for i in at]).tobytes() for _, totals in members)
            for name in only_mpi
        )
        mpi_rows = array("I", [rows[i] for i in at]).tobytes()
        groups.append(
            Group(ranks, mpi_rows, tick_s, tuple(INDEX[name] for name in only_mpi), matrices)
        )
    return groups


Level = tuple[int, int, Mapping[str, float]]


def of_the_root(rank: Rank) -> dict[str, float]:
    """Memory, hardware counters, and the rank's place in a Cartesian communicator stand at the root
    of the call tree."""
    head = rank.table.header
    memory = {
        "memory_rss": head.memory_rss or rank.memory.rss,
        "memory_rss_peak": head.memory_rss_peak or rank.memory.rss_peak,
        "memory_pss": head.memory_pss or rank.memory.pss,
        "memory_private": head.memory_private or rank.memory.private,
        "memory_shared": head.memory_shared or rank.memory.shared,
        "memory_mpi": head.memory_mpi,
        "instructions": head.instructions,
        "cycles": head.cycles,
    }
    values = {name: float(value) for name, value in memory.items() if value}
    swap = head.memory_swap if head.memory_pss else rank.memory.swap
    if swap is not None:  # that there is none is good to know
        values["memory_swap"] = float(swap)
    for metric, coordinate in zip(POSITIONS, head.cart_coordinates, strict=False):
        values[metric.name] = float(coordinate)
    return values


def level_groups(levels: Iterable[Level]) -> list[Group]:
    """Values of single rows, by rank and row; one group per row and set of values."""
    by_names: dict[tuple[int, tuple[str, ...]], list[tuple[int, list[float]]]] = {}
    for number, row, values in levels:
        if values:
            members = by_names.setdefault((row, tuple(values)), [])
            members.append((number, list(values.values())))
    return [
        Group(
            array("i", [number for number, _ in members]).tobytes(),
            array("I", [row]).tobytes(),
            array("d", [0.0] * len(members)).tobytes(),
            tuple(INDEX[name] for name in names),
            tuple(
                array("d", [values[i] for _, values in members]).tobytes()
                for i in range(len(names))
            ),
        )
        for (row, names), members in by_names.items()
    ]
