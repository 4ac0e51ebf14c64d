"""What the threads of parallel regions did, per call path."""

from array import array
from collections.abc import Mapping

from insitu.collectors.ranks import GaugeValues, Rank
from insitu.collectors.table import OPENMP
from insitu.entities import IMBALANCE, TEAM_THREADS, TIME_BARRIER, TIME_BUSY

SUMS = ("visits", "time_busy", "time_barrier", "threads", "time_capacity", "regions_unknown")


def team_gauges(rank: Rank, totals: Mapping[str, "array[int]"]) -> list[GaugeValues]:
    """The metrics of the call paths that are parallel regions.

    They are absent where a region was executed whose threads are not known, and before the first
    execution of a region has ended.

    Args:
        rank: the rank.
        totals: shape (n_rows,) for each column of its table; times are in ticks.
    """
    sums: dict[int, dict[str, int]] = {}  # by row of the node; several rows may be one call path
    for i, row in enumerate(rank.table.rows):
        if row.kind == OPENMP and "time_busy" in totals:
            values = sums.setdefault(rank.node_rows[i], dict.fromkeys(SUMS, 0))
            for name in SUMS:
                values[name] += totals[name][i]

    gauges: list[GaugeValues] = []
    for node_row, values in sums.items():
        if not values["threads"] or not values["visits"] or values["regions_unknown"]:
            continue
        metrics = {
            TIME_BUSY.name: values["time_busy"] * rank.tick_s,
            TIME_BARRIER.name: values["time_barrier"] * rank.tick_s,
            TEAM_THREADS.name: values["threads"] / values["visits"],
        }
        if values["time_capacity"]:
            metrics[IMBALANCE.name] = 1 - values["time_busy"] / values["time_capacity"]
        gauges.append((rank.number, node_row, metrics))
    return gauges
