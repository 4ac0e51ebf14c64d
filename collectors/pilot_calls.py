"""What the ranks of a pilot run passed to MPI, from the tables that they left."""

import os

from insitu.collectors import table_directory
from insitu.collectors.node import Node
from insitu.collectors.ranks import Rank
from insitu.collectors.table import MPI

WORD_BYTES = 8  # bytes count in words, as counters of Python programs count elements
WORDS = "words"
COUNTS = {  # name of a count by column of the table
    "visits": "visits",
    "bytes_sent": WORDS,
    "bytes_received": WORDS,
    "comm_ranks": "ranks",
}

CallCounts = dict[tuple[str, str], float]  # by call path and name of the count


def read_pilot_calls(base: str) -> list[CallCounts]:
    """Return the counts of each rank whose table is below a base directory.

    Calls that neither moved data nor belong to all ranks of a communicator are left out: that they
    are made as often as before says nothing about their work, as of MPI_Init.
    """
    user_directory = table_directory.user_directory(base)
    if not os.path.isdir(user_directory):
        return []  # no rank is a compiled program with MPI

    counts = []
    for entry in sorted(os.listdir(user_directory)):
        node = Node(os.path.join(user_directory, entry))
        node.scan()
        callpaths = [str(callpath) for callpath in node.callpaths()]
        counts += [_count_calls(rank, callpaths) for rank in node.ranks.values()]
        for rank in node.ranks.values():
            rank.table.close()
    return counts


def _count_calls(rank: Rank, callpaths: list[str]) -> CallCounts:
    columns = rank.table.totals(rank.tick_s)
    counts: CallCounts = {}
    for i, row in enumerate(rank.table.rows):
        if row.kind != MPI:
            continue
        amounts = {column: columns[column][i] for column in COUNTS if column in columns}
        if not any(amount for column, amount in amounts.items() if column != "visits"):
            continue

        callpath = callpaths[rank.node_rows[i]]
        for column, amount in amounts.items():
            name = COUNTS[column]
            size = amount / WORD_BYTES if name == WORDS else float(amount)
            counts[callpath, name] = counts.get((callpath, name), 0.0) + size
    return counts
