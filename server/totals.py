"""From the totals of every rank to the table of a run.

A rank's totals stay in the matrices in which they arrived: an arrival costs checks, but no copies.
A table is computed with one scatter operation per matrix when it is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.entities import VISITS, CallPath, Metric, MetricKind
from insitu.errors import WireError
from insitu.modeling.measurement import FloatArray, IntArray, RunTable
from insitu.server.dictionary import Dictionary
from insitu.wire.messages import Column, Group, Totals

DTYPES = {"u8": np.dtype("<u8"), "f8": np.dtype("<f8")}
SECONDS = "s"
MAX_TICK_S = 1.0  # clocks tick in nanoseconds; a slower one is an error
MAX_VALUE = 1e300  # so that sums over the rows of a call path stay finite


@dataclass(frozen=True, slots=True)
class Source:
    """How to read the matrices of one session."""

    columns: tuple[Column, ...]
    dictionary: Dictionary


@dataclass(slots=True)
class MatrixMemory:
    """The memory of a message's matrices, held as long as the register of any rank uses them."""

    size_bytes: int
    ranks: int = 0  # registers that use them

    @classmethod
    def of(cls, totals: Totals) -> "MatrixMemory":
        """The estimated memory of a message."""
        size = 0
        for group in totals.groups:
            size += len(group.rows) + 512  # of its Python objects
            size += sum(len(matrix) for matrix in group.matrices)
        return cls(size)


@dataclass(frozen=True, slots=True)
class Register:
    """The last totals of one rank: its rows in the matrices of the message that brought them."""

    order: tuple[int, int]  # (incarnation, seq): the highest wins
    source: Source
    rows: tuple[tuple[Group, int], ...]
    memory: MatrixMemory = field(default_factory=lambda: MatrixMemory(0))


def dictionary_rows_needed(totals: Totals) -> int:
    """How many rows the dictionary must have to read a message."""
    needed = 0
    for group in totals.groups:
        if group.rows:
            needed = max(needed, int(np.frombuffer(group.rows, "<u4").max()) + 1)
    return needed


def locate_ranks(totals: Totals, source: Source, size: int) -> dict[int, list[tuple[Group, int]]]:
    """Find each rank's rows in the matrices of a message, and check the message.

    Args:
        totals: the message.
        source: how to read it.
        size: the number of ranks of the run.

    Raises:
        WireError: unknown ranks or columns, a rank twice in a group, or numbers out of range.
    """
    rows_by_rank: dict[int, list[tuple[Group, int]]] = {}
    for group in totals.groups:
        ranks = np.frombuffer(group.ranks, "<i4")
        if ranks.size and not 0 <= int(ranks.min()) <= int(ranks.max()) < size:
            raise WireError(
                f"Totals {totals.seq} has a rank that a run of {size} ranks does not have"
            )
        _check_numbers(group, source)

        numbers = ranks.tolist()
        if len(set(numbers)) != len(numbers):
            raise WireError(f"Totals {totals.seq} has a rank twice in one group")
        for row, rank in enumerate(numbers):
            rows_by_rank.setdefault(rank, []).append((group, row))
    return rows_by_rank


def _check_numbers(group: Group, source: Source) -> None:
    ticks = np.frombuffer(group.tick_s, "<f8")
    if not ((ticks >= 0) & (ticks <= MAX_TICK_S)).all():
        raise WireError(f"a clock tick is not between 0 and {MAX_TICK_S} seconds")

    for index, matrix in zip(group.columns, group.matrices, strict=True):
        if index >= len(source.columns):
            raise WireError(f"column {index} was not announced in Hello")
        column = source.columns[index]
        if column.dtype == "f8" and (np.abs(np.frombuffer(matrix, "<f8")) > MAX_VALUE).any():
            raise WireError(f"a value of {column.name} is larger than {MAX_VALUE}")


def totals_of(registers: Mapping[int, Register], last_seq: int, time_ns: int) -> list[Totals]:
    """The registers of one session as messages for the journal, in the order of their seq."""
    by_seq: dict[int, dict[int, Register]] = {last_seq: {}}
    for rank, register in registers.items():
        by_seq.setdefault(register.order[1], {})[rank] = register

    messages = []
    for seq in sorted(by_seq):
        groups = [_select_rows(used.group, used.rows) for used in _used_groups(by_seq[seq])]
        messages.append(Totals(seq, time_ns, tuple(groups)))
    return messages


