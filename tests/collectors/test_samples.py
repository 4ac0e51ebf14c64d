"""Times of functions that were sampled."""

from array import array

import pytest

from insitu.collectors.samples import add_sampled_times, describe_samples
from insitu.collectors.table import MPI, PROGRAM, STACK, THREAD, Row
from insitu.collectors.table_header import EMPTY_HEADER

TICK_S = 0.001
HZ = 100  # an interval is 10 ticks


def make_row(kind, parent):
    return Row(name="f", file="", line=0, parent=parent, kind=kind)


def times(rows, visits, time, exclusive, *, hz=HZ, node_rows=None):
    """Inclusive and exclusive times, in ticks."""
    totals = {
        "visits": array("Q", visits),
        "time": array("Q", time),
        "time_exclusive": array("Q", exclusive),
    }
    at_node = array("I", node_rows or range(len(rows)))
    header = EMPTY_HEADER._replace(sample_hz=hz)
    add_sampled_times(totals, rows, at_node, header, TICK_S)
    return totals["time"].tolist(), totals["time_exclusive"].tolist()


def test_a_function_takes_its_samples_and_what_its_callees_take():
    # the program, main, solve in main, MPI_Send in solve
    rows = [make_row(PROGRAM, 0), make_row(STACK, 0), make_row(STACK, 1), make_row(MPI, 2)]

    inclusive, exclusive = times(rows, [1, 2, 7, 5], [200, 0, 0, 30], [170, 0, 0, 30])

    assert inclusive == [200, 20 + 70 + 30, 70 + 30, 30]
    assert exclusive == [170 - 90, 20, 70, 30]


def test_what_a_program_takes_is_never_negative():
    rows = [make_row(PROGRAM, 0), make_row(STACK, 0)]

    inclusive, exclusive = times(rows, [1, 21], [200, 0], [200, 0])

    assert inclusive == [200, 210]
    assert exclusive == [0, 210]


def test_a_thread_takes_what_its_functions_take():
    rows = [make_row(PROGRAM, 0), make_row(THREAD, 0), make_row(STACK, 1)]

    inclusive, exclusive = times(rows, [1, 1, 3], [500, 400, 0], [500, 400, 0])

    assert inclusive[1:] == [30, 30]
    assert exclusive == [500, 0, 30]


def test_a_thread_takes_no_time_of_the_function_that_created_it():
    rows = [make_row(PROGRAM, 0), make_row(STACK, 0), make_row(THREAD, 1), make_row(STACK, 2)]

    inclusive, exclusive = times(rows, [1, 2, 1, 7], [500, 0, 400, 0], [500, 0, 400, 0])

    assert inclusive[1:] == [20, 70, 70]
    assert exclusive == [480, 20, 0, 70]


def test_recursion_through_a_copy_of_a_function_counts_once():
    rows = [make_row(PROGRAM, 0), make_row(STACK, 0), make_row(STACK, 1)]

    inclusive, exclusive = times(rows, [1, 4, 6], [500, 0, 0], [500, 0, 0], node_rows=[0, 1, 1])

    assert inclusive[1] + inclusive[2] == 100
    assert exclusive[1] + exclusive[2] == 100


def test_without_samples_nothing_changes():
    rows = [make_row(PROGRAM, 0), make_row(THREAD, 0), make_row(MPI, 1)]

    unchanged = times(rows, [1, 1, 5], [200, 90, 30], [170, 60, 30], hz=0)

    assert unchanged == ([200, 90, 30], [170, 60, 30])


@pytest.mark.parametrize("visits", [1 << 63, (1 << 64) - 1])
def test_a_damaged_count_exceeds_no_column(visits):
    rows = [make_row(PROGRAM, 0), make_row(STACK, 0), make_row(STACK, 1)]

    inclusive, _ = times(rows, [1, visits, visits], [200, 0, 0], [200, 0, 0])

    assert inclusive[1] == (1 << 64) - 1


def test_the_share_of_precise_samples_is_that_of_all_ranks():
    heads = [EMPTY_HEADER._replace(samples_taken=n, samples_precise=n - 10) for n in (10, 50)]

    assert describe_samples(heads) == {"precise_samples": 0.667}
    assert describe_samples([EMPTY_HEADER]) == {}
