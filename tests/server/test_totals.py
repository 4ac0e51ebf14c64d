"""The table of a run from its totals: same call paths merged, ticks scaled, absent values NaN."""

import numpy as np
import pytest

from insitu.errors import WireError
from insitu.server.dictionary import CallPaths, Dictionary
from insitu.server.totals import (
    Register,
    Source,
    dictionary_rows_needed,
    locate_ranks,
    means_of,
    table_of,
    totals_of,
)
from insitu.wire.messages import Column, Group, Paths, Totals
from tests.support.nodes import COLUMNS, TICK_S, ModelNode, column


def source_of(names, parents=None, callpaths=None):
    dictionary = Dictionary(callpaths or CallPaths())
    parents = np.asarray(parents or [0] * len(names), "<u4").tobytes()
    dictionary.extend(Paths(0, parents, tuple(names), ("",) * len(names), bytes(4 * len(names))))
    return Source(COLUMNS, dictionary)


def group_of(ranks, rows, columns):
    return Group(
        np.array(ranks, "<i4").tobytes(),
        np.array(rows, "<u4").tobytes(),
        np.full(len(ranks), TICK_S).tobytes(),
        tuple(columns),
        tuple(np.array(matrix).tobytes() for matrix in columns.values()),
    )


def registers_of(source, *groups, size=8, seq=1):
    rows_by_rank = locate_ranks(Totals(seq, 1, groups), source, size)
    return {rank: Register((1, seq), source, tuple(rows)) for rank, rows in rows_by_rank.items()}


def test_a_value_is_in_the_row_of_its_call_path_and_the_column_of_its_rank():
    source = source_of(["main", "solve"])
    visits = np.array([[1, 10], [1, 20]], "<u8")

    table = table_of(3, registers_of(source, group_of([2, 0], [0, 1], {0: visits})))

    assert [str(c) for c in table.callpaths] == ["main", "main->solve"]
    np.testing.assert_array_equal(table.values["visits"], [[1, np.nan, 1], [20, np.nan, 10]])


def test_functions_that_only_lead_to_calls_have_a_site():
    """Functions of unchanged compiled programs are known from the stacks of their MPI calls."""
    dictionary = Dictionary(CallPaths())
    parents = np.array([0, 0, 1], "<u4").tobytes()
    files = ("/bin/solver", "/bin/solver", "")
    dictionary.extend(Paths(0, parents, ("main", "exchange", "MPI_Send"), files, bytes(12)))
    source = Source(COLUMNS, dictionary)
    visits = np.array([[0, 0, 7]], "<u8")

    table = table_of(1, registers_of(source, group_of([0], [0, 1, 2], {0: visits})))

    assert [str(callpath) for callpath in table.callpaths] == ["main->exchange->MPI_Send"]
    assert {str(callpath): file for callpath, (file, _) in table.sites.items()} == {
        "main": "/bin/solver",
        "main->exchange": "/bin/solver",
    }


def test_ticks_become_seconds():
    source = source_of(["main"])
    group = group_of([0], [0], {1: np.array([[6]], "<u8")})

    assert table_of(1, registers_of(source, group)).values["time"].tolist() == [[6 * TICK_S]]


def test_a_row_without_visits_has_no_values():
    source = source_of(["main", "solve"])
    group = group_of(
        [0, 1],
        [0, 1],
        {0: np.array([[1, 0], [1, 2]], "<u8"), 1: np.array([[4, 0], [4, 2]], "<u8")},
    )

    table = table_of(2, registers_of(source, group))

    assert np.isnan(table.values["time"][1]).tolist() == [True, False]


def test_rows_with_the_same_id_are_summed():
    source = source_of(["main"])
    group = group_of([0], [0, 0], {0: np.array([[3, 4]], "<u8")})

    assert table_of(1, registers_of(source, group)).values["visits"].tolist() == [[7]]


def test_two_rows_of_one_call_path_are_summed():
    source = source_of(["main", "solve", "solve"])
    group = group_of([0], [0, 1, 2], {0: np.array([[1, 3, 4]], "<u8")})

    table = table_of(1, registers_of(source, group))

    assert column(table, 0) == {"main": 1, "main->solve": 7}


