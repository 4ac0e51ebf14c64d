"""Waiting for messages between nodes, for the table of a run.

Agents send a sample of the messages whose other side is on another node, the same one on all nodes.
When the other side of a message was there, by the clock of this side, is then an interval,
and so is the waiting of the call that completes it, as in `wait_intervals`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.collectors.late_messages import MIN_CALLS, LateCall
from insitu.collectors.table_events import (
    FIRST,
    MATCHED,
    MESSAGES_ALWAYS,
    MESSAGES_WINDOW,
    PROBED,
    RECEIVED,
)
from insitu.entities import (
    TIME,
    TIME_LATE_RECEIVER,
    TIME_LATE_SENDER,
    TIME_WAITING,
    VISITS,
    CallPath,
    Finding,
)
from insitu.modeling.measurement import FloatArray, IntArray, RunTable
from insitu.server.collectives import (
    MAX_FINDINGS,
    MAX_UNCERTAINTY,
    NS_PER_S,
    NodeCollectives,
    add_values,
    describe_misfits,
    find_bounding_calls,
)
from insitu.server.message_clocks import MessageClocks
from insitu.server.round_trips import ListenerClocks
from insitu.server.unknown_waiting import LEAST_SHARE
from insitu.server.wait_intervals import Booleans
from insitu.units import quantity
from insitu.wire.messages import MESSAGES_BYTES, WHOLE_SAMPLE, Collectives, PointToPoint

# Half the width of the interval of a call's waiting, as a share of it, for its causes.
MAX_CAUSE_UNCERTAINTY = 0.1
MAX_LATE_CALLS = 1 << 17  # whose causes are looked for; of more, an even sample
METRICS = (TIME_WAITING, TIME_LATE_SENDER, TIME_LATE_RECEIVER)


@dataclass(frozen=True, slots=True)
class NodeMessages:
    """The messages of a node, what is known of its clock, and the path id of each of its rows."""

    messages: PointToPoint
    clock: Collectives
    path_ids: IntArray


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both sides of messages: arrays of shape (n_sides,); times are those of the node, in seconds.

    `others` is the index of the other side, -1 if it is not known.
    """

    nodes: IntArray
    ranks: IntArray
    paths: IntArray
    calls: IntArray
    counts: IntArray
    numbers: IntArray
    sizes: IntArray
    flags: IntArray
    levels: IntArray
    posted: FloatArray
    begins: FloatArray
    ends: FloatArray
    others: IntArray

    def has(self, flag: int) -> Booleans:
        """Which sides have a flag."""
        result: Booleans = (self.flags & flag) != 0
        return result


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls that complete messages: arrays of shape (n_calls,), seconds.

    `low` and `high` bound the waiting; NaN where the sides of a message do not fit together.
    `late_ranks` were the last on the other side. `begins` are by the clock of the node. `is_remote`
    says whether some other side is on another node.
    """

    ranks: IntArray
    paths: IntArray
    begins: FloatArray
    times: FloatArray
    low: FloatArray
    high: FloatArray
    is_late_sender: Booleans  # else a late receiver
    late_ranks: IntArray
    is_remote: Booleans
    weights: FloatArray
    is_whole_sample: Booleans


def add_message_waiting(
    table: RunTable, nodes: Sequence[NodeMessages], callpaths: Sequence[CallPath]
) -> tuple[RunTable, list[Finding], list[LateCall]]:
    """The table of a run with waiting for messages between nodes, and why it is absent elsewhere.

    Args:
        table: of a complete run.
        nodes: what each node has sent.
        callpaths: of the run, by path id.

    Returns:
        The table, the reasons, and the calls that waited for other nodes, as `_find_late_calls`.
    """
    if not any(node.messages.keys for node in nodes):
        return table, [], []
    sides = _read_sides(nodes, table.size)
    is_spanning = sides.counts > 0
    if not is_spanning.any():
        return table, [], []
    calls = _wait_in_calls(sides, nodes, table.size)

    shape = (len(table.callpaths), table.size)
    values = {metric: np.full(shape, np.nan) for metric in METRICS}
    rows = {callpath: row for row, callpath in enumerate(table.callpaths)}
    reasons: list[tuple[float, Finding]] = []
    elapsed_s = float(np.nan_to_num(table.values[TIME.name]).max(axis=0).sum())
    for path in np.unique(sides.paths[is_spanning]).tolist():
        row = rows.get(callpaths[path])
        if row is None:
            continue
        visits, time = table.values[VISITS.name][row], table.values[TIME.name][row]
        # Other ranks have no messages of other nodes there, and agents know how long they waited.
        spanning = np.unique(sides.ranks[is_spanning & (sides.paths == path)])
        sample = _MessageSample(calls, path, visits, spanning)
        reason = sample.find_problem()
        if reason:
            text = f"waiting for messages in {callpaths[path]} is not known: {reason}"
            finding = Finding("waiting-unclear", text, str(callpaths[path]))
            reasons.append((float(np.nansum(time)), finding))
            continue
        for metric, waited in zip(METRICS, sample.waiting(time), strict=True):
            values[metric][row] = waited

    for metric, added in values.items():
        table = add_values(table, metric, added)
    long_enough = [entry for entry in reasons if entry[0] >= LEAST_SHARE * elapsed_s]
    findings = [finding for _, finding in sorted(long_enough, key=lambda entry: -entry[0])]
    return table, findings[:MAX_FINDINGS], _find_late_calls(calls)


def _find_late_calls(calls: _Calls) -> list[LateCall]:
    """The calls whose waiting for other nodes is known well enough to ask who caused it.

    Ranks are those of the run, rows are path ids, and ticks are nanoseconds of the node's clock.
    Where all messages of a call are from its own node, the agent knows the causes.
    """
    waited = (calls.low + calls.high) / 2
    with np.errstate(invalid="ignore"):  # a comparison with NaN is false
        is_known = (calls.high - calls.low) / 2 <= MAX_CAUSE_UNCERTAINTY * waited
    late = np.flatnonzero(is_known & (waited > 0) & calls.is_remote)

    stride = -(-late.size // MAX_LATE_CALLS) or 1
    columns = (
        calls.ranks,
        calls.paths,
        np.rint(calls.begins * NS_PER_S).astype(np.int64),
        np.rint((calls.begins + calls.times) * NS_PER_S).astype(np.int64),
        calls.late_ranks,
        np.rint(np.nan_to_num(waited) * NS_PER_S).astype(np.int64),
        calls.weights * stride,
    )
    lists = [column[late[::stride]].tolist() for column in columns]
    return [LateCall(*values) for values in zip(*lists, strict=True)]


class _MessageSample:
    """The sampled calls of a call path, added up by rank."""

    def __init__(self, calls: _Calls, path: int, visits: FloatArray, spanning: IntArray) -> None:
        size = visits.size
        own = calls.paths == path
        fits = own & ~np.isnan(calls.low)
        ranks, weights = calls.ranks[fits], calls.weights[fits]

        def add_up(amounts: FloatArray) -> FloatArray:
            sums = np.bincount(ranks, weights=weights * amounts, minlength=size)
            return sums.astype(float)

        self._wanted = np.zeros(size)
        self._wanted[spanning] = np.minimum(np.nan_to_num(visits[spanning]), MIN_CALLS)
        self._misfits = int(own.sum() - fits.sum())
        self._calls = np.bincount(ranks, minlength=size)
        self._durations = calls.times[fits]
        self._time = add_up(calls.times[fits])
        self._half_widths = add_up((calls.high - calls.low)[fits] / 2)
        middle = (calls.low + calls.high)[fits] / 2
        is_late_sender = calls.is_late_sender[fits]
        self._late_sender = add_up(np.where(is_late_sender, middle, 0.0))
        self._late_receiver = add_up(np.where(is_late_sender, 0.0, middle))
        self._is_whole = np.zeros(size, dtype=bool)
        self._is_whole[ranks[calls.is_whole_sample[fits]]] = True

    def find_problem(self) -> str:
        """Why the waiting of these calls is not known, "" if it is."""
        if reason := describe_misfits(int(self._calls.sum()), self._misfits):
            return reason
        if ((self._calls < self._wanted) & ~self._is_whole).any():
            return f"fewer than {MIN_CALLS} of its calls were sampled with all their messages"
        half_width = float(self._half_widths.sum())
        if half_width <= MAX_UNCERTAINTY * float(self._time.sum()):
            return ""
        return (
            "the clocks of its nodes are not known well enough; its calls take"
            f" {quantity(float(np.median(self._durations)), 's')}"
        )

    def waiting(self, time: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Waiting, for late senders and late receivers, (n_ranks,) each; NaN without calls.

        Args:
            time: of the call path, (n_ranks,), which the sample represents where it is not whole.
        """
        has_calls = self._calls > 0
        scale = np.ones_like(time)
        is_scaled = has_calls & ~self._is_whole & (self._time > 0)
        scale[is_scaled] = time[is_scaled] / self._time[is_scaled]
        late_sender = np.where(has_calls, self._late_sender * scale, np.nan)
        late_receiver = np.where(has_calls, self._late_receiver * scale, np.nan)
        return late_sender + late_receiver, late_sender, late_receiver


