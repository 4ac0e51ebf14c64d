"""How long ranks wait in collective calls until the last rank that they need has entered.

The ranks of a node share a clock. Each rank keeps a sample of its blocking collective calls, chosen
so that all ranks sample the same calls. The agent compares when they entered. The share of the time
that a rank waited in the sampled calls of a call path is applied to all calls of that path.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from insitu.collectors.ranks import GaugeValues, Rank
from insitu.collectors.table import NEEDS_ALL, NEEDS_LOWER, NEEDS_NOBODY, CollectiveEvent

RankTotals = Mapping[str, "array[int]"]
MIN_CALLS = 8  # sampled calls that represent the other calls of a row
MAX_MISFITS = 0.1  # share of calls that do not fit together; beyond, nothing is reported


class WaitingSample:
    """Time of the sampled calls of one row in one rank, in ticks."""

    __slots__ = ("calls", "misfits", "time", "waited")

    def __init__(self) -> None:
        self.calls = self.misfits = 0
        self.time = self.waited = 0

    def share(self, visits: int) -> float | None:
        """The share of the time that is waiting; None if the sample does not tell."""
        if self.calls < min(visits, MIN_CALLS) or not self.time:
            return None
        if self.misfits > MAX_MISFITS * (self.calls + self.misfits):
            return None
        return self.waited / self.time


Samples = dict[int, WaitingSample]  # by row


def sample_waiting(ranks: Iterable[Iterable[CollectiveEvent]]) -> list[Samples]:
    """Add up the waiting times of sampled calls.

    A call counts if all ranks of its communicator are on this node and have sampled it.

    Args:
        ranks: the collective events of each rank.

    Returns:
        The samples of each rank, by row.
    """
    samples: list[Samples] = []
    calls: dict[int, list[tuple[Samples, CollectiveEvent]]] = {}
    for events in ranks:
        rows: Samples = {}
        samples.append(rows)
        for event in events:
            calls.setdefault(event.key, []).append((rows, event))

    for members in calls.values():
        _add_call(members)
    return samples


def _add_call(members: Sequence[tuple[Samples, CollectiveEvent]]) -> None:
    """Add one collective call to the samples of its ranks, if all of them are known."""
    begins = {event.rank: event.begin for _, event in members}
    size = members[0][1].size
    if len(members) != size or begins.keys() != set(range(size)):
        return

    # For each rank, when the last of the ranks up to it has entered.
    latest_begins = list(accumulate((begins[rank] for rank in range(size)), max))
    ready_at = [_ready_at(event, begins, latest_begins) for _, event in members]

    # If a rank left before another one that it needs had entered, the events are not one call.
    is_one_call = all(
        ready <= event.end for (_, event), ready in zip(members, ready_at, strict=True)
    )
    for (rows, event), ready in zip(members, ready_at, strict=True):
        sample = rows.setdefault(event.row, WaitingSample())
        if not is_one_call:
            sample.misfits += 1
            continue
        sample.calls += 1
        sample.time += event.end - event.begin
        sample.waited += max(ready - event.begin, 0)


def _ready_at(event: CollectiveEvent, begins: dict[int, int], latest_begins: list[int]) -> int:
    """When all ranks that this rank needs have entered the call, in ticks."""
    if event.needs == NEEDS_NOBODY:
        return event.begin
    if event.needs == NEEDS_ALL:
        return latest_begins[-1]
    if event.needs == NEEDS_LOWER:
        return latest_begins[event.rank]
    return begins.get(event.needs, event.begin)


def waiting_gauges(
    ranks: Sequence[Rank], ended: Iterable[tuple[Rank, RankTotals]]
) -> list[GaugeValues]:
    """The metric `time_waiting` (s) of ranks that have ended.

    Args:
        ranks: all ranks of the node.
        ended: the ranks whose values are due, with the totals of their rows.
    """
    totals_by_rank = {id(rank): totals for rank, totals in ended}
    if not totals_by_rank:
        return []

    gauges: list[GaugeValues] = []
    samples = sample_waiting(rank.table.collective_events() for rank in ranks)
    for rank, rows in zip(ranks, samples, strict=True):
        totals = totals_by_rank.get(id(rank))
        if totals is None:
            continue

        waited_s: dict[int, float] = {}  # by row of the node; several rows may be one call path
        for row, sample in rows.items():
            if row >= len(rank.node_rows):
                continue  # the table is damaged
            share = sample.share(totals["visits"][row])
            if share is not None:
                node_row = rank.node_rows[row]
                row_s = share * totals["time"][row] * rank.tick_s
                waited_s[node_row] = waited_s.get(node_row, 0.0) + row_s
        for node_row, seconds in waited_s.items():
            gauges.append((rank.number, node_row, {"time_waiting": seconds}))
    return gauges
