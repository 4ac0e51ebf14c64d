"""Totals that are too large for one frame, as several messages with fewer ranks or rows each."""

from collections.abc import Iterator
from dataclasses import replace

from insitu.wire.messages import MAX_FRAME_BYTES, Group, Totals

ROOM_BYTES = MAX_FRAME_BYTES // 2  # of a part: its numbers; the rest is headers and head room


def split_totals(totals: Totals, room_bytes: int = ROOM_BYTES) -> list[Totals]:
    """The same totals in messages that fit into frames, with ascending seq from `totals.seq` on.

    All that a rank has stays in one message, as the newest message of a rank is its state. The
    sender goes on from the seq of the last part, which is what a `Bye` must name.
    """
    whole = sum(_bytes_of(group) for group in totals.groups)
    if whole <= room_bytes:
        return [totals]
    by_rank: dict[bytes, list[Group]] = {}
    for group in totals.groups:
        for rank, one in _ranks_of(group):
            by_rank.setdefault(rank, []).append(one)
    messages: list[list[Group]] = [[]]
    filled = 0
    for groups in by_rank.values():
        size = sum(_bytes_of(group) for group in groups)
        if messages[-1] and filled + size > room_bytes:
            messages.append([])
            filled = 0
        messages[-1] += groups
        filled += size
    return [
        replace(totals, seq=totals.seq + i, groups=tuple(groups))
        for i, groups in enumerate(messages)
    ]


def _bytes_of(group: Group) -> int:
    columns = sum(len(matrix) for matrix in group.matrices)
    return len(group.ranks) + len(group.rows) + len(group.tick_s) + columns + 64


def _ranks_of(group: Group) -> Iterator[tuple[bytes, Group]]:
    """Each rank of a group with a group of its own."""
    width = 2 * len(group.rows)  # bytes of one rank in a matrix: 8 for each row of 4 bytes
    for i in range(len(group.ranks) // 4):
        rank = group.ranks[4 * i : 4 * i + 4]
        yield (
            rank,
            replace(
                group,
                ranks=rank,
                tick_s=group.tick_s[8 * i : 8 * i + 8],
                matrices=tuple(matrix[width * i : width * (i + 1)] for matrix in group.matrices),
            ),
        )