def _read_sides(nodes: Sequence[NodeMessages], size: int) -> _Sides:
    """The sides of all nodes. Those whose numbers are out of range are left out."""
    keys, node_numbers = [], []
    columns: dict[str, list[IntArray]] = {name: [] for name in MESSAGES_BYTES if name != "keys"}
    for number, node in enumerate(nodes):
        sent = node.messages
        read = {
            name: np.frombuffer(getattr(sent, name), f"<u{width}").astype(np.int64)
            for name, width in MESSAGES_BYTES.items()
            if name != "keys"
        }
        is_valid = (read["rows"] < node.path_ids.size) & (read["ranks"] < size)
        is_valid &= (read["ends"] >= read["begins"]) & (read["begins"] >= 0)
        is_valid &= (read["posted"] >= 0) & (read["levels"] < 64)
        read["rows"][is_valid] = node.path_ids[read["rows"][is_valid]]
        for name, column in read.items():
            columns[name].append(column[is_valid])
        keys.append(np.frombuffer(sent.keys, "<u8")[is_valid])
        node_numbers.append(np.full(int(is_valid.sum()), number))

    joined = {name: np.concatenate(column) for name, column in columns.items()}
    flags = joined["flags"]
    return _Sides(
        nodes=np.concatenate(node_numbers),
        ranks=joined["ranks"],
        paths=joined["rows"],
        calls=joined["calls"],
        counts=joined["counts"],
        numbers=joined["numbers"],
        sizes=joined["sizes"],
        flags=flags,
        levels=joined["levels"],
        posted=joined["posted"] / NS_PER_S,
        begins=joined["begins"] / NS_PER_S,
        ends=joined["ends"] / NS_PER_S,
        others=_other_sides(np.concatenate(keys), flags),
    )


