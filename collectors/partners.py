"""How many distinct ranks a rank exchanges messages with, or accesses, per call path."""

from insitu.collectors.ranks import GaugeValues, Rank
from insitu.collectors.table import PARTNER_ONLY
from insitu.entities import ONLY_PARTNER, PARTNERS


def partner_gauges(rank: Rank) -> list[GaugeValues]:
    """The metric `partners` of the call paths in which a rank names other ranks.

    Where it is 1, `only_partner` is that rank. A table has a number per row. Where several rows are
    one call path, because several threads execute it or a function above them is not recorded, the
    same rank may be counted in each of them, so the metrics are absent.
    """
    entries: dict[int, int] = {}  # by row of the node
    counts: dict[int, int] = {}
    for node_row, value in zip(rank.node_rows, rank.table.partners(), strict=False):
        if value:
            entries[node_row] = value
            counts[node_row] = counts.get(node_row, 0) + 1

    gauges: list[GaugeValues] = []
    for node_row, value in entries.items():
        if counts[node_row] == 1:
            values = {PARTNERS.name: float(value - 1)}
            if value >= PARTNER_ONLY:
                values = {PARTNERS.name: 1.0, ONLY_PARTNER.name: float(value - PARTNER_ONLY)}
            gauges.append((rank.number, node_row, values))
    return gauges
