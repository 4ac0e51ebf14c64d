"""With which ranks a rank exchanges messages, per call path, and on which communicators."""

from insitu.collectors.ranks import GaugeValues, Rank
from insitu.collectors.table import PARTNER_ONLY
from insitu.entities import ONLY_PARTNER, PARTNERS, SPLIT_COMMUNICATOR


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


def communicator_gauges(rank: Rank) -> list[GaugeValues]:
    """The metric `split_communicator` of call paths: see `rows_on_split_communicators`."""
    on_node: dict[int, bool] = {}  # by row of the node
    for row, is_on_node in rank.table.rows_on_split_communicators():
        if row < len(rank.node_rows):
            node_row = rank.node_rows[row]
            on_node[node_row] = on_node.get(node_row, True) and is_on_node
    return [
        (rank.number, node_row, {SPLIT_COMMUNICATOR.name: 2.0 if is_on_node else 1.0})
        for node_row, is_on_node in on_node.items()
    ]