def _other_sides(keys: np.ndarray[tuple[int], np.dtype[np.uint64]], flags: IntArray) -> IntArray:
    """The index of the other side of each message; -1 if it is missing or not the only one."""
    _, messages = np.unique(keys, return_inverse=True)
    n_messages = int(messages.max(initial=-1)) + 1
    is_received = (flags & RECEIVED) != 0
    is_side = (flags & PROBED) == 0
    found = []
    for its_side in (is_side & ~is_received, is_side & is_received):
        where = np.flatnonzero(its_side)
        index = np.full(n_messages, -1, dtype=np.intp)
        index[messages[where]] = where
        index[np.bincount(messages[where], minlength=n_messages) > 1] = -1
        found.append(index)
    senders, receivers = found
    others: IntArray = np.where(is_received, senders[messages], receivers[messages])
    return others


def _wait_in_calls(sides: _Sides, nodes: Sequence[NodeMessages], size: int) -> _Calls:
    """How long the calls waited whose messages are all known on both sides; at least one call."""
    has_other = sides.others >= 0
    first, last, is_misfit = _ready_times(sides, nodes, size)

    # The messages of each call, by call.
    completed = np.flatnonzero(sides.counts > 0)
    order = completed[np.lexsort((sides.calls[completed], sides.ranks[completed]))]
    names = sides.ranks[order] << 32 | sides.calls[order]
    starts = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
    found = np.add.reduceat(has_other[order].astype(np.intp), starts)
    is_known = found == sides.counts[order[starts]]

    begins, ends = sides.begins[order], sides.ends[order]
    low = np.clip(first[order], begins, ends) - begins
    high = np.clip(last[order], begins, ends) - begins
    waits_for_first = sides.has(FIRST)[order]
    # For the first of several messages: the smallest, so the largest of the negative ones.
    sign = np.where(waits_for_first, -1.0, 1.0)
    of_call = np.repeat(np.arange(starts.size), np.diff(np.append(starts, order.size)))
    by_wait = np.lexsort((sign * (low + high), of_call))
    ends_at = np.append(starts[1:], order.size) - 1
    decisive = order[by_wait[ends_at]]

    window = _largest(sides.numbers[order], starts) // MESSAGES_WINDOW * MESSAGES_WINDOW
    both_levels = np.maximum(sides.levels, np.where(has_other, sides.levels[sides.others], 0))
    weights = np.maximum(1.0, window / MESSAGES_ALWAYS)
    weights = weights * 2.0 ** _largest(both_levels[order], starts)
    is_of_other_node = has_other & (sides.nodes[sides.others] != sides.nodes)
    low = sign[starts] * _largest(sign * low, starts)
    high = sign[starts] * _largest(sign * high, starts)
    low[_largest(is_misfit[order].astype(float), starts) > 0] = np.nan

    at = order[starts]
    return _Calls(
        ranks=sides.ranks[at][is_known],
        paths=sides.paths[at][is_known],
        begins=sides.begins[at][is_known],
        times=(sides.ends - sides.begins)[at][is_known],
        low=low[is_known],
        high=high[is_known],
        is_late_sender=sides.has(RECEIVED)[decisive][is_known],
        late_ranks=sides.ranks[sides.others[decisive]][is_known],
        is_remote=(_largest(is_of_other_node[order].astype(np.intp), starts) > 0)[is_known],
        weights=weights[is_known],
        is_whole_sample=sides.has(WHOLE_SAMPLE)[at][is_known],
    )


