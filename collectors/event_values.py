"""What follows from the events of all ranks of a node: waiting, its causes, chains of messages.

These values are more than what the ranks have counted, and so an error in their computation must
not cost the counts: a run whose agent, aggregator and `insitu ingest` all fail at it would be lost.
"""

import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field

from insitu.collectors.delay_reports import delay_gauges, read_delays
from insitu.collectors.intervals import Delays
from insitu.collectors.node_messages import RankTotals
from insitu.collectors.ranks import GaugeValues, Rank
from insitu.collectors.waiting import find_waits


@dataclass(frozen=True, slots=True)
class EventValues:
    """The values, and what caused the waiting.

    Attributes:
        gauges: of call paths.
        delays: by row of the node.
        problem: why there are no values; "" if there are.
    """

    gauges: Sequence[GaugeValues] = ()
    delays: Delays = field(default_factory=dict)
    problem: str = ""


def read_event_values(
    ranks: Sequence[Rank], ended: Sequence[tuple[Rank, RankTotals]], *, is_whole_run: bool
) -> EventValues:
    """The values of a node whose ranks have all ended; see `find_waits` for the arguments."""
    if not ended:
        return EventValues()
    try:
        gauges, late_calls = find_waits(ranks, ended, is_whole_run=is_whole_run)
        delays = read_delays(ranks, late_calls)
        return EventValues([*gauges, *delay_gauges(delays)], delays)
    except Exception as error:  # reported as a finding of the run
        what = "waiting, its causes and chains of messages are"
        return EventValues(problem=describe_error(what, error))


def describe_error(what: str, error: Exception) -> str:
    """The text of the finding that values are unknown because of an error.

    Args:
        what: the values, with a verb: `waiting is`.
        error: that was raised.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return (
        f"{what} not known because of an error in insitu: {type(error).__name__}: {error} ({where})"
    )
