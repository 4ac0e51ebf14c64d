"""Heap memory of ranks as the agent reads it from their tables."""

from array import array

from insitu.collectors import heap
from insitu.collectors.table import PYTHON, Row

ROWS = [Row(0, PYTHON, "main", "", 0), Row(0, PYTHON, "a", "", 0), Row(1, PYTHON, "b", "", 0)]
NODE_ROWS = array("I", [0, 1, 2])


def totals(allocations, allocated, growth, peak):
    words = array("q", growth).tobytes()
    return {
        "allocations": array("Q", allocations),
        "bytes_allocated": array("Q", allocated),
        "heap_growth": array("Q", words),
        "heap_peak": array("Q", peak),
    }


def test_a_call_path_includes_what_its_callees_allocate():
    read = totals([1, 2, 4], [10, 20, 40], [10, -5, -30], [100, 300, 200])

    rank_heap = heap.read_heap(7, ROWS, NODE_ROWS, read)

    assert rank_heap == heap.RankHeap(
        7, {0: (7, 70, -25, 300), 1: (6, 60, -35, 300), 2: (4, 40, -30, 200)}
    )


def test_rows_without_any_allocation_are_absent():
    rank_heap = heap.read_heap(
        0, ROWS, NODE_ROWS, totals([1, 0, 0], [8, 0, 0], [8, 0, 0], [8, 0, 0])
    )

    assert rank_heap is not None
    assert list(rank_heap.values) == [0]


def test_a_rank_whose_allocator_was_not_intercepted_has_no_heap():
    assert heap.read_heap(0, ROWS, NODE_ROWS, totals([5, 0, 0], [0] * 3, [0] * 3, [0] * 3)) is None
    assert heap.read_heap(0, ROWS, NODE_ROWS, {"visits": array("Q", [1, 1, 1])}) is None


def test_rows_of_a_rank_with_the_same_call_path_are_added():
    """As two threads are: what they allocate adds up, what was live is the same heap."""
    read = totals([0, 1, 2], [0, 10, 20], [0, 10, 20], [0, 50, 40])
    rows = [ROWS[0], Row(0, PYTHON, "(thread)", "", 0), Row(0, PYTHON, "(thread)", "", 0)]

    rank_heap = heap.read_heap(0, rows, array("I", [0, 1, 1]), read)

    assert rank_heap is not None
    assert rank_heap.values == {0: (3, 30, 30, 50), 1: (3, 30, 30, 50)}


def test_ranks_that_allocate_in_the_same_rows_share_a_group():
    ranks = [
        heap.RankHeap(0, {0: (1, 2, -3, 4)}),
        heap.RankHeap(1, {0: (5, 6, 7, 8)}),
        heap.RankHeap(2, {0: (1, 1, 1, 1), 3: (1, 1, 1, 1)}),
    ]

    both, alone = heap.heap_groups(ranks, (8, 9, 10, 11))

    assert array("i", both.ranks).tolist() == [0, 1]
    assert array("d", both.matrices[2]).tolist() == [-3.0, 7.0]
    assert (array("i", alone.ranks).tolist(), array("I", alone.rows).tolist()) == ([2], [0, 3])


def test_allocations_of_a_throttled_function_count_for_its_caller():
    read = totals([1, 2, 4], [10, 20, 40], [10, 5, 30], [100, 300, 200])

    rank_heap = heap.read_heap(0, ROWS, array("I", [0, 1, 1]), read)

    assert rank_heap is not None
    assert rank_heap.values == {0: (7, 70, 45, 300), 1: (6, 60, 35, 300)}
