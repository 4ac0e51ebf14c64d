"""How long ranks wait in collective calls until the others have come, told from all their tables.

Ranks of one node share a clock. Each keeps a sample of its blocking collectives; the same calls are
in the sample of all ranks, so that who came last is known without a word between them. What they
waited in these is extrapolated by the time that a call path took in all its calls.
"""

from array import array
from collections.abc import Iterable, Mapping
from itertools import accumulate

from insitu.collectors.ranks import Level, Rank
from insitu.collectors.table import NEEDS_ALL, NEEDS_LOWER, NEEDS_NOBODY, CollectiveEvent

Totals = Mapping[str, "array[int]"]
FEWEST = 8  # calls of a row that are enough to tell of the others
DOUBTFUL = 0.1  # of the calls of a row that do not fit together: then nothing is told


class Sample:
    """Of the calls of one row in one rank: what is known of their time, in ticks."""

    __slots__ = ("calls", "misfits", "time", "waited")

    def __init__(self) -> None:
        self.calls = self.misfits = 0
        self.time = self.waited = 0

    def share(self, visits: int) -> float | None:
        """The part of the time that is waiting, None where too little is known."""
        is_few = self.calls < min(visits, FEWEST)
        if is_few or not self.time or self.misfits > DOUBTFUL * (self.calls + self.misfits):
            return None
        return self.waited / self.time


def samples(ranks: Iterable[Iterable[CollectiveEvent]]) -> list[dict[int, Sample]]:
    """For each rank of a node, by row; a call counts where every rank of it is here and kept it."""
    calls: dict[int, list[tuple[dict[int, Sample], CollectiveEvent]]] = {}
    found: list[dict[int, Sample]] = []
    for meetings in ranks:
        found.append({})
        for meeting in meetings:
            calls.setdefault(meeting.key, []).append((found[-1], meeting))
    for members in calls.values():
        begins = {meeting.rank: meeting.begin for _, meeting in members}
        size = members[0][1].size
        if len(members) != size or begins.keys() != set(range(size)):
            continue
        came = list(accumulate((begins[rank] for rank in range(size)), max))
        needed = [_came(meeting, begins, came) for _, meeting in members]
        fits = all(came <= one.end for (_, one), came in zip(members, needed, strict=True))
        for (rows, one), last in zip(members, needed, strict=True):
            sample = rows.setdefault(one.row, Sample())
            if fits:
                sample.calls += 1
                sample.time += one.end - one.begin
                sample.waited += max(last - one.begin, 0)
            else:  # somebody left before one whom it needs had come: these are not one call
                sample.misfits += 1
    return found


def _came(meeting: CollectiveEvent, begins: dict[int, int], came: list[int]) -> int:
    """When the last of those had come whose part this rank needs; `came` is up to each rank."""
    if meeting.needs == NEEDS_NOBODY:
        return meeting.begin
    if meeting.needs == NEEDS_ALL:
        return came[-1]
    if meeting.needs == NEEDS_LOWER:
        return came[meeting.rank]
    return begins.get(meeting.needs, meeting.begin)


def levels(ranks: Iterable[Rank], ended: Iterable[tuple[Rank, Totals]]) -> list[Level]:
    """`time_waiting` (s) of ranks that have ended, with what all ranks of the node kept."""
    told: list[Level] = []
    due = {id(rank): totals for rank, totals in ended}
    if not due:
        return told
    everybody = list(ranks)
    for rank, rows in zip(
        everybody, samples(r.table.collective_events() for r in everybody), strict=True
    ):
        if id(rank) not in due:
            continue
        totals = due[id(rank)]
        places: dict[int, float] = {}
        for row, sample in rows.items():
            if row >= len(rank.node_rows):
                continue  # of a damaged table
            share = sample.share(totals["visits"][row])
            if share is not None:  # several rows of a rank may be one call path
                place = rank.node_rows[row]
                waited = share * totals["time"][row] * rank.tick_s
                places[place] = places.get(place, 0.0) + waited
        told += [(rank.number, place, {"time_waiting": s}) for place, s in places.items()]
    return told
