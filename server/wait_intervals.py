"""Waiting in collective calls that span nodes, and the times of their operations, as intervals.

The calls bound the offsets between the clocks of their nodes: where all ranks need all others, each
leaves after the last one has entered. Round trips of agents bound them further. In every call one
node is the reference. The arrivals of all nodes are converted to its clock, and the latest of them
to the clock of each node.
"""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray
from insitu.server.clock_offsets import ClockOffset, OffsetBounds
from insitu.server.round_trips import ListenerClocks

NEEDS_ALL, NEEDS_NOBODY, NEEDS_LOWER, NEEDS_LISTED = -1, -2, -3, -4  # as in native/table.h
TOLERANCE_S = 1e-9  # of rounding

Booleans = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Events:
    """What ranks did in complete calls, ordered by call and node: arrays of shape (n_events,).

    `members` are the ranks within the communicators, `ranks` those within the run.
    """

    calls: IntArray  # from 0 on
    nodes: IntArray
    members: IntArray
    ranks: IntArray
    paths: IntArray
    needs: IntArray
    begins: FloatArray  # of the calls that wait, seconds of the node's clock
    ends: FloatArray
    arrivals: FloatArray  # when the collective was started: at `begins` unless it is non-blocking
    weights: FloatArray  # how many calls each one represents

    def select(self, wanted: IntArray) -> "Events":
        """The events with these indices."""
        return Events(
            calls=self.calls[wanted],
            nodes=self.nodes[wanted],
            members=self.members[wanted],
            ranks=self.ranks[wanted],
            paths=self.paths[wanted],
            needs=self.needs[wanted],
            begins=self.begins[wanted],
            ends=self.ends[wanted],
            arrivals=self.arrivals[wanted],
            weights=self.weights[wanted],
        )


@dataclass(frozen=True, slots=True)
class WaitIntervals:
    """The waiting of each event: arrays of shape (n_events,), seconds.

    `low` and `high` are NaN where the events cannot be a single call. `clocks` is how well the time
    at which the rank could leave is known, half the width of its interval. The operation of a call
    takes from the entry of its last rank to the exit of the last one, at least 0. `offsets` are the
    middles of what the node's clock is ahead of that of the call's reference.
    """

    low: FloatArray
    high: FloatArray
    clocks: FloatArray
    least_operation: FloatArray
    most_operation: FloatArray
    offsets: FloatArray

    def select(self, wanted: IntArray) -> "WaitIntervals":
        """The waiting of the events with these indices."""
        return WaitIntervals(
            low=self.low[wanted],
            high=self.high[wanted],
            clocks=self.clocks[wanted],
            least_operation=self.least_operation[wanted],
            most_operation=self.most_operation[wanted],
            offsets=self.offsets[wanted],
        )


@dataclass(frozen=True, slots=True)
class Segments:
    """The events of one call on one node: arrays of shape (n_segments,), ordered by call.

    Ends are infinite where no rank needs others. `arrivals` is when the last rank came that others
    need, -inf if there is none.
    """

    of_event: IntArray  # shape (n_events,)
    calls: IntArray
    nodes: IntArray
    arrivals: FloatArray
    begins: FloatArray  # the last arrival, or of the root
    ends: FloatArray  # the first exit of a rank that needs others
    exits: FloatArray  # the last exit
    durations: FloatArray  # the shortest


