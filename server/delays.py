"""Who causes the waiting in collective calls and for messages across nodes, for the table of a run.

Agents send what their ranks did in intervals between collective calls, the same ones on all nodes.
The calls that end the intervals bound the offsets of the clocks, as in `collectives`. The times of
the ranks of a call are converted to one clock, and compared as on a single node
(`insitu.collectors.intervals`). A call counts if the clocks are known well enough for its waiting.

For messages, `message_waits` has found who was late; what ranks did is compared by their own clocks
in the interval that contains the call.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from insitu.collectors.delay_reports import delay_gauges, describe_delays
from insitu.collectors.intervals import Member, RankIntervals, compare_calls
from insitu.collectors.late_messages import LateCall
from insitu.collectors.table import COMPILED, MPI
from insitu.collectors.table_events import IntervalEvent
from insitu.entities import DELAY_COST, CallPath
from insitu.modeling.measurement import FloatArray, IntArray, RunTable
from insitu.server.collectives import (
    NS_PER_S,
    Keys,
    NodeCollectives,
    add_values,
    find_bounding_calls,
)
from insitu.server.round_trips import ListenerClocks
from insitu.server.wait_intervals import Booleans, WaitIntervals, wait_intervals
from insitu.wire.messages import COLLECTIVES_BYTES, INTERVALS_BYTES, Collectives, Intervals

# Half the width of the interval in which the last rank came, by the clock of the node that knows it
# worst, as a share of the longest waiting in the call.
MAX_UNCERTAINTY = 0.1


@dataclass(frozen=True, slots=True)
class NodeIntervals:
    """The intervals of a node, its sampled calls, and the path id of each row of its dictionary."""

    intervals: Intervals
    collectives: Collectives
    path_ids: IntArray


@dataclass(frozen=True, slots=True)
class _Columns:
    """The intervals of all nodes: arrays of shape (n_intervals,), times in ns of the node's clock.

    The profile of interval i is `profile_paths` and `profile_ns` from `firsts[i]` on, `counts[i]`
    elements; paths are -1 where they are not known.
    """

    keys: Keys
    previous_keys: Keys
    nodes: IntArray
    ranks: IntArray
    members: IntArray
    sizes: IntArray
    paths: IntArray
    needs: IntArray
    starts: IntArray
    begins: IntArray
    ends: IntArray
    firsts: IntArray
    counts: IntArray
    profile_paths: IntArray
    profile_ns: FloatArray


@dataclass(frozen=True, slots=True)
class _CallClocks:
    """Which calls are used, by index of their keys; and clocks against that of each call.

    Offsets are those of `pairs`, the index of a call times the number of nodes plus the node.
    """

    keys: Keys
    is_known: Booleans
    pairs: IntArray
    offsets_ns: FloatArray
    n_nodes: int


def add_delays(
    table: RunTable,
    nodes: Sequence[NodeIntervals],
    callpaths: Sequence[CallPath],
    late_calls: Sequence[LateCall] = (),
) -> tuple[RunTable, list[Mapping[str, Any]]]:
    """The table of a run with the costs of delays across nodes, and the waiting with its causes.

    Args:
        table: of a complete run.
        nodes: what each node has sent.
        callpaths: of the run, by path id.
        late_calls: those that waited for messages of other nodes, as `add_message_waiting` says.

    Returns:
        The table, and JSON as in `describe_delays`.
    """
    if not any(node.intervals.keys for node in nodes):
        return table, []

    mpi_paths: set[int] = set()
    for node in nodes:
        rows = np.frombuffer(node.intervals.mpi_rows, "<u4").astype(np.intp)
        mpi_paths.update(node.path_ids[rows[rows < node.path_ids.size]].tolist())
    columns = _read_columns(nodes, table.size)
    clocks = _compare_clocks(nodes, table.size)
    ranks = _RanksOfRun(nodes, n_paths=len(callpaths), mpi_paths=mpi_paths)
    with_intervals, by_index = _join_messages(columns, ranks, late_calls)
    calls = _list_calls(columns, clocks, ranks)
    delays = compare_calls(calls, mpi_paths, with_intervals, by_index)

    table_rows = {callpath: row for row, callpath in enumerate(table.callpaths)}
    costs = np.full((len(table.callpaths), table.size), np.nan)
    for rank, path, values in delay_gauges(delays):
        row = table_rows.get(callpaths[path])
        if row is not None:
            costs[row, rank] = values[DELAY_COST.name]
    return add_values(table, DELAY_COST, costs), describe_delays(delays, callpaths)


class _RanksOfRun:
    """The ranks of a run without their intervals, made when they are used first."""

    def __init__(
        self, nodes: Sequence[NodeIntervals], *, n_paths: int, mpi_paths: set[int]
    ) -> None:
        self._nodes = nodes
        self._rows = range(n_paths)
        self._kinds = [MPI if path in mpi_paths else COMPILED for path in self._rows]
        self._ranks: dict[tuple[int, int], RankIntervals] = {}

    def get(self, node: int, rank: int) -> RankIntervals:
        """A rank, whose profiles are in ns by path id."""
        if (node, rank) not in self._ranks:
            intervals = self._nodes[node].intervals
            self._ranks[node, rank] = RankIntervals(
                number=rank,
                events=(),
                threshold=intervals.threshold_ns,
                node_rows=self._rows,
                kinds=self._kinds,
                tick_s=1 / NS_PER_S,
                sample_s=float(intervals.is_sampled),
            )
        return self._ranks[node, rank]


def _read_columns(nodes: Sequence[NodeIntervals], size: int) -> _Columns:
    """The intervals of all nodes. Those whose numbers are out of range are left out."""
    keys, previous_keys = [], []
    columns: dict[str, list[IntArray]] = {}
    profile_paths, profile_ns = [np.zeros(0, np.intp)], [np.zeros(0)]
    n_profiles = 0
    for number, node in enumerate(nodes):
        sent = node.intervals
        read = {
            name: np.frombuffer(getattr(sent, name), f"<u{width}").astype(np.int64)
            for name, width in INTERVALS_BYTES.items()
            if name not in ("keys", "previous_keys", "needs")
        }
        read["needs"] = np.frombuffer(sent.needs, "<i4").astype(np.int64)
        rows = np.frombuffer(sent.profile_rows, "<u4").astype(np.intp)
        with np.errstate(invalid="ignore"):  # of a damaged table
            seconds = np.frombuffer(sent.profile_seconds, "<f4").astype(float)
        if int(read["counts"].sum()) != rows.size:
            continue  # nobody knows whose profiles these are

        n_paths = node.path_ids.size
        is_valid = (read["rows"] < n_paths) & (read["ranks"] < size)
        is_valid &= read["members"] < read["sizes"]
        is_valid &= (read["starts"] >= 0) & (read["starts"] <= read["begins"])
        is_valid &= read["begins"] <= read["ends"]
        read["rows"][is_valid] = node.path_ids[read["rows"][is_valid]]
        read["nodes"] = np.full(is_valid.size, number)
        read["firsts"] = np.cumsum(read["counts"]) - read["counts"] + n_profiles
        for name, column in read.items():
            columns.setdefault(name, []).append(column[is_valid])
        keys.append(np.frombuffer(sent.keys, "<u8")[is_valid])
        previous_keys.append(np.frombuffer(sent.previous_keys, "<u8")[is_valid])

        is_known = (rows < n_paths) & np.isfinite(seconds)
        paths = np.full(rows.size, -1, dtype=np.intp)
        paths[is_known] = node.path_ids[rows[is_known]]
        profile_paths.append(paths)
        profile_ns.append(np.where(is_known, seconds, 0.0) * NS_PER_S)
        n_profiles += rows.size

    def join(name: str) -> IntArray:
        return np.concatenate(columns.get(name, [np.zeros(0, np.int64)]))

    no_keys = np.zeros(0, np.uint64)
    return _Columns(
        keys=np.concatenate([no_keys, *keys]),
        previous_keys=np.concatenate([no_keys, *previous_keys]),
        nodes=join("nodes"),
        ranks=join("ranks"),
        members=join("members"),
        sizes=join("sizes"),
        paths=join("rows"),
        needs=join("needs"),
        starts=join("starts"),
        begins=join("begins"),
        ends=join("ends"),
        firsts=join("firsts"),
        counts=join("counts"),
        profile_paths=np.concatenate(profile_paths),
        profile_ns=np.concatenate(profile_ns),
    )


def _compare_clocks(nodes: Sequence[NodeIntervals], size: int) -> _CallClocks:
    """The clocks of the nodes in each call, from all calls that bound them."""
    calls_of_nodes = [
        NodeCollectives(_with_ends(node.collectives, node.intervals), node.path_ids)
        for node in nodes
    ]
    events, keys = find_bounding_calls(calls_of_nodes, size)
    is_steady = np.array([node.collectives.is_steady for node in nodes])
    listeners = ListenerClocks([node.collectives for node in nodes])
    waits = wait_intervals(events, is_steady, listeners)

    pairs, firsts = np.unique(events.calls * len(nodes) + events.nodes, return_index=True)
    return _CallClocks(
        keys=keys,
        is_known=_find_known(events.calls, waits, keys.size),
        pairs=pairs,
        offsets_ns=waits.offsets[firsts] * NS_PER_S,
        n_nodes=len(nodes),
    )


def _find_known(calls: IntArray, waits: WaitIntervals, n_calls: int) -> Booleans:
    """Which calls fit together on clocks that are known well compared with the longest waiting.

    Args:
        calls: of each event, (n_events,).
        waits: of each event.
        n_calls: the number of all calls, also those without events.
    """
    longest, half_widths = np.zeros(n_calls), np.zeros(n_calls)
    np.maximum.at(longest, calls, (waits.low + waits.high) / 2)  # NaN wins
    np.maximum.at(half_widths, calls, waits.clocks)
    with np.errstate(invalid="ignore"):  # a comparison with NaN is false
        is_known: Booleans = (longest > 0) & (half_widths <= MAX_UNCERTAINTY * longest)
    return is_known


def _with_ends(collectives: Collectives, intervals: Intervals) -> Collectives:
    """The sampled calls of a node, and those that end intervals, each once in each rank."""
    if not intervals.keys:
        return collectives
    count = len(intervals.keys) // INTERVALS_BYTES["keys"]
    columns = {
        name: getattr(collectives, name) + getattr(intervals, name) for name in COLLECTIVES_BYTES
    }
    arrivals = (collectives.arrivals or collectives.begins) + intervals.begins
    weights = np.ones(len(columns["keys"]) // 8, "<f4")
    if collectives.weights:
        weights[: weights.size - count] = np.frombuffer(collectives.weights, "<f4")

    keys, ranks = np.frombuffer(columns["keys"], "<u8"), np.frombuffer(columns["ranks"], "<u4")
    order = np.lexsort((ranks, keys))  # a stable sort: sampled calls come first
    is_first = np.append(
        True, (keys[order][1:] != keys[order][:-1]) | (ranks[order][1:] != ranks[order][:-1])
    )
    chosen = np.sort(order[is_first])

    def choose(column: bytes, width: int) -> bytes:
        values: bytes = np.frombuffer(column, f"<u{width}")[chosen].tobytes()
        return values

    return Collectives(
        **{name: choose(columns[name], width) for name, width in COLLECTIVES_BYTES.items()},
        is_steady=collectives.is_steady,
        listener=collectives.listener,
        trips=collectives.trips,
        arrivals=choose(arrivals, 8),
        weights=weights[chosen].tobytes(),
    )


def _list_calls(
    columns: _Columns, clocks: _CallClocks, ranks: _RanksOfRun
) -> Iterator[list[Member]]:
    """The intervals of each call, by the clock of the call.

    They are made one call after the other: those of all calls take much more memory than columns.
    """
    if not clocks.pairs.size:
        return
    calls = np.searchsorted(clocks.keys, columns.keys)
    calls = np.minimum(calls, clocks.keys.size - 1)
    pairs = calls * clocks.n_nodes + columns.nodes
    at = np.minimum(np.searchsorted(clocks.pairs, pairs), clocks.pairs.size - 1)
    is_used = (clocks.keys[calls] == columns.keys) & clocks.is_known[calls]
    is_used &= (clocks.pairs[at] == pairs) & np.isfinite(clocks.offsets_ns[at])

    offsets = clocks.offsets_ns[at]
    used = np.flatnonzero(is_used)
    used = used[np.argsort(calls[used], kind="stable")]
    for chunk in np.split(used, np.flatnonzero(np.diff(calls[used])) + 1):
        if not chunk.size:
            continue
        starts = np.rint(columns.starts[chunk] - offsets[chunk]).astype(np.int64)
        begins = np.rint(columns.begins[chunk] - offsets[chunk]).astype(np.int64)
        ends = np.rint(columns.ends[chunk] - offsets[chunk]).astype(np.int64)
        # It is certain that no rank has left before the last one came; the clocks are not.
        ends = np.maximum(ends, begins.max())
        times = zip(starts.tolist(), begins.tolist(), ends.tolist(), strict=True)
        yield [
            _member_of(columns, index, ranks, its_times)
            for index, its_times in zip(chunk.tolist(), times, strict=True)
        ]


def _join_messages(
    columns: _Columns, ranks: _RanksOfRun, late_calls: Sequence[LateCall]
) -> tuple[list[RankIntervals], list[LateCall]]:
    """The ranks of these calls with their intervals, by their own clocks; and the calls with them.

    Ranks of the latter are indices of the former.
    """
    wanted = {rank for call in late_calls for rank in (call.rank, call.late_rank)}
    of_rank: dict[int, list[int]] = {}
    for index in np.flatnonzero(np.isin(columns.ranks, sorted(wanted))).tolist():
        of_rank.setdefault(int(columns.ranks[index]), []).append(index)

    with_intervals: list[RankIntervals] = []
    indices = {}
    for rank, chosen in of_rank.items():
        times = (columns.starts[chosen], columns.begins[chosen], columns.ends[chosen])
        in_ns = zip(*(column.tolist() for column in times), strict=True)
        members = [
            _member_of(columns, index, ranks, its_times)
            for index, its_times in zip(chosen, in_ns, strict=True)
        ]
        indices[rank] = len(with_intervals)
        with_intervals.append(replace(members[0][0], events=[event for _, event in members]))

    by_index = []
    for call in late_calls:
        if call.rank in indices and call.late_rank in indices:
            at = indices[call.rank], indices[call.late_rank]
            by_index.append(call._replace(rank=at[0], late_rank=at[1]))
    return with_intervals, by_index


def _member_of(
    columns: _Columns, index: int, ranks: _RanksOfRun, times: tuple[int, int, int]
) -> Member:
    """An interval as `compare_calls` takes it, with these times."""
    start, begin, end = times
    first = int(columns.firsts[index])
    profile = slice(first, first + int(columns.counts[index]))
    paths = columns.profile_paths[profile]
    is_known = paths >= 0
    event = IntervalEvent(
        key=int(columns.keys[index]),
        previous_key=int(columns.previous_keys[index]),
        start=start,
        begin=begin,
        end=end,
        row=int(columns.paths[index]),
        needs=int(columns.needs[index]),
        rank=int(columns.members[index]),
        size=int(columns.sizes[index]),
        rows=tuple(paths[is_known].tolist()),
        ticks=tuple(columns.profile_ns[profile][is_known].tolist()),
    )
    return ranks.get(int(columns.nodes[index]), int(columns.ranks[index])), event
