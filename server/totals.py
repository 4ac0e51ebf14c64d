"""From the totals of every rank to the table of a run.

A rank's totals stay in the matrices in which they arrived; arriving costs checks, not copies. The
table is made by one scatter per matrix when somebody wants to see it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.entities import VISITS, CallPath, Metric, MetricKind
from insitu.errors import WireError
from insitu.modeling.measurement import FloatArray, IntArray, RunTable
from insitu.server.dictionary import Dictionary
from insitu.wire.messages import Column, Group, Totals

DTYPES = {"u8": np.dtype("<u8"), "f8": np.dtype("<f8")}
SECONDS = "s"
LONGEST_TICK_S = 1.0  # clocks tick in nanoseconds; what is slower was never a clock
LARGEST = 1e300  # sums over the rows of a call path stay finite


@dataclass(frozen=True, slots=True)
class Source:
    """How the columns of one session are to be read."""

    columns: tuple[Column, ...]
    dictionary: Dictionary


@dataclass(slots=True)
class Arrival:
    """What a message brought; it stays in memory as long as a rank's register points to it."""

    size_bytes: int
    ranks: int = 0

    @classmethod
    def of(cls, totals: Totals) -> "Arrival":
        """The room that a message takes."""
        columns = (len(matrix) for group in totals.groups for matrix in group.matrices)
        return cls(sum(columns) + sum(len(group.rows) + 512 for group in totals.groups))


@dataclass(frozen=True, slots=True)
class Register:
    """The last totals of one rank: its lines in the groups of the message that brought them."""

    order: tuple[int, int]  # incarnation, seq: the highest wins
    source: Source
    lines: tuple[tuple[Group, int], ...]
    arrival: Arrival = field(default_factory=lambda: Arrival(0))


def rows_needed(totals: Totals) -> int:
    """How many rows the dictionary must have for a message to be read."""
    return max(
        (int(np.frombuffer(g.rows, "<u4").max()) + 1 for g in totals.groups if g.rows), default=0
    )


def lines_of(totals: Totals, source: Source, size: int) -> dict[int, list[tuple[Group, int]]]:
    """Where each rank's totals stand in a message; what does not fit the session is refused.

    Raises:
        WireError: unknown ranks or columns, a rank twice in a group, numbers too large.
    """
    found: dict[int, list[tuple[Group, int]]] = {}
    for group in totals.groups:
        ranks = np.frombuffer(group.ranks, "<i4")
        if ranks.size and not 0 <= int(ranks.min()) <= int(ranks.max()) < size:
            raise WireError(f"Totals {totals.seq} has a rank that the run of {size} has not")
        _check_numbers(group, source)
        numbers = ranks.tolist()
        if len(set(numbers)) != len(numbers):
            raise WireError(f"Totals {totals.seq} has a rank twice in one group")
        for line, rank in enumerate(numbers):
            found.setdefault(rank, []).append((group, line))
    return found


def _check_numbers(group: Group, source: Source) -> None:
    ticks = np.frombuffer(group.tick_s, "<f8")
    if not ((ticks >= 0) & (ticks <= LONGEST_TICK_S)).all():
        raise WireError(f"a tick that is not 0 to {LONGEST_TICK_S} seconds long")
    for column, matrix in zip(group.columns, group.matrices, strict=True):
        if column >= len(source.columns):
            raise WireError(f"column {column} was not announced in Hello")
        is_float = source.columns[column].dtype == "f8"
        if is_float and (np.abs(np.frombuffer(matrix, "<f8")) > LARGEST).any():
            raise WireError(f"a value of {source.columns[column].name} beyond {LARGEST}")


def totals_of(registers: Mapping[int, Register], last_seq: int, time_ns: int) -> list[Totals]:
    """The registers of one session as messages for the journal, in the order of their seq."""
    by_seq: dict[int, dict[int, Register]] = {last_seq: {}}
    for rank, register in registers.items():
        by_seq.setdefault(register.order[1], {})[rank] = register
    return [
        Totals(seq, time_ns, tuple(_part(g, lines) for g, _, lines, _ in _chosen(by_seq[seq])))
        for seq in sorted(by_seq)
    ]


def table_of(size: int, registers: Mapping[int, Register]) -> RunTable:
    """The values of a run as they are known: one row per call path, one column per rank.

    Call paths of different nodes are joined by their frames; rows that stand for the same call path
    are summed; a row that a rank never visited is NaN for that rank.
    """
    chosen = _chosen(registers)
    callpaths = _callpaths_of(chosen)
    sources = {id(source): source for _, source, _, _ in chosen}.values()
    metrics = {
        c.name: Metric(c.name, c.unit, MetricKind(c.kind)) for s in sources for c in s.columns
    }
    values = {name: np.full((len(callpaths), size), np.nan) for name in metrics}
    for group, source, lines, ranks in chosen:
        _scatter(values, _read(group, source, lines), ranks)
    return _without_blanks(RunTable(callpaths, tuple(metrics.values()), values))


def arrays_of(registers: Mapping[int, Register], callpaths: int) -> dict[str, FloatArray]:
    """The values of some ranks, ascending, by metric: a row for each place of a call path."""
    chosen = _chosen(registers)
    columns = {id(source): {c.name for c in source.columns} for _, source, _, _ in chosen}
    names = set[str]().union(*columns.values())
    place = {rank: i for i, rank in enumerate(sorted(registers))}
    values = {name: np.full((callpaths, len(place)), np.nan) for name in names}
    for group, source, lines, ranks in chosen:
        _scatter(values, _read(group, source, lines), [place[rank] for rank in ranks])
    return values


def _callpaths_of(chosen: "_Chosen") -> tuple[CallPath, ...]:
    """The call paths that the sources of a run share."""
    return tuple(chosen[0][1].dictionary.callpaths.all) if chosen else ()


