"""Bounds on the offset between the clocks of two nodes from round trips of their agents.

An agent's totals arrive after they were sent, and its answer arrives after it was made. The clocks
of a trip are those of the agent's node and of the listener, so that two nodes with the same
listener can be compared. These intervals are wider than those of calls, but they need no calls in
which the right ranks are late.
"""

from collections.abc import Sequence

import numpy as np

from insitu.modeling.measurement import FloatArray
from insitu.server.clock_offsets import MAX_RATE, ClockOffset, OffsetBounds
from insitu.wire.messages import Collectives

NS_PER_S = 1e9
# By how much ticks and the clock of the agent may be apart, which are read one after the other.
PAIRING_S = 2e-6


class ListenerClocks:
    """The offsets of the clocks of nodes against those of the listeners of their agents."""

    def __init__(self, nodes: Sequence[Collectives]) -> None:
        self._clocks = [_clock_of(node) for node in nodes]
        self._listeners = [node.listener for node in nodes]

    def bounds(self, node: int, reference: int, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The least and the largest offset of a node's clock against that of another one.

        Args:
            node: a node.
            reference: the other node.
            times: shape (n,), times of its clock (s), in any order.

        Returns:
            Two arrays of shape (n,), infinite where nothing is known.
        """
        low, high = np.full_like(times, -np.inf), np.full_like(times, np.inf)
        own, other = self._clocks[node], self._clocks[reference]
        if own is None or other is None or self._listeners[node] != self._listeners[reference]:
            return low, high

        # Both offsets are those at the same time of the listener.
        order = np.argsort(times)
        at_listener = np.maximum.accumulate(other.to_reference(times[order]))
        other_low, other_high = other.between(at_listener)
        own_low, own_high = own.between(at_listener)
        margin = MAX_RATE * (other_high - other_low)  # the time is known so well
        low[order] = own_low - other_high - margin
        high[order] = own_high - other_low + margin
        is_unknown = np.isnan(low) | np.isnan(high)
        low[is_unknown], high[is_unknown] = -np.inf, np.inf
        return low, high


def _clock_of(node: Collectives) -> ClockOffset | None:
    """The offset of a node's clock against that of its listener; None without round trips."""
    trips = np.frombuffer(node.trips, "<i8").reshape(-1, 4) / NS_PER_S
    sent, arrived, answered, received = trips[np.argsort(trips[:, 2])].T
    if not sent.size:
        return None
    bounds = OffsetBounds(
        upper_at=answered,
        upper=received - answered + PAIRING_S,
        lower_at=arrived,
        lower=sent - arrived - PAIRING_S,
    )
    return ClockOffset(bounds, is_steady=node.is_steady)
