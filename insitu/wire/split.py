"""Split totals that are too large for one frame into several messages, and shorten texts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from insitu.wire.messages import MAX_FRAME_BYTES, Group, Totals

MAX_TOTALS_BYTES = MAX_FRAME_BYTES // 2  # of matrices; the rest is reserve for headers
GROUP_BYTES = 64  # headers of a group


def split_totals(totals: Totals, max_bytes: int = MAX_TOTALS_BYTES) -> list[Totals]:
    """Split totals into messages that fit into frames, with ascending seq from `totals.seq` on.

    All totals of a rank stay in one message, since the newest message of a rank is its state. The
    sender continues from the seq of the last message, which is also the one that `Bye` names.

    Args:
        totals: the message to split.
        max_bytes: the limit for each message, unless a single rank needs more.
    """
    if sum(_size_of(group) for group in totals.groups) <= max_bytes:
        return [totals]

    groups_by_rank: dict[bytes, list[Group]] = {}
    for group in totals.groups:
        for rank, group_of_rank in _split_by_rank(group):
            groups_by_rank.setdefault(rank, []).append(group_of_rank)

    messages: list[list[Group]] = [[]]
    message_bytes = 0
    for groups in groups_by_rank.values():
        size = sum(_size_of(group) for group in groups)
        if messages[-1] and message_bytes + size > max_bytes:
            messages.append([])
            message_bytes = 0
        messages[-1] += groups
        message_bytes += size

    return [
        replace(totals, seq=totals.seq + i, groups=tuple(groups))
        for i, groups in enumerate(messages)
    ]


def _size_of(group: Group) -> int:
    matrices = sum(len(matrix) for matrix in group.matrices)
    return len(group.ranks) + len(group.rows) + len(group.tick_s) + matrices + GROUP_BYTES


def _split_by_rank(group: Group) -> Iterator[tuple[bytes, Group]]:
    """Yield each rank of a group, as its 4 bytes, with a group of this rank alone."""
    width = 2 * len(group.rows)  # bytes of a rank in a matrix: 8 per row, whose id takes 4 bytes
    for i in range(len(group.ranks) // 4):
        rank = group.ranks[4 * i : 4 * i + 4]
        matrices = [matrix[width * i : width * (i + 1)] for matrix in group.matrices]
        ticks = group.tick_s[8 * i : 8 * i + 8]
        yield rank, replace(group, ranks=rank, tick_s=ticks, matrices=tuple(matrices))


def shorten_json(values: Mapping[str, Any], max_bytes: int) -> str:
    """An object as JSON of at most `max_bytes`; the longest of its lists lose their last elements.

    Args:
        values: lists have their most important elements first; what is no list is short.
        max_bytes: the limit of the field of the message.
    """
    text = json.dumps(values)  # ASCII
    while len(text) > max_bytes:
        lengths = {key: len(json.dumps(v)) for key, v in values.items() if isinstance(v, list)}
        longest = max(lengths, key=lambda key: lengths[key])
        shorter = list(values[longest])
        excess = len(text) - max_bytes
        while shorter and excess > 0:
            excess -= len(json.dumps(shorter.pop())) + len(", ")
        values = {**values, longest: shorter}
        text = json.dumps(values)
    return text