def _largest(values: np.ndarray, starts: IntArray) -> np.ndarray:
    """The largest value from each start to the next."""
    return np.maximum.reduceat(values, starts)


def _ready_times(
    sides: _Sides, nodes: Sequence[NodeMessages], size: int
) -> tuple[FloatArray, FloatArray, Booleans]:
    """When the other side was there by the clock of each side: earliest, latest; and misfits."""
    known = np.flatnonzero(sides.others >= 0)
    other = sides.others[known]
    is_received = sides.has(RECEIVED)[known]
    # A receive that matched a probed message was there at the end of the call.
    is_matched = sides.has(MATCHED)[other] & ~is_received
    at_other = np.where(is_matched, sides.ends[other], sides.posted[other])

    # One of both sides; messages of different sizes are not the same one.
    messages = known[~is_received & (sides.sizes[known] == sides.sizes[other])]
    nodes_with_calls = [NodeCollectives(node.clock, node.path_ids) for node in nodes]
    calls, _ = find_bounding_calls(nodes_with_calls, size)
    clocks = MessageClocks(
        senders=sides.nodes[messages],
        receivers=sides.nodes[sides.others[messages]],
        sent_at=sides.posted[messages],
        received_at=sides.ends[sides.others[messages]],
        calls=calls,
        is_steady=np.array([node.clock.is_steady for node in nodes]),
        listeners=ListenerClocks([node.clock for node in nodes]),
    )
    low, high = clocks.convert(at_other, sides.nodes[other], sides.nodes[known])

    begins, ends = sides.begins[known], sides.ends[known]
    is_misfit = (sides.sizes[known] != sides.sizes[other]) | np.isnan(low) | np.isnan(high)
    is_misfit |= is_received & (low > ends)  # received before it was sent
    # A send that has ended before the receive was posted was buffered, and has not waited.
    may_be_buffered = ~is_received & (high > ends)
    high = np.where(~is_received & (low > ends), begins, high)
    low = np.where(may_be_buffered, begins, low)

    first, last = np.full_like(sides.posted, np.nan), np.full_like(sides.posted, np.nan)
    misfits = np.zeros(sides.posted.size, dtype=bool)
    first[known], last[known], misfits[known] = low, high, is_misfit
    return first, last, misfits
