"""Round trips between an agent and its aggregator or relay, which bound the offset of their clocks.

The agent notes when it has sent totals and when the answer arrives. The answer says when the totals
arrived and when it was made, by the clock of the listener. The clocks are not slewed where ticks
are those of the time stamp counter, so that the table of a rank relates them to its ticks.
"""

import time
from array import array
from dataclasses import dataclass, field

from insitu.wire.messages import Ack

MAX_TRIPS = 512  # 32 bytes each; of two successive ones the shorter is kept
MAX_UNANSWERED = 64  # totals whose answer may still arrive


@dataclass(slots=True)
class RoundTrips:
    """The round trips of a session.

    Attributes:
        listener: the instance of the aggregator or relay whose clock the trips refer to.
        trips: times in nanoseconds: sent, arrived there, answered there, answer arrived.
    """

    listener: str = ""
    trips: list[tuple[int, int, int, int]] = field(default_factory=list)
    _clock: int = time.CLOCK_MONOTONIC
    _sent: dict[int, int] = field(default_factory=dict)  # by sequence number

    def begin(self, seq: int, *, is_tsc: bool) -> None:
        """Totals are about to be sent.

        Totals that are sent again keep their time: the answer may be that to the first message.
        """
        self._clock = time.CLOCK_MONOTONIC_RAW if is_tsc else time.CLOCK_MONOTONIC
        self._sent.setdefault(seq, time.clock_gettime_ns(self._clock))
        if len(self._sent) > MAX_UNANSWERED:
            del self._sent[next(iter(self._sent))]

    def end(self, answer: Ack) -> None:
        """An answer has arrived, to the totals with its sequence number or to a later message."""
        now = time.clock_gettime_ns(self._clock)
        sent = self._sent.get(answer.seq)
        if sent is None or not answer.arrived_ns:
            return
        if answer.instance != self.listener:
            self.listener = answer.instance
            self.trips.clear()
        self.trips.append((sent, answer.arrived_ns, answer.answered_ns, now))
        if len(self.trips) > MAX_TRIPS:
            self.trips = [
                min(pair, key=_duration)
                for pair in zip(self.trips[::2], self.trips[1::2], strict=False)
            ]

    def to_bytes(self, start_ns: int) -> bytes:
        """The trips as four i8 each, with the own times since this one."""
        numbers = array("q")
        for sent, arrived, answered, received in self.trips:
            numbers.extend((sent - start_ns, arrived, answered, received - start_ns))
        return numbers.tobytes()


def _duration(trip: tuple[int, int, int, int]) -> int:
    """The time on the way, there and back (ns)."""
    sent, arrived, answered, received = trip
    return received - sent - (answered - arrived)
