"""Times of one node by the clock of another, from the messages between them.

A message is received after it was sent. So the messages of one direction bound the offset of the
clocks from above, those of the other one from below. Collective calls of ranks of both nodes are
messages in both directions; round trips of agents bound the offset further.
"""

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray
from insitu.server.clock_offsets import ClockOffset, OffsetBounds
from insitu.server.round_trips import ListenerClocks
from insitu.server.wait_intervals import Booleans, Events, Segments, segments_of

# Bins of the time of a run. In each of them, the closest bound of either direction counts.
MAX_BINS = 64


class MessageClocks:
    """The offsets between the clocks of all nodes that exchange messages."""

    def __init__(
        self,
        *,
        senders: IntArray,
        receivers: IntArray,
        sent_at: FloatArray,
        received_at: FloatArray,
        calls: Events,
        is_steady: Booleans,
        listeners: ListenerClocks,
    ) -> None:
        """Compute the offsets.

        Args:
            senders, receivers: nodes of each message, (n_messages,).
            sent_at: when it was sent, seconds of the sender's clock, (n_messages,).
            received_at: when a call had received it, seconds of the receiver's clock.
            calls: collective calls, as in `wait_intervals`.
            is_steady: by node, whether its clock is not slewed.
            listeners: what round trips say about the clocks.
        """
        self._n_nodes = is_steady.size
        self._clocks: dict[int, ClockOffset] = {}
        references, others = np.minimum(senders, receivers), np.maximum(senders, receivers)
        is_upper = senders == references
        at = np.where(is_upper, sent_at, received_at)  # of the reference
        offsets = np.where(is_upper, received_at - sent_at, sent_at - received_at)

        pairs = references * self._n_nodes + others
        segments = segments_of(calls) if calls.calls.size else None
        of_node = [
            np.flatnonzero(segments.nodes == node) if segments is not None else np.zeros(0, int)
            for node in range(self._n_nodes)
        ]
        order = np.lexsort((at, pairs))
        order = order[references[order] != others[order]]
        for chunk in np.split(order, np.flatnonzero(np.diff(pairs[order])) + 1):
            if not chunk.size:
                continue
            reference, other = int(references[chunk[0]]), int(others[chunk[0]])
            columns = [at[chunk], offsets[chunk], is_upper[chunk]]
            if segments is not None:
                of_calls = _bounds_of_calls(segments, of_node[reference], of_node[other])
                columns = [np.concatenate(both) for both in zip(columns, of_calls, strict=True)]
            times, values, upper = _closest(*columns)
            lowest, highest = listeners.bounds(other, reference, times)
            bounds = OffsetBounds(
                upper_at=times,
                upper=np.minimum(np.where(upper, values, np.inf), highest),
                lower_at=times,
                lower=np.maximum(np.where(upper, -np.inf, values), lowest),
            )
            both_are_steady = bool(is_steady[[reference, other]].all())
            self._clocks[reference * self._n_nodes + other] = ClockOffset(
                bounds, is_steady=both_are_steady
            )

    def convert(
        self, times: FloatArray, nodes: IntArray, to_nodes: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """The earliest and the latest times by other clocks.

        Args:
            times: seconds of the clocks of `nodes`, (n,).
            nodes, to_nodes: pairs of nodes, which may be equal, (n,).

        Returns:
            Two arrays (n,): infinite where nothing is known, NaN where no interval can be right.
        """
        low, high = times.copy(), times.copy()
        pairs = nodes * self._n_nodes + to_nodes
        order = np.lexsort((times, pairs))
        order = order[nodes[order] != to_nodes[order]]
        for chunk in np.split(order, np.flatnonzero(np.diff(pairs[order])) + 1):
            if not chunk.size:
                continue
            node, to_node = int(nodes[chunk[0]]), int(to_nodes[chunk[0]])
            reference, other = min(node, to_node), max(node, to_node)
            clock = self._clocks.get(reference * self._n_nodes + other)
            if clock is None:
                low[chunk], high[chunk] = -np.inf, np.inf
            elif node == reference:
                least, most = clock.between(times[chunk])
                low[chunk], high[chunk] = times[chunk] + least, times[chunk] + most
            else:
                by_reference = np.maximum.accumulate(clock.to_reference(times[chunk]))
                least, most = clock.between(by_reference)
                low[chunk], high[chunk] = times[chunk] - most, times[chunk] - least
        return low, high


def _bounds_of_calls(
    segments: Segments, own: IntArray, others: IntArray
) -> tuple[FloatArray, FloatArray, Booleans]:
    """Times of the reference, bounds of the offset, and which of them are upper ones.

    Args:
        segments: of all nodes.
        own, others: the indices of those of the reference, and of the other node.
    """
    _, at_own, at_others = np.intersect1d(
        segments.calls[own], segments.calls[others], return_indices=True
    )
    own, others = own[at_own], others[at_others]
    arrivals, ends = segments.arrivals, segments.ends
    at = np.concatenate([arrivals[own], ends[own]])
    bounds = np.concatenate([ends[others] - arrivals[own], arrivals[others] - ends[own]])
    is_upper = np.arange(at.size) < own.size
    is_known = np.isfinite(at) & np.isfinite(bounds)
    return at[is_known], bounds[is_known], is_upper[is_known]


def _closest(
    at: FloatArray, offsets: FloatArray, is_upper: Booleans
) -> tuple[FloatArray, FloatArray, Booleans]:
    """The closest bounds of either direction in each bin of the time, by time.

    Args:
        at: times (n,).
        offsets: upper or lower bounds (n,).
        is_upper: which of them are upper ones.
    """
    first, span = float(at.min()), float(np.ptp(at))
    bins = np.minimum((at - first) / span * MAX_BINS, MAX_BINS - 1) if span else at * 0
    closeness = np.where(is_upper, offsets, -offsets)
    groups = 2 * bins.astype(np.intp) + is_upper
    order = np.lexsort((closeness, groups))
    chosen = order[np.append(True, groups[order][1:] != groups[order][:-1])]
    chosen = chosen[np.argsort(at[chosen])]
    return at[chosen], offsets[chosen], is_upper[chosen]