def table_of(size: int, registers: Mapping[int, Register]) -> RunTable:
    """The values of a run so far: one row per call path, one column per rank.

    Call paths of different nodes are the same if their frames are. Rows of a node with the same
    call path are summed. A value is NaN if the rank never visited the call path.

    Args:
        size: the number of ranks of the run.
        registers: by rank.
    """
    used_groups = _used_groups(registers)
    callpaths = _callpaths_of(used_groups)

    metrics: dict[str, Metric] = {}
    for source in _sources_of(registers):
        for column in source.columns:
            metrics[column.name] = Metric(column.name, column.unit, MetricKind(column.kind))

    values = {name: np.full((len(callpaths), size), np.nan) for name in metrics}
    for used in used_groups:
        _scatter(values, _read_matrices(used), used.ranks)
    table = _without_empty_rows(RunTable(callpaths, tuple(metrics.values()), values))
    return replace(table, sites=_sites_of(_sources_of(registers), table.callpaths))


def arrays_of(registers: Mapping[int, Register], callpaths: int) -> dict[str, FloatArray]:
    """The values of some ranks by metric, each of shape (callpaths, n_ranks).

    Rows are path ids of the run, columns are the given ranks in ascending order.
    """
    names = {column.name for source in _sources_of(registers) for column in source.columns}
    column_of = {rank: i for i, rank in enumerate(sorted(registers))}

    values = {name: np.full((callpaths, len(column_of)), np.nan) for name in names}
    for used in _used_groups(registers):
        _scatter(values, _read_matrices(used), [column_of[rank] for rank in used.ranks])
    return values


def means_of(registers: Mapping[int, Register], names: Sequence[str]) -> dict[CallPath, FloatArray]:
    """The means over ranks of some metrics, without computing the table.

    Returns:
        For each call path, one mean per name and then the number of ranks that have a value of the
        first name: shape (len(names) + 1,). A mean is 0 if no rank has a value of this call path,
        and NaN if none has a value of any call path. If several rows of a node have the same call
        path, the ranks are counted in the row that most ranks visited.
    """
    used_groups = _used_groups(registers)
    callpaths = _callpaths_of(used_groups)
    shape = (len(names), len(callpaths))
    sums, counts = np.zeros(shape), np.zeros(shape)

    for used in used_groups:
        matrices = _read_matrices(used, only=names)
        for i, name in enumerate(names):
            array = matrices.columns.get(name)
            if array is None:
                continue
            has_value = ~np.isnan(array)
            ranks = np.zeros(len(callpaths))
            np.maximum.at(ranks, matrices.path_ids, has_value.sum(axis=1))
            np.add.at(sums[i], matrices.path_ids, np.where(has_value, array, 0.0).sum(axis=1))
            counts[i] += ranks

    sums[~counts.any(axis=1)] = np.nan  # the metric was not measured
    means: FloatArray = np.vstack([sums / np.maximum(counts, 1.0), counts[:1]])
    return {callpath: means[:, i] for i, callpath in enumerate(callpaths)}


def metric_names(registers: Mapping[int, Register]) -> set[str]:
    """The metrics that the sources of some ranks announced, except grid positions."""
    names = set()
    for source in _sources_of(registers):
        for column in source.columns:
            if column.kind != MetricKind.POSITION:
                names.add(column.name)
    return names


def _sources_of(registers: Mapping[int, Register]) -> list[Source]:
    """The different sources of some ranks, ordered by rank."""
    sources = {id(register.source): register.source for _, register in sorted(registers.items())}
    return list(sources.values())


def _sites_of(
    sources: Sequence[Source], callpaths: Sequence[CallPath]
) -> dict[CallPath, tuple[str, int]]:
    """Where the functions of call paths are defined: file and line.

    For a compiled function, the file is that of its machine code, and the line is 0: it can be
    found in debug information when somebody wants to know it.
    """
    # Functions that only lead to MPI calls have no row, but readers look them up, too.
    wanted = {
        CallPath(callpath.frames[:depth])
        for callpath in callpaths
        for depth in range(1, len(callpath.frames) + 1)
    }
    sites: dict[CallPath, tuple[str, int]] = {}
    for source in sources:
        dictionary = source.dictionary
        rows = zip(dictionary.path_ids.tolist(), dictionary.files, dictionary.lines, strict=True)
        for path_id, file, line in rows:
            callpath = dictionary.callpaths.all[path_id]
            if file and callpath in wanted:
                sites.setdefault(callpath, (file, line))
    return sites


def _without_empty_rows(table: RunTable) -> RunTable:
    """Remove metrics and call paths for which no rank has a value."""
    has_values = {name: ~np.isnan(array).all(axis=1) for name, array in table.values.items()}
    metrics = tuple(metric for metric in table.metrics if has_values[metric.name].any())

    is_used = np.zeros(len(table.callpaths), dtype=bool)
    for metric in metrics:
        is_used |= has_values[metric.name]

    callpaths = [table.callpaths[i] for i in np.flatnonzero(is_used)]
    values = {metric.name: table.values[metric.name][is_used] for metric in metrics}
    return RunTable(tuple(callpaths), metrics, values)


