"""How long an iteration of the main loop takes in one rank, and by how much that varies."""

from collections.abc import Iterable, Sequence
from statistics import fmean, median, stdev
from typing import Any

from insitu.collectors.ranks import Rank
from insitu.collectors.table import TableReader

FEWEST = 8  # iterations that say something about their noise


def of(table: TableReader, node_rows: Sequence[int], tick_s: float) -> tuple[int, dict[str, float]]:
    """The node's row of the main loop, with the median time of an iteration (s) and the
    coefficient of variation of its times [DET §5.1.1]; no values where no loop was found."""
    row, ticks = table.header.loop_row, table.iteration_ticks()
    if len(ticks) < FEWEST or row >= len(node_rows) or not tick_s:
        return 0, {}
    times = [value * tick_s for value in ticks]
    mean = fmean(times)
    values = {"iteration_time": median(times)}
    return node_rows[row], values | {"iteration_variation": stdev(times) / mean if mean else 0.0}


def told(ranks: Iterable[Rank]) -> dict[str, Any]:
    """The sample of one rank, in order: whether iterations grow can be seen in it; {} without."""
    for rank in ranks:
        ticks, head = rank.table.iteration_ticks(), rank.table.header
        if len(ticks) >= FEWEST and rank.tick_s:
            times = [float(f"{value * rank.tick_s:.6g}") for value in ticks]
            return {"rank": rank.number, "count": head.iterations + 1, "times_s": times}
    return {}