def wait_intervals(events: Events, is_steady: Booleans, listeners: ListenerClocks) -> WaitIntervals:
    """How long each rank waited.

    Args:
        events: of complete calls, without those that need the ranks below them or listed ones only.
        is_steady: by node, whether its clock is not slewed.
        listeners: what round trips say about the clocks.
    """
    if not events.calls.size:
        return WaitIntervals(*(np.zeros(0) for _ in range(6)))
    segments = segments_of(events)
    references = _reference_segments(segments)
    clocks = _Clocks(segments, references, is_steady, listeners)

    # When each node's last rank arrived, by the reference's clock; then without the own node.
    first, last = clocks.by_reference(segments.arrivals)
    first, last = (
        _largest_of_others(segments.calls, first),
        _largest_of_others(segments.calls, last),
    )

    # The same by the clock of each node, where the arrival of its own ranks is known exactly.
    low, high = clocks.offsets((first + last) / 2)
    with np.errstate(invalid="ignore"):  # unbounded
        offsets = (low + high) / 2
    first = np.maximum(_sum(first, low), segments.arrivals)[segments.of_event]
    last = np.maximum(_sum(last, high), segments.arrivals)[segments.of_event]

    needs_nobody = events.needs == NEEDS_NOBODY
    first[needs_nobody] = last[needs_nobody] = events.begins[needs_nobody]
    is_impossible = np.isnan(first) | np.isnan(last) | (first > events.ends + TOLERANCE_S)
    least = np.clip(first, events.begins, events.ends) - events.begins
    most = np.clip(last, events.begins, events.ends) - events.begins
    least[is_impossible] = most[is_impossible] = np.nan
    with np.errstate(invalid="ignore"):  # nobody is needed: -inf - -inf
        half_widths = np.nan_to_num((last - first) / 2, nan=0.0, posinf=np.inf)
    least_operation, most_operation = _operations(segments, clocks)
    return WaitIntervals(
        low=least,
        high=most,
        clocks=half_widths,
        least_operation=least_operation,
        most_operation=most_operation,
        offsets=offsets[segments.of_event],
    )


def _operations(segments: Segments, clocks: "_Clocks") -> tuple[FloatArray, FloatArray]:
    """The least and the largest time that the operation of each event's call took.

    It is the largest difference between the exit of a node and the last entry, so the smallest of
    what remains if the entry of any one node is taken for the last. On the node itself the
    difference is known exactly.
    """
    calls = segments.calls
    entries, exits = clocks.by_reference(segments.begins), clocks.by_reference(segments.exits)
    own = segments.exits - segments.begins
    starts = np.flatnonzero(np.append(True, calls[1:] != calls[:-1]))
    bounds = []
    for exit_time, entry_time in zip(exits, reversed(entries), strict=True):
        since_entry = np.maximum(own, _largest_of_others(calls, exit_time) - entry_time)
        of_call = np.maximum(np.minimum.reduceat(since_entry, starts), 0.0)
        bounds.append(of_call[np.searchsorted(calls[starts], calls)][segments.of_event])
    return bounds[0], bounds[1]