@dataclass(frozen=True, slots=True)
class _UsedGroup:
    """A group of a message, and the rows of its matrices that are the last totals of a rank."""

    group: Group
    source: Source
    rows: list[int]
    ranks: list[int]  # of these rows


def _used_groups(registers: Mapping[int, Register]) -> list[_UsedGroup]:
    """The groups that registers refer to, each once, ordered by their first rank."""
    by_group: dict[int, _UsedGroup] = {}
    for rank, register in sorted(registers.items()):
        for group, row in register.rows:
            used = by_group.get(id(group))
            if used is None:
                used = by_group[id(group)] = _UsedGroup(group, register.source, [], [])
            used.rows.append(row)
            used.ranks.append(rank)
    return list(by_group.values())


def _callpaths_of(used_groups: Sequence[_UsedGroup]) -> tuple[CallPath, ...]:
    """The call paths of a run, which all its sources share."""
    return tuple(used_groups[0].source.dictionary.callpaths.all) if used_groups else ()


def _select_rows(group: Group, rows: Sequence[int]) -> Group:
    """The group with only these rows of its matrices."""
    ranks = np.frombuffer(group.ranks, "<i4")
    if len(rows) == ranks.size:
        return group

    shape = (ranks.size, len(group.rows) // 4)
    matrices = [np.frombuffer(matrix, "<u8").reshape(shape) for matrix in group.matrices]
    return Group(
        ranks=ranks[rows].tobytes(),
        rows=group.rows,
        tick_s=np.frombuffer(group.tick_s, "<f8")[rows].tobytes(),
        columns=group.columns,
        matrices=tuple(matrix[rows].tobytes() for matrix in matrices),
    )


@dataclass(frozen=True, slots=True)
class _Matrices:
    """The used rows of a group as numbers, shape (n_rows of the dictionary, n_ranks)."""

    path_ids: IntArray  # shape (n_rows,)
    columns: dict[str, FloatArray]  # by metric; NaN if a rank has no value


def _read_matrices(used: _UsedGroup, only: Sequence[str] = ()) -> _Matrices:
    group, source = used.group, used.source
    path_ids = source.dictionary.path_ids[np.frombuffer(group.rows, "<u4")]
    ticks = np.frombuffer(group.tick_s, "<f8")[used.rows]
    shape = (len(group.ranks) // 4, path_ids.size)

    columns: dict[str, FloatArray] = {}
    for index, matrix in zip(group.columns, group.matrices, strict=True):
        column = source.columns[index]
        if only and column.name not in only:
            continue
        raw = np.frombuffer(matrix, DTYPES[column.dtype]).reshape(shape)[used.rows]
        numbers = raw.T.astype(np.float64)
        if column.dtype == "u8" and column.unit == SECONDS:
            numbers *= ticks
        columns[column.name] = numbers

    visits = columns.get(VISITS.name)
    if visits is not None:
        gauges = {column.name for column in source.columns if column.kind == MetricKind.GAUGE}
        not_visited = visits == 0
        for name, numbers in columns.items():
            # A gauge such as memory may have a value although the rank never entered the row.
            is_absent = not_visited & ~(numbers > 0) if name in gauges else not_visited
            numbers[is_absent] = np.nan

    return _Matrices(path_ids, columns)


def _scatter(values: Mapping[str, FloatArray], matrices: _Matrices, ranks: Sequence[int]) -> None:
    """Add matrices to the arrays of a run, where NaN counts as 0 if there is a value to add."""
    targets, inverse = np.unique(matrices.path_ids, return_inverse=True)
    at = np.ix_(targets, np.asarray(ranks, dtype=np.intp))
    is_one_to_one = targets.size == matrices.path_ids.size  # no two rows have the same call path

    for name, array in matrices.columns.items():
        has_value = ~np.isnan(array)
        sums, has_sum = np.where(has_value, array, 0.0), has_value
        if is_one_to_one:
            order = np.argsort(matrices.path_ids)
            sums, has_sum = sums[order], has_value[order]
        else:
            summands = sums
            sums = np.zeros((targets.size, len(ranks)))
            has_sum = np.zeros(sums.shape, dtype=bool)
            np.add.at(sums, inverse, summands)
            np.logical_or.at(has_sum, inverse, has_value)

        before = values[name][at]
        after = np.where(np.isnan(before), 0.0, before) + sums
        values[name][at] = np.where(has_sum, after, before)