def test_nodes_with_different_dictionaries_share_call_paths():
    run = CallPaths()
    a = source_of(["main", "solve", "halo"], callpaths=run)
    b = source_of(["main", "halo", "io"], callpaths=run)
    visits = np.array([[1, 2, 3]], "<u8")
    registers = registers_of(a, group_of([0], [0, 1, 2], {0: visits}))
    registers |= registers_of(b, group_of([1], [0, 1, 2], {0: visits}))

    table = table_of(2, registers)

    assert column(table, 0) == {"main": 1, "main->solve": 2, "main->halo": 3}
    assert column(table, 1) == {"main": 1, "main->halo": 2, "main->io": 3}


def test_a_rank_may_be_in_several_groups_of_a_message():
    source = source_of(["main", "solve"])
    visits = group_of([0, 1], [0, 1], {0: np.array([[1, 2], [1, 3]], "<u8")})
    memory = group_of([1], [0], {2: np.array([[5e6]])})

    table = table_of(2, registers_of(source, visits, memory))

    assert column(table, 0, "memory_rss") == {}
    assert column(table, 1, "memory_rss") == {"main": 5e6}


def test_a_metric_without_values_is_absent():
    source = source_of(["main"])
    group = group_of([0], [0], {0: np.array([[1]], "<u8"), 2: np.array([[np.nan]])})

    assert [m.name for m in table_of(1, registers_of(source, group)).metrics] == ["visits"]


def test_the_means_over_ranks_are_those_of_the_table():
    a, b = ModelNode("n0", [0, 1], 3), ModelNode("n1", [2], 3)
    a.work("solve")
    b.work("halo", by=5)
    run = CallPaths()
    registers = registers_of(source_of(a.paths, callpaths=run), *a.totals(1).groups)
    registers |= registers_of(source_of(b.paths, callpaths=run), *b.totals(1).groups)

    means = means_of(registers, ("visits", "time"))

    table = table_of(3, registers)
    for row, callpath in enumerate(table.callpaths):
        for i, name in enumerate(("visits", "time")):
            assert means[callpath][i] == np.nanmean(table.values[name][row])
        assert means[callpath][2] == np.count_nonzero(~np.isnan(table.values["visits"][row]))


def test_an_arrow_in_a_frame_does_not_split_it():
    callpaths = source_of(["main", "operator->"]).dictionary.callpaths

    assert callpaths.all[1].frames == ("main", "operator→")


def test_rows_after_a_gap_are_ignored():
    dictionary = Dictionary(CallPaths())

    dictionary.extend(Paths(2, bytes(4), ("solve",), ("",), bytes(4)))

    assert len(dictionary) == 0


def test_known_rows_are_not_added_again():
    source = source_of(["main", "solve"])

    source.dictionary.extend(Paths(1, bytes(8), ("solve", "halo"), ("", ""), bytes(8)))

    assert source.dictionary.names == ["main", "solve", "halo"]


def test_a_row_that_is_its_own_parent_is_another_root():
    source = source_of(["main", "other", "solve"], [0, 1, 1])

    callpaths = source.dictionary.callpaths.all
    assert [str(callpaths[path_id]) for path_id in source.dictionary.path_ids] == [
        "main",
        "other",
        "other->solve",
    ]


@pytest.mark.parametrize("parent", [2, 7, 2**32 - 1])
def test_a_parent_that_follows_its_child_is_refused(parent):
    with pytest.raises(WireError, match="names row"):
        source_of(["main", "solve"], [0, parent])


def test_an_endless_recursion_is_refused_before_it_fills_the_memory():
    names = ["f"] * 10_000

    with pytest.raises(WireError, match="the call paths of a run have more than"):
        source_of(names, [0, *range(len(names) - 1)])


def test_the_rows_that_a_message_needs_are_counted():
    group = group_of([0], [0, 5], {0: np.array([[1, 1]], "<u8")})

    assert dictionary_rows_needed(Totals(1, 1, (group,))) == 6


