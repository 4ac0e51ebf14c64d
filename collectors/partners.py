"""How many distinct ranks a rank exchanges messages with, per call path."""

from insitu.collectors.ranks import GaugeValues, Rank
from insitu.entities import PARTNERS


def partner_gauges(rank: Rank) -> list[GaugeValues]:
    """The metric `partners` of the call paths in which a rank names other ranks.

    A table has a number per row. Where several rows are one call path, because several threads
    execute it or a function above them is not recorded, the same rank may be counted in each of
    them, so the metric is absent.
    """
    numbers: dict[int, int] = {}  # by row of the node
    counts: dict[int, int] = {}
    for node_row, value in zip(rank.node_rows, rank.table.partners(), strict=False):
        if value:
            numbers[node_row] = value - 1
            counts[node_row] = counts.get(node_row, 0) + 1

    return [
        (rank.number, node_row, {PARTNERS.name: float(number)})
        for node_row, number in numbers.items()
        if counts[node_row] == 1
    ]
