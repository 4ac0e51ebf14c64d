"""The causes of waiting: read from the tables of a node, and reported as values and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from insitu.collectors.intervals import Delays, RankIntervals, find_delays
from insitu.collectors.late_messages import LateCall
from insitu.collectors.ranks import GaugeValues, Rank
from insitu.entities import DELAY_COST, CallPath

LEAST_SHARE = 0.01  # of the waiting of a call path, from which a cause is reported
MAX_CAUSES = 8  # of a call path that are reported, the largest
MAX_CALLS = 16  # call paths that are reported, those with most waiting
MAX_RANKS = 64  # of a cause that are reported, the largest


def read_intervals(rank: Rank) -> RankIntervals:
    """The intervals that a rank has kept."""
    events, threshold = rank.table.interval_events()
    head = rank.table.header
    return RankIntervals(
        number=rank.number,
        events=events,
        threshold=threshold,
        node_rows=rank.node_rows,
        kinds=[row.kind for row in rank.table.rows],
        tick_s=rank.tick_s,
        sample_s=1 / head.sample_hz if head.sample_hz else 0.0,
    )


def read_delays(ranks: Sequence[Rank], late_calls: Sequence[LateCall]) -> Delays:
    """The delays of the ranks of a node, from their tables; the calls are those of `find_waits`."""
    return find_delays([read_intervals(rank) for rank in ranks], late_calls)


def delay_gauges(delays: Delays) -> Iterator[GaugeValues]:
    """The waiting of other ranks that each call path of each rank causes."""
    costs: dict[tuple[int, int], float] = {}
    for call in delays.values():
        for key, seconds in call.costs.items():
            costs[key] = costs.get(key, 0.0) + seconds
    for (row, rank), seconds in costs.items():
        yield rank, row, {DELAY_COST.name: seconds}


def describe_delays(delays: Delays, callpaths: Sequence[CallPath]) -> list[Mapping[str, Any]]:
    """The waiting of call paths with its largest causes, as JSON.

    Args:
        delays: by row of the node.
        callpaths: of the rows of the node.
    """
    calls = sorted(delays, key=lambda row: -delays[row].waited)
    described: list[Mapping[str, Any]] = []
    for row in calls[:MAX_CALLS]:
        call = delays[row]
        rows = call.cost_of_rows()
        causes = []
        for cause in sorted(rows, key=lambda other: -rows[other])[:MAX_CAUSES]:
            if rows[cause] < LEAST_SHARE * call.waited:
                break
            of_ranks = [(rank, s) for (other, rank), s in call.costs.items() if other == cause]
            of_ranks.sort(key=lambda pair: -pair[1])
            causes.append(
                {
                    "callpath": str(callpaths[cause]),
                    "seconds": round(rows[cause], 6),
                    "ranks": [[rank, round(s, 6)] for rank, s in of_ranks[:MAX_RANKS]],
                }
            )
        described.append(
            {
                "callpath": str(callpaths[row]),
                "waited": round(call.waited, 6),
                "causes": causes,
            }
        )
    return described