def means_of(registers: Mapping[int, Register], names: Sequence[str]) -> dict[CallPath, FloatArray]:
    """The means over ranks of some metrics, without the table that they would be read from.

    For each call path one number per name, 0 where no rank has a value, NaN where none has one of
    any call path, and at last the number of ranks that have a value of the first name. Where
    several rows of a node stand for one call path, the ranks that visited the most visited of them
    are counted.
    """
    chosen = _chosen(registers)
    callpaths = _callpaths_of(chosen)
    sums, counts = np.zeros((len(names), len(callpaths))), np.zeros((len(names), len(callpaths)))
    for group, source, lines, _ in chosen:
        numbers = _read(group, source, lines, only=names)
        for i, name in enumerate(names):
            array = numbers.columns.get(name)
            if array is not None:
                there = ~np.isnan(array)
                here = np.zeros(len(callpaths))
                np.maximum.at(here, numbers.places, there.sum(axis=1))
                np.add.at(sums[i], numbers.places, np.where(there, array, 0.0).sum(axis=1))
                counts[i] += here
    sums[~counts.any(axis=1)] = np.nan  # not measured
    means: FloatArray = np.vstack([sums / np.maximum(counts, 1.0), counts[:1]])
    return {callpath: means[:, i] for i, callpath in enumerate(callpaths)}


def names_in(registers: Mapping[int, Register]) -> set[str]:
    """The metrics that some ranks may have, except where a rank is."""
    sources = {id(register.source): register.source for register in registers.values()}
    columns = (column for source in sources.values() for column in source.columns)
    return {column.name for column in columns if column.kind != MetricKind.POSITION}


def _without_blanks(table: RunTable) -> RunTable:
    """Leave out metrics and call paths for which no rank has a value."""
    known = {name: ~np.isnan(array).all(axis=1) for name, array in table.values.items()}
    metrics = tuple(metric for metric in table.metrics if known[metric.name].any())
    filled = np.zeros(len(table.callpaths), dtype=bool)
    for metric in metrics:
        filled |= known[metric.name]
    return RunTable(
        tuple(
            callpath
            for callpath, is_filled in zip(table.callpaths, filled, strict=True)
            if is_filled
        ),
        metrics,
        {metric.name: table.values[metric.name][filled] for metric in metrics},
    )


_Chosen = list[tuple[Group, Source, list[int], list[int]]]


def _chosen(registers: Mapping[int, Register]) -> _Chosen:
    """Each group with its source, the lines of it that count, and the ranks they belong to."""
    found: dict[int, tuple[Group, Source, list[int], list[int]]] = {}
    for rank, register in sorted(registers.items()):
        for group, line in register.lines:
            entry = found.setdefault(id(group), (group, register.source, [], []))
            entry[2].append(line)
            entry[3].append(rank)
    return list(found.values())


def _part(group: Group, lines: Sequence[int]) -> Group:
    """These lines of a group as a group of their own."""
    ranks = np.frombuffer(group.ranks, "<i4")
    if len(lines) == ranks.size:
        return group
    shape = (ranks.size, len(group.rows) // 4)
    return Group(
        ranks[lines].tobytes(),
        group.rows,
        np.frombuffer(group.tick_s, "<f8")[lines].tobytes(),
        group.columns,
        tuple(np.frombuffer(m, "<u8").reshape(shape)[lines].tobytes() for m in group.matrices),
    )


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Some lines of a group as numbers (call path × rank), NaN where there is none."""

    places: IntArray  # of its call paths, one for each row
    columns: dict[str, FloatArray]


def _read(group: Group, source: Source, lines: Sequence[int], only: Sequence[str] = ()) -> _Numbers:
    places = source.dictionary.places[np.frombuffer(group.rows, "<u4")]
    ticks = np.frombuffer(group.tick_s, "<f8")[lines]
    shape = (len(group.ranks) // 4, places.size)
    columns: dict[str, FloatArray] = {}
    levels = {column.name for column in source.columns if column.kind == MetricKind.GAUGE}
    for index, matrix in zip(group.columns, group.matrices, strict=True):
        column = source.columns[index]
        if only and column.name not in only:
            continue
        raw = np.frombuffer(matrix, DTYPES[column.dtype]).reshape(shape)[lines]
        numbers = raw.T.astype(np.float64)
        if column.dtype == "u8" and column.unit == SECONDS:
            numbers *= ticks
        columns[column.name] = numbers
    visits = columns.get(VISITS.name)
    if visits is not None:
        absent = visits == 0
        for name, numbers in columns.items():  # memory may be known of a row that was not entered
            numbers[absent & ~(numbers > 0) if name in levels else absent] = np.nan
    return _Numbers(places, columns)


def _scatter(values: Mapping[str, FloatArray], numbers: _Numbers, ranks: Sequence[int]) -> None:
    """Add numbers to the arrays of a run; where nothing was yet, NaN gives way to the number."""
    targets, inverse = np.unique(numbers.places, return_inverse=True)
    at = np.ix_(targets, np.asarray(ranks, dtype=np.intp))
    is_plain = targets.size == numbers.places.size  # each row stands for a call path of its own
    for name, array in numbers.columns.items():
        there = ~np.isnan(array)
        sums, known = np.where(there, array, 0.0), there
        if is_plain:
            order = np.argsort(numbers.places)
            sums, known = sums[order], there[order]
        else:
            plain = sums
            sums = np.zeros((targets.size, len(ranks)))
            known = np.zeros(sums.shape, dtype=bool)
            np.add.at(sums, inverse, plain)
            np.logical_or.at(known, inverse, there)
        before = values[name][at]
        merged = np.where(np.isnan(before), 0.0, before) + sums
        values[name][at] = np.where(known, merged, before)