def _sum(times: FloatArray, offsets: FloatArray) -> FloatArray:
    """Times with offsets; a time of nobody stays -inf even if its offset is unknown."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(times), times, times + offsets)


def segments_of(events: Events) -> Segments:
    """The events by call and node.

    Args:
        events: as in `wait_intervals`, at least one.
    """
    calls, nodes = events.calls, events.nodes
    is_first = np.ones(calls.size, dtype=bool)
    is_first[1:] = (calls[1:] != calls[:-1]) | (nodes[1:] != nodes[:-1])
    starts = np.flatnonzero(is_first)
    of_event = np.cumsum(is_first) - 1

    # The root that some ranks need, if they do not need all.
    roots = np.full(int(calls.max()) + 1, -1, dtype=np.intp)
    np.maximum.at(roots, calls, events.needs)
    has_root = roots[calls] >= 0
    is_needed = ~has_root | (events.members == roots[calls])

    needs_others = events.needs != NEEDS_NOBODY
    arrivals = np.where(is_needed, events.arrivals, -np.inf)
    ends = np.where(needs_others, events.ends, np.inf)
    return Segments(
        of_event=of_event,
        calls=calls[starts],
        nodes=nodes[starts],
        arrivals=np.maximum.reduceat(arrivals, starts),
        begins=np.maximum.reduceat(events.arrivals, starts),
        ends=np.minimum.reduceat(ends, starts),
        exits=np.maximum.reduceat(events.ends, starts),
        durations=np.minimum.reduceat(events.ends - events.arrivals, starts),
    )


def _reference_segments(segments: Segments) -> IntArray:
    """For each segment, the segment of its call whose node is the reference.

    A node whose ranks are often the last ones bounds the clocks of all others best. The last rank
    is in a call for the shortest time, whatever the clocks show.
    """
    by_duration = np.lexsort((segments.durations, segments.calls))
    _, firsts = np.unique(segments.calls[by_duration], return_index=True)
    times_last = np.bincount(
        segments.nodes[by_duration[firsts]], minlength=segments.nodes.max() + 1
    )

    by_rank = np.lexsort((segments.nodes, -times_last[segments.nodes], segments.calls))
    calls, firsts = np.unique(segments.calls[by_rank], return_index=True)
    references: IntArray = by_rank[firsts][np.searchsorted(calls, segments.calls)]
    return references


def _largest_of_others(calls: IntArray, values: FloatArray) -> FloatArray:
    """For each segment, the largest value of the other segments of its call; NaN wins."""
    order = np.lexsort((values, calls))  # NaN last
    ordered_calls = calls[order]
    last = np.flatnonzero(np.append(ordered_calls[1:] != ordered_calls[:-1], True))
    number = np.cumsum(np.append(0, ordered_calls[1:] != ordered_calls[:-1]))

    largest = values[order[last]][number]
    second_at = last - 1
    is_alone = (second_at < 0) | (ordered_calls[second_at] != ordered_calls[last])
    second = np.where(is_alone, -np.inf, values[order[second_at]])[number]

    others = np.empty_like(values)
    is_largest = np.zeros(values.size, dtype=bool)
    is_largest[last] = True
    others[order] = np.where(is_largest, second, largest)
    return others


class _Clocks:
    """The offset of the clock of each segment's node against that of its call's reference."""

    def __init__(
        self,
        segments: Segments,
        references: IntArray,
        is_steady: Booleans,
        listeners: ListenerClocks,
    ) -> None:
        self._size = segments.calls.size
        self._fallback = segments.begins[references]
        self._clocks: list[tuple[IntArray, ClockOffset]] = []

        others = np.flatnonzero(references != np.arange(self._size))
        if not others.size:
            return
        upper_at, upper, lower_at, lower = _bounds_of(segments, others, references[others])
        nodes, reference_nodes = segments.nodes[others], segments.nodes[references[others]]
        order = np.lexsort((upper_at, reference_nodes, nodes))
        pairs = nodes[order] * (segments.nodes.max() + 1) + reference_nodes[order]
        for chunk in np.split(order, np.flatnonzero(np.diff(pairs)) + 1):
            node, reference = int(nodes[chunk[0]]), int(reference_nodes[chunk[0]])
            _, highest = listeners.bounds(node, reference, upper_at[chunk])
            lowest, _ = listeners.bounds(node, reference, lower_at[chunk])
            bounds = OffsetBounds(
                upper_at=upper_at[chunk],
                upper=np.minimum(upper[chunk], highest),
                lower_at=lower_at[chunk],
                lower=np.maximum(lower[chunk], lowest),
            )
            both_are_steady = bool(is_steady[[node, reference]].all())
            clock = ClockOffset(bounds, is_steady=both_are_steady)
            self._clocks.append((others[chunk], clock))

    def by_reference(self, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The earliest and the latest time of each segment's time by the reference's clock."""
        low, high = self.offsets(self._fallback)
        with np.errstate(invalid="ignore"):  # unbounded, where the reference's time is taken
            approximate = times - (low + high) / 2
        low, high = self.offsets(approximate)
        return _sum(times, -high), _sum(times, -low)

    def offsets(self, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The least and the largest offset of each segment at a time of its reference's clock."""
        low, high = np.zeros(self._size), np.zeros(self._size)
        times = np.where(np.isfinite(times), times, self._fallback)
        for segments, clock in self._clocks:
            low[segments], high[segments] = clock.at(times[segments])
        return low, high


def _bounds_of(
    segments: Segments, others: IntArray, references: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The bounds that each call sets: times and values of the upper ones, and of the lower ones."""
    arrivals, ends = segments.arrivals, segments.ends

    # The other node's ranks leave after the reference's ranks have entered, and vice versa.
    upper_at = np.where(
        np.isfinite(arrivals[references]), arrivals[references], segments.begins[references]
    )
    upper = ends[others] - arrivals[references]
    lower_at = np.where(np.isfinite(ends[references]), ends[references], upper_at)
    lower = arrivals[others] - ends[references]
    return upper_at, upper, lower_at, lower
