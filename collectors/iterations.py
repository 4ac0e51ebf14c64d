"""How long an iteration of the main loop takes in one rank, and by how much that varies."""

from collections.abc import Sequence
from statistics import fmean, median, stdev

from insitu.collectors.table import TableReader

FEWEST = 8  # iterations that say something about their noise


def of(table: TableReader, node_rows: Sequence[int], tick_s: float) -> tuple[int, dict[str, float]]:
    """The node's row of the main loop, with the median time of an iteration (s) and the
    coefficient of variation of its times [DET §5.1.1]; no values where no loop was found."""
    row, ticks = table.header()["loop_row"], table.turns()
    if len(ticks) < FEWEST or row >= len(node_rows) or not tick_s:
        return 0, {}
    times = [value * tick_s for value in ticks]
    mean = fmean(times)
    values = {"iteration_time": median(times)}
    return node_rows[row], values | {"iteration_variation": stdev(times) / mean if mean else 0.0}