@pytest.mark.parametrize(
    "group",
    [
        group_of([8], [0], {0: np.array([[1]], "<u8")}),
        group_of([-1], [0], {0: np.array([[1]], "<u8")}),
        group_of([1, 1], [0], {0: np.array([[1], [1]], "<u8")}),
        group_of([1], [0], {3: np.array([[1]], "<u8")}),
        group_of([1], [0], {2: np.array([[np.inf]])}),
        Group(bytes(4), bytes(4), np.array([np.nan]).tobytes(), (0,), (bytes(8),)),
        Group(bytes(4), bytes(4), np.array([-1.0]).tobytes(), (0,), (bytes(8),)),
    ],
)
def test_what_does_not_fit_the_session_is_refused(group):
    with pytest.raises(WireError):
        locate_ranks(Totals(1, 1, (group,)), source_of(["main"]), 8)


def test_registers_survive_a_round_trip_through_messages():
    node = ModelNode("n0", [0, 1, 2], 3)
    node.work("solve")
    source = source_of(node.paths)
    registers = registers_of(source, *node.totals(1).groups, size=3)
    node.work("halo")
    source.dictionary.extend(node.dictionary())
    newer = registers_of(source, *node.totals(2).groups, size=3, seq=2)
    registers[1] = newer[1]  # the others' last totals are older

    again: dict[int, Register] = {}
    for message in totals_of(registers, last_seq=3, time_ns=1):
        for rank, rows in locate_ranks(message, source, 3).items():
            again[rank] = Register((1, message.seq), source, tuple(rows))

    before, after = table_of(3, registers), table_of(3, again)
    assert before.callpaths == after.callpaths
    for name, values in before.values.items():
        np.testing.assert_array_equal(values, after.values[name])


def test_a_large_dictionary_is_written_in_several_messages():
    names = [f"f{i}" for i in range(9000)]
    source = source_of(names)

    messages = source.dictionary.to_paths()

    again = Dictionary(CallPaths())
    for message in messages:
        again.extend(message)
    assert len(messages) > 1
    assert again.names == names


def test_columns_of_different_nodes_are_matched_by_name():
    swapped = (Column("time", "s", "total", "u8"), Column("visits", "1", "total", "u8"))
    a = source_of(["main"])
    b = Source(swapped, source_of(["main"]).dictionary)
    registers = registers_of(a, group_of([0], [0], {0: np.array([[5]], "<u8")}))
    registers |= registers_of(b, group_of([1], [0], {1: np.array([[6]], "<u8")}))

    assert table_of(2, registers).values["visits"].tolist() == [[5, 6]]


def test_a_gauge_has_its_value_also_where_a_rank_never_was():
    source = source_of(["main", "solve"])
    group = group_of([0], [0, 1], {0: np.array([[0, 0]], "<u8"), 2: np.array([[5.0, 0.0]])})

    table = table_of(1, registers_of(source, group))

    assert [str(path) for path in table.callpaths] == ["main"]
    assert table.values["memory_rss"].tolist() == [[5.0]]


def test_means_of_some_metrics_are_those_of_the_whole_table_in_any_order_of_columns():
    source = source_of(["main", "solve"])
    columns = {
        1: np.array([[4, 2], [6, 8]], "<u8"),
        0: np.array([[1, 3], [1, 5]], "<u8"),
        2: np.array([[7.0, 9.0], [1.0, 1.0]]),
    }
    registers = registers_of(source, group_of([0, 1], [0, 1], columns))
    values = table_of(2, registers).values

    for index in columns:
        name = COLUMNS[index].name
        means = means_of(registers, [name])
        assert [mean[0] for mean in means.values()] == np.mean(values[name], axis=1).tolist()


def test_a_metric_that_nobody_has_does_not_hide_those_behind_it():
    registers = registers_of(source_of(["main"]), group_of([0], [0], {0: np.array([[7]], "<u8")}))

    (mean,) = means_of(registers, ["visits", "unknown", "visits"]).values()

    assert mean[0] == mean[2] == 7.0 and np.isnan(mean[1])
