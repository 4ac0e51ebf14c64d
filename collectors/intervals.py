"""Who causes waiting: the call paths and ranks that the other ranks wait for in collective calls.

Where one rank arrives last at a collective call, the others wait for what it did longer than they
did since the previous such call [1]. Each rank keeps the exclusive times of its call paths in a
sample of these intervals (native/intervals.c), the same as the other ranks. The agent compares the
late rank with those that wait, or the aggregator does if they are on several nodes. Totals cannot
tell this where ranks take turns in being late: each of them takes as long as the others.

A rank may be late because it waited itself, in another MPI call. Then what caused that waiting is
the cause, if it is known.

[1] D. Böhme, M. Geimer, L. Arnold, F. Voigtlaender, F. Wolf, "Identifying the root causes of wait
    states in large-scale parallel applications", ACM TOPC 3(2), 2016: delay costs.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from insitu.collectors.late_messages import LateCall
from insitu.collectors.table import MPI, PROGRAM, REGION, STACK, THREAD
from insitu.collectors.table_events import NEEDS_ALL, IntervalEvent, needed_ranks

TICKS_OF_SAMPLE = 1 << 24  # that an interval contains for each sample of a sampled function
MAX_LATER = 0.2  # of the waiting, by which the late rank may begin an interval later or earlier
MAX_SAMPLED = 4.0  # times the waiting: excess in an interval where functions are sampled
MAX_NESTED = 4  # intervals that may contain a message
LEAST_WORK = 0.8  # of the waiting, by which another rank works longer than one that is in MPI
MAX_LINKS = 3  # ranks that wait for a rank that waits for a rank
LEAST_LINK = 0.1  # of the mean waiting of a rank, from which it waits for another one

Profile = dict[int, float]  # seconds by row of the node


@dataclass(frozen=True, slots=True)
class RankIntervals:
    """The intervals that a rank has kept.

    Attributes:
        number: of the rank.
        events: the intervals.
        threshold: ticks; of shorter intervals a share of length / threshold is kept.
        node_rows: the row of the node for each row of the rank.
        kinds: of the rows of the rank.
        tick_s: seconds per tick.
        sample_s: CPU seconds per sample of sampled functions; 0 if there are none.
    """

    number: int
    events: Sequence[IntervalEvent]
    threshold: int
    node_rows: Sequence[int]
    kinds: Sequence[int]
    tick_s: float
    sample_s: float = 0.0

    def profile(self, event: IntervalEvent) -> Profile:
        """What each call path took in an interval.

        Where functions are sampled, the time of the regions around them contains theirs, and what
        the program does outside of them is unknown.
        """
        profile: Profile = {}
        sampled, regions = 0.0, []
        for row, ticks in zip(event.rows, event.ticks, strict=True):
            if row >= len(self.node_rows):
                continue  # of a damaged table
            seconds = ticks * self.tick_s
            if self.kinds[row] == STACK:
                seconds = ticks / TICKS_OF_SAMPLE * self.sample_s
                sampled += seconds
            elif self.sample_s and self.kinds[row] in (PROGRAM, THREAD):
                continue
            elif self.sample_s and self.kinds[row] == REGION:
                regions.append(self.node_rows[row])
            profile[self.node_rows[row]] = profile.get(self.node_rows[row], 0.0) + seconds

        for row in regions:
            explained = min(profile[row], sampled)
            profile[row] -= explained
            sampled -= explained
        return profile


Member = tuple[RankIntervals, IntervalEvent]  # a rank with what it did in an interval


class WaitInRow(NamedTuple):
    """How long a rank waits in calls of one row in an interval."""

    ticks: float
    weight: float = 1.0  # how often this counts, for calls that are not in the sample


class Wait(NamedTuple):
    """A rank that waits for another one in an interval, and what it did there."""

    rank: RankIntervals
    event: IntervalEvent
    rows: Mapping[int, WaitInRow]  # by the row of the calls

    @property
    def seconds(self) -> float:
        """How long it waits, in all calls together."""
        return sum(wait.ticks for wait in self.rows.values()) * self.rank.tick_s


@dataclass(slots=True)
class CallDelays:
    """What causes the waiting in one call path, in rank seconds.

    Attributes:
        waited: how long ranks waited in the intervals, weighted by the share of such intervals
            that were kept.
        excess: what late ranks did longer than those that waited, by row and rank.
        costs: the waiting that each row of each rank causes, at most `waited` in total.
        late: how long ranks waited for messages, by the rank that waited and the late one.
    """

    waited: float = 0.0
    excess: dict[tuple[int, int], float] = field(default_factory=dict)
    costs: dict[tuple[int, int], float] = field(default_factory=dict)
    late: dict[tuple[int, int], float] = field(default_factory=dict)

    def cost_of_rows(self) -> dict[int, float]:
        """The costs of each row, of all ranks together."""
        rows: dict[int, float] = {}
        for (row, _), seconds in self.costs.items():
            rows[row] = rows.get(row, 0.0) + seconds
        return rows

    def share_in_turn(self) -> float:
        """The share of the waiting for messages of ranks that wait for each other, in a circle.

        A rank that waited for such a message was not late for that reason.
        """
        total = sum(self.late.values())
        n_waiting = len({rank for rank, _ in self.late})
        # Single late messages against the direction of a pipeline make no circle.
        links = {
            link for link, seconds in self.late.items() if seconds * n_waiting >= LEAST_LINK * total
        }
        while True:
            inner = {rank for rank, _ in links} & {late for _, late in links}
            remaining = {link for link in links if inner.issuperset(link)}
            if remaining == links:
                break
            links = remaining
        return sum(self.late[link] for link in links) / total if total else 0.0


Delays = dict[int, CallDelays]  # by the row of the node in which ranks waited


def find_delays(ranks: Sequence[RankIntervals], late_calls: Sequence[LateCall] = ()) -> Delays:
    """Compare the intervals of the ranks of a node.

    Args:
        ranks: all ranks of the node.
        late_calls: those of their calls that waited for messages; their ranks are indices.
    """
    mpi_rows = set()
    calls: dict[int, list[Member]] = {}
    for rank in ranks:
        for row, kind in zip(rank.node_rows, rank.kinds, strict=False):
            if kind == MPI:
                mpi_rows.add(row)
        for event in rank.events:
            calls.setdefault(event.key, []).append((rank, event))
    return compare_calls(calls.values(), mpi_rows, ranks, late_calls)


def compare_calls(
    calls: Iterable[Sequence[Member]],
    mpi_rows: set[int],
    ranks: Sequence[RankIntervals] = (),
    late_calls: Sequence[LateCall] = (),
) -> Delays:
    """Compare the intervals that end with the same call.

    Args:
        calls: the intervals of each call; their times are those of one clock.
        mpi_rows: the rows of MPI calls.
        ranks: those of the messages.
        late_calls: calls that waited for messages; their ranks are indices.
    """
    delays: Delays = {}
    for events in calls:
        _add_call(delays, events, mpi_rows)
    _add_messages(delays, ranks, late_calls)
    for call in delays.values():
        _assign_costs(call, mpi_rows)
    _follow_links(delays, mpi_rows)
    return delays


def _add_call(delays: Delays, events: Sequence[Member], mpi_rows: set[int]) -> None:
    """Add the excess of late ranks before a call, in the first interval that explains it.

    The shortest interval is preferred. If the late rank began it late, what delayed it was before.
    """
    by_start: dict[int, list[Member]] = {}  # by the call at which an interval begins
    for member in events:
        by_start.setdefault(member[1].previous_key, []).append(member)
    is_complete = any(len(members) == members[0][1].size for members in by_start.values())
    intervals = list(by_start.values()) if is_complete else [_latest_intervals(events)]
    intervals.sort(key=lambda members: -members[0][1].start)
    for members in intervals:
        waiting = _find_waiting(members)
        if waiting is None:
            continue
        is_last = is_complete and members is intervals[-1]
        if is_last or all(_begin_together(late, of_late) for late, of_late in waiting):
            # It is kept in all ranks with a probability of its length divided by the threshold.
            weight = max(
                rank.threshold / max(event.end - event.start, 1) for rank, event in members
            )
            for late, of_late in waiting:
                waits = [
                    Wait(rank, event, {event.row: WaitInRow(late[1].begin - event.begin)})
                    for rank, event in of_late
                ]
                working = _working_rank(late, waits, members, mpi_rows)
                _add_excess(delays, working, waits, max(weight, 1.0))
            return


def _latest_intervals(events: Iterable[Member]) -> list[Member]:
    """The shortest interval of each rank before a call.

    Where calls do not synchronise, some ranks leave one so soon that no interval ends there
    (native/mpi_collectives.h): theirs begin at the call before, at nearly the same time.
    """
    ordered = sorted(events, key=lambda member: member[1].start)
    return list({member[1].rank: member for member in ordered}.values())


def _find_waiting(members: Sequence[Member]) -> list[tuple[Member, list[Member]]] | None:
    """The late ranks of a call, each with those that wait for it; None if a rank is not known."""
    first = members[0][1]
    by_rank = {event.rank: (rank, event) for rank, event in members}
    if len(members) != first.size or by_rank.keys() != set(range(first.size)):
        return None

    last = max(range(first.size), key=lambda rank: by_rank[rank][1].begin)
    waiting: dict[int, list[Member]] = {}
    for member in members:
        late = _late_rank(member[1], by_rank, last)
        if late is None:
            continue
        if by_rank[late][1].begin > member[1].end:
            return None  # it left before one that it needs had entered: these are two calls
        waiting.setdefault(late, []).append(member)
    return [(by_rank[late], of_late) for late, of_late in waiting.items()]


def _begin_together(late_member: Member, waiting: Sequence[Member]) -> bool:
    """Whether the late rank began the interval when those did that wait for it, or nearly so."""
    _, late = late_member
    waited = sum(late.begin - event.begin for _, event in waiting)
    later = sum(late.start - event.start for _, event in waiting)
    return abs(later) <= MAX_LATER * waited


def _late_rank(event: IntervalEvent, by_rank: Mapping[int, Member], last: int) -> int | None:
    """The last of the ranks that a rank waits for, None if it does not wait; `last` is of all."""
    late: int | None = last
    if event.needs != NEEDS_ALL:
        late = max(needed_ranks(event), key=lambda rank: by_rank[rank][1].begin, default=None)
    return late if late is not None and by_rank[late][1].begin > event.begin else None


def _working_rank(
    late: Member, waits: Sequence[Wait], members: Sequence[Member], mpi_rows: set[int]
) -> Member:
    """The rank that delayed a late rank which waited itself for messages; else the late rank.

    If it did, another rank has worked for as much longer as the late rank was in MPI.
    """

    def work(member: Member) -> float:
        profile = member[0].profile(member[1])
        return sum(seconds for row, seconds in profile.items() if row not in mpi_rows)

    works = [(work(member), member) for member in members]
    most, working = max(works, key=lambda pair: pair[0])
    profile = late[0].profile(late[1])
    in_mpi = sum(seconds for row, seconds in profile.items() if row in mpi_rows)
    longer = most - (sum(profile.values()) - in_mpi)
    waited = max(wait.seconds for wait in waits)
    is_delayed = longer >= LEAST_WORK * waited and in_mpi >= LEAST_WORK * longer
    return working if is_delayed else late


def _add_messages(
    delays: Delays, ranks: Sequence[RankIntervals], late_calls: Iterable[LateCall]
) -> None:
    """Add what ranks did longer than those that wait for their messages.

    They are compared in the interval between two collective calls in which the messages were late.
    What a rank did longer there explains all its late messages to the same rank together, not each
    of them: ranks that take turns in being late did nothing longer.
    """
    by_rank = [sorted(rank.events, key=lambda event: event.start) for rank in ranks]
    starts = [[event.start for event in events] for events in by_rank]
    known = [{(event.key, event.previous_key): event for event in rank.events} for rank in ranks]
    together: dict[tuple[int, int, tuple[int, int]], list[LateCall]] = {}
    for call in late_calls:
        end = bisect_right(starts[call.rank], call.begin)
        for event in reversed(by_rank[call.rank][max(end - MAX_NESTED, 0) : end]):
            key = event.key, event.previous_key
            if key in known[call.late_rank] and event.begin >= call.end:
                together.setdefault((call.rank, call.late_rank, key), []).append(call)
                break

    for (number, late_number, key), calls in together.items():
        rank, late_rank = ranks[number], ranks[late_number]
        event, late = known[number][key], known[late_number][key]
        length = max(min(event.end - event.start, late.end - late.start), 1)
        weight = max(rank.threshold, late_rank.threshold) / length
        wait = Wait(rank, event, _add_rows(event, calls))
        _add_excess(delays, (late_rank, late), [wait], max(weight, 1.0))


def _add_rows(event: IntervalEvent, calls: Iterable[LateCall]) -> dict[int, WaitInRow]:
    """How long a rank waited in an interval, with calls that are not in the sample.

    These may be in the same interval, where all calls of a row take no longer than the row did, or
    in others.
    """
    times = dict(zip(event.rows, event.ticks, strict=True))
    sampled: dict[int, float] = {}
    estimated: dict[int, float] = {}
    for call in calls:
        sampled[call.row] = sampled.get(call.row, 0.0) + call.waited
        estimated[call.row] = estimated.get(call.row, 0.0) + call.weight * call.waited

    rows = {}
    for row, waited in sampled.items():
        within = max(waited, min(estimated[row], times.get(row, 0.0)))
        rows[row] = WaitInRow(within, estimated[row] / within)
    return rows


def _add_excess(
    delays: Delays, late_member: Member, waiting: Sequence[Wait], weight: float
) -> None:
    """Add what a late rank did longer than the ranks that wait for it."""
    late_rank, late = late_member
    profile: Profile = {}  # of the ranks that wait, weighted by how long they do
    for wait in waiting:
        done = wait.rank.profile(wait.event)
        for row, in_row in wait.rows.items():
            # Within the interval: what it waited is nothing that it did.
            if row != wait.event.row and row < len(wait.rank.node_rows):
                node_row = wait.rank.node_rows[row]
                done[node_row] = done.get(node_row, 0.0) - in_row.ticks * wait.rank.tick_s
        for row, seconds in done.items():
            profile[row] = profile.get(row, 0.0) + wait.seconds * seconds
    total = sum(wait.seconds for wait in waiting)
    if total <= 0:
        return

    # The excess of the late rank adds up to the mean waiting, weighted in the same manner. It is
    # more where the late rank did less of something else, and must not outweigh other intervals.
    n_waiting = total**2 / sum(wait.seconds**2 for wait in waiting)
    excess = late_rank.profile(late)
    for row, seconds in profile.items():
        excess[row] = excess.get(row, 0.0) - seconds / total
    positive = sum(seconds for seconds in excess.values() if seconds > 0)
    most = total / n_waiting * (MAX_SAMPLED if late_rank.sample_s else 1.0)
    scale = min(1.0, most / positive) if positive else 0.0
    for wait in waiting:
        for call_row, in_row in wait.rows.items():
            if call_row >= len(wait.rank.node_rows):
                continue  # of a damaged table
            waited = in_row.ticks * wait.rank.tick_s
            call = delays.setdefault(wait.rank.node_rows[call_row], CallDelays())
            call.waited += weight * in_row.weight * waited
            if call_row != wait.event.row:
                link = wait.rank.number, late_rank.number
                call.late[link] = call.late.get(link, 0.0) + weight * in_row.weight * waited
            share = weight * in_row.weight * scale * n_waiting * waited / total
            for row, seconds in excess.items():
                key = row, late_rank.number
                call.excess[key] = call.excess.get(key, 0.0) + share * seconds


def _assign_costs(call: CallDelays, mpi_rows: set[int]) -> None:
    """Divide the waiting among the rows in which late ranks took longer, first among computation.

    The excess is added up over intervals before negative values are dropped: where functions are
    sampled, that of a single interval is noise.
    """
    rows: dict[int, float] = {}
    for (row, _), seconds in call.excess.items():
        rows[row] = rows.get(row, 0.0) + seconds

    remaining = call.waited
    for is_mpi in (False, True):
        excesses = {
            row: seconds
            for row, seconds in rows.items()
            if seconds > 0 and (row in mpi_rows) == is_mpi
        }
        total = sum(excesses.values())
        scale = min(1.0, remaining / total) if total else 0.0
        for row, seconds in excesses.items():
            of_ranks = {
                rank: max(excess, 0.0)
                for (other, rank), excess in call.excess.items()
                if other == row
            }
            for rank, excess in of_ranks.items():
                if excess:
                    share = excess / sum(of_ranks.values())
                    call.costs[row, rank] = share * scale * seconds
        remaining -= scale * total


def _follow_links(delays: Delays, mpi_rows: set[int]) -> None:
    """Replace MPI calls in which late ranks waited themselves by what caused that waiting."""
    in_turn = {row: call.share_in_turn() for row, call in delays.items()}
    for _ in range(MAX_LINKS):
        direct = {row: dict(call.costs) for row, call in delays.items()}
        for row, call in delays.items():
            costs: dict[tuple[int, int], float] = {}
            for (cause, rank), seconds in direct[row].items():
                link = delays.get(cause)
                if cause not in mpi_rows or link is None:
                    costs[cause, rank] = costs.get((cause, rank), 0.0) + seconds
                    continue
                # Ranks that wait for ranks that wait there have one cause, unless they take turns.
                causes = direct[cause].items()
                onward = {key: cost for key, cost in causes if key[0] != cause and cost > 0}
                known = sum(onward.values())
                in_chain = sum(direct[cause].values()) - known
                whole = max(link.waited - in_chain * (1 - in_turn[cause]), known)
                for key, cost in onward.items():
                    costs[key] = costs.get(key, 0.0) + cost / whole * seconds
                rest = 1 - known / whole if onward else 1.0
                if cause != row:
                    costs[cause, rank] = costs.get((cause, rank), 0.0) + rest * seconds
            call.costs = costs
