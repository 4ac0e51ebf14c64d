"""How long ranks wait in collective calls until the last rank that they need has entered.

The ranks of a node share a clock. Each rank keeps a sample of its blocking collective calls, chosen
so that all ranks sample the same calls. The agent compares when they entered. The share of the time
that a rank waited in the sampled calls of a call path is applied to all calls of that path.

The operation itself takes from the entry of the last rank to the exit of the last rank. The first
quartile of these times is robust against noise [VAL §3.2].
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

    __slots__ = ("calls", "misfits", "operations", "time", "waited")

    def __init__(self) -> None:
        self.calls = self.misfits = 0
        self.time = self.waited = 0
        self.operations: list[int] = []  # of all ranks together, without waiting

    def share(self, visits: int) -> float | None:
        """The share of the time that is waiting; None if the sample does not tell."""
        return self.waited / self.time if self.time and self.is_telling(visits) else None

    def is_telling(self, visits: int) -> bool:
        """Whether these calls represent all calls of the row."""
        if not self.calls or self.calls < min(visits, MIN_CALLS):
            return False
        return self.misfits <= MAX_MISFITS * (self.calls + self.misfits)


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
    operation = max(event.end for _, event in members) - latest_begins[-1]
    for (rows, event), ready in zip(members, ready_at, strict=True):
        sample = rows.setdefault(event.row, WaitingSample())
        if not is_one_call:
            sample.misfits += 1
            continue
        sample.calls += 1
        sample.operations.append(max(operation, 0))
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
    """The metrics `time_waiting`, `collective_time` and `collective_time_min` (s) of ended ranks.

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

        # By row of the node; several rows may be one call path.
        waited_s: dict[int, float] = {}
        operations: dict[int, list[int]] = {}
        for row, sample in rows.items():
            if row >= len(rank.node_rows):
                continue  # the table is damaged
            share = sample.share(totals["visits"][row])
            if share is not None:
                node_row = rank.node_rows[row]
                row_s = share * totals["time"][row] * rank.tick_s
                waited_s[node_row] = waited_s.get(node_row, 0.0) + row_s
            if sample.is_telling(totals["visits"][row]):
                operations.setdefault(rank.node_rows[row], []).extend(sample.operations)
        for node_row, ticks in operations.items():
            values = {
                "collective_time": _first_quartile(ticks) * rank.tick_s,
                "collective_time_min": min(ticks) * rank.tick_s,
            }
            if node_row in waited_s:
                values["time_waiting"] = waited_s[node_row]
            gauges.append((rank.number, node_row, values))
    return gauges


def _first_quartile(values: Sequence[int]) -> float:
    """The first quartile, by linear interpolation between the two nearest values."""
    ordered = sorted(values)
    below, share = divmod((len(ordered) - 1) / 4, 1)
    above = min(int(below) + 1, len(ordered) - 1)
    return ordered[int(below)] * (1 - share) + ordered[above] * share
