"""Which files the ranks of a node opened, per call path, for the aggregator to compare."""

from collections.abc import Iterable
from typing import Any

from insitu.collectors.ranks import Rank

MAX_FILES = 8192  # identities in one message
MIN_FILES_OF_SET = 8  # of more that a rank opened; fewer would say little about the others


def describe_opened(ranks: Iterable[Rank]) -> dict[str, Any]:  # Any: JSON
    """The sets of opened files; {} if no rank opened any.

    Ranks with equal sets share an entry: `[row, [file, ...], is_full, [rank, ...]]`, where the row
    is one of the node's dictionary. If all files are too many for a message, each set has its
    smallest ones, and is full. `is_whole` is false if a set may lack files although it is not full,
    or if even these are too many.
    """
    members: dict[tuple[int, tuple[int, ...], bool], list[int]] = {}
    is_whole = True
    for rank in ranks:
        is_whole = is_whole and not rank.table.read_header().opened_refused
        for opened in rank.table.opened_files():
            if opened.row < len(rank.node_rows):
                key = (rank.node_rows[opened.row], opened.files, opened.is_full)
                members.setdefault(key, []).append(rank.number)

    if not members:
        return {}
    lengths = [len(files) for _, files, _ in members]
    room = max(lengths)
    while sum(min(length, room) for length in lengths) > MAX_FILES:
        room -= 1
        if room < MIN_FILES_OF_SET:
            return {"is_whole": False, "sets": []}
    sets = [
        [row, files[:room], is_full or len(files) > room, numbers]
        for (row, files, is_full), numbers in members.items()
    ]
    return {"is_whole": is_whole, "sets": sets}
