"""Which files of the ranks of a node reach the aggregator."""

from types import SimpleNamespace
from typing import Any

from insitu.collectors.file_sets import MAX_FILES, describe_opened
from insitu.collectors.table import OpenedFiles


def rank(number: int, files: tuple[int, ...], *, is_full: bool = False) -> Any:
    table = SimpleNamespace(
        read_header=lambda: SimpleNamespace(opened_refused=0),
        opened_files=lambda: [OpenedFiles(0, files, is_full)],
    )
    return SimpleNamespace(number=number, table=table, node_rows=[5])


def test_ranks_with_the_same_files_share_an_entry():
    ranks = [rank(0, (3, 4)), rank(1, (3, 4)), rank(2, (9,), is_full=True)]

    described = describe_opened(ranks)

    assert described["is_whole"]
    assert described["sets"] == [[5, (3, 4), False, [0, 1]], [5, (9,), True, [2]]]


def test_sets_that_are_too_many_for_a_message_keep_their_smallest_files():
    count = MAX_FILES // 20
    ranks = [rank(i, tuple(range(i + 1, i + 33))) for i in range(count)]
    ranks.append(rank(count, (1, 2)))

    described = describe_opened(ranks)

    assert described["is_whole"]
    assert described["sets"][3] == [5, tuple(range(4, 24)), True, [3]]
    assert described["sets"][-1] == [5, (1, 2), False, [count]]
    assert sum(len(files) for _, files, _, _ in described["sets"]) <= MAX_FILES


def test_so_many_sets_that_each_would_say_little_are_unknown():
    ranks = [rank(i, tuple(range(i + 1, i + 33))) for i in range(MAX_FILES // 7)]

    assert describe_opened(ranks) == {"is_whole": False, "sets": []}


def test_ranks_that_opened_nothing_are_not_described():
    nothing = SimpleNamespace(
        read_header=lambda: SimpleNamespace(opened_refused=0), opened_files=list
    )

    assert describe_opened([SimpleNamespace(number=0, table=nothing, node_rows=[])]) == {}
