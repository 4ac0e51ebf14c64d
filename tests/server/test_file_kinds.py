"""Files by kind: shared by all ranks or of one rank, across nodes, and absent where unknown."""

import json

import numpy as np
import pytest

from insitu.entities import FILES_OPENED, VISITS, CallPath
from insitu.modeling.measurement import RunTable
from insitu.server.file_kinds import add_file_kinds, without_files
from insitu.wire.messages import Bye

READ, WRITE = CallPath.parse("app->read->open"), CallPath.parse("app->write->open")
PATHS = (CallPath.parse("app"), READ, WRITE)
P = 4


def table() -> RunTable:
    return RunTable(PATHS, (VISITS,), {"visits": np.ones((3, P))})


def node(*sets: object, is_whole: bool = True) -> tuple[Bye, np.ndarray]:
    cost = json.dumps({"cpu_s": 0.1, "opened": {"is_whole": is_whole, "sets": sets}})
    return Bye(1, (), 0, cost), np.arange(3)


def test_a_file_of_all_ranks_of_all_nodes_is_shared_and_a_file_of_one_rank_its_own():
    first = node([1, [7], False, [0, 1]], [2, [20, 21], False, [0]], [2, [30], False, [1]])
    second = node([1, [7], False, [2, 3]], [2, [40], False, [2]], [2, [50], False, [3]])

    values = add_file_kinds(table(), [first, second], PATHS).values

    assert values["files_shared"][1].tolist() == [1, 1, 1, 1]
    assert values["files_own"][1].tolist() == [0, 0, 0, 0]
    assert values["files_own"][2].tolist() == [2, 1, 1, 1]
    assert np.isnan(values["files_own"][0]).all()


def test_a_file_that_some_ranks_open_is_neither():
    only = node([1, [7], False, [0, 1, 2]], [2, [9], False, [3]])

    values = add_file_kinds(table(), [only], PATHS).values

    assert values["files_shared"][1, :3].tolist() == [0, 0, 0]
    assert values["files_own"][1, :3].tolist() == [0, 0, 0]
    assert values["files_own"][2, 3] == 1


def test_what_may_be_in_a_full_set_is_unknown():
    only = node([1, [3, 5], True, [0]], [2, [4], False, [1]], [2, [6], False, [2]])

    values = add_file_kinds(table(), [only], PATHS).values

    assert np.isnan(values["files_own"][1]).all()
    assert values["files_own"][2, 1] == 1  # below 5 the full set is complete
    assert np.isnan(values["files_own"][2, 2])


def test_the_many_files_of_imports_and_of_mpi_init_leave_the_others_known():
    start = [CallPath.parse("app->(import)->open"), CallPath.parse("app->MPI_Init->open")]
    paths = (*PATHS, *start)
    started = RunTable(paths, (VISITS,), {"visits": np.ones((5, P))})
    cost = [[2, [4], False, [1]], [3, [1, 2], True, [0]], [4, [1, 3], True, [0]]]
    only = Bye(1, (), 0, json.dumps({"opened": {"is_whole": True, "sets": cost}})), np.arange(5)

    values = add_file_kinds(started, [only], paths).values

    assert values["files_own"][2, 1] == 1
    assert np.isnan(values["files_own"][3:]).all()


@pytest.mark.parametrize(
    "damaged",
    [
        *([9, [1], False, [0]], [-1, [1], False, [0]], [0.5, [1], False, [0]]),
        *([1, [1], False, [99]], [1, [1], False, [-1]], [1, "x", False, [0]], [1], "text"),
        *([1, [], True, [0]], [1, [0], True, [0]]),  # a full set has files, and 0 is none
    ],
)
def test_malformed_sets_give_no_values(damaged: object):
    assert add_file_kinds(table(), [node(damaged)], PATHS).values.keys() == {"visits"}


def test_files_of_a_node_that_lost_some_give_no_values():
    lossy = node([1, [7], False, [0]], is_whole=False)

    assert add_file_kinds(table(), [lossy], PATHS).values.keys() == {"visits"}


def test_the_files_are_not_stored_with_the_cost():
    bye, _ = node([1, [7], False, [0]])

    assert json.loads(without_files(bye.cost)) == {"cpu_s": 0.1}
    assert without_files("not JSON") == "not JSON"


def test_the_kinds_of_files_do_not_depend_on_the_order_of_nodes_sets_and_files():
    first = [[1, [7, 9], False, [0, 1]], [2, [20], False, [0]], [2, [30, 60], True, [1]]]
    second = [[1, [9, 7], False, [2, 3]], [1, [41, 43], False, [2]], [2, [61], False, [3]]]

    expected = add_file_kinds(table(), [node(*first), node(*second)], PATHS)
    turned = [node(*second[::-1]), (Bye(1, (), 0, "{}"), np.arange(3)), node(*first[::-1])]
    found = add_file_kinds(table(), turned, PATHS)

    assert found.metrics == expected.metrics
    for name, values in expected.values.items():
        np.testing.assert_array_equal(found.values[name], values)
    assert found.values["files_shared"][1].tolist() == [2, 2, 2, 2]
    assert found.values["files_own"][1].tolist() == [0, 0, 2, 0]
    # The full set knows its files up to 60: a larger file may be in it as well.
    np.testing.assert_array_equal(found.values["files_own"][2], [1, np.nan, np.nan, np.nan])


def test_a_serial_program_shares_its_files_with_nobody_and_owns_none():
    alone = RunTable(PATHS, (VISITS,), {"visits": np.ones((3, 1))})

    values = add_file_kinds(alone, [node([1, [7, 8], False, [0]])], PATHS).values

    assert (values["files_shared"][1, 0], values["files_own"][1, 0]) == (2, 0)


def test_a_cost_that_is_no_mapping_gives_no_values():
    odd = Bye(1, (), 0, "[1]"), np.arange(3)

    assert add_file_kinds(table(), [odd], PATHS).values.keys() == {"visits"}
    assert without_files(odd[0].cost) == "[1]"


def many_files(*, files: int, openings: int, ranks_of_each: int = 1) -> np.ndarray:
    """`files_own` of a call path that opens as many files on each rank, of which sets keep 32."""
    random = np.random.default_rng(11)
    sets = []
    for rank in range(0, P, ranks_of_each):
        opened = sorted(random.integers(1, 1 << 52, files).tolist())[:32]
        sets.append([2, opened, files > 32, list(range(rank, rank + ranks_of_each))])
    values = {"visits": np.ones((3, P)), "files_opened": np.full((3, P), float(openings))}
    several = RunTable(PATHS, (VISITS, FILES_OPENED), values)
    own: np.ndarray = add_file_kinds(several, [node(*sets)], PATHS).values["files_own"][2]
    return own


def test_more_files_than_a_set_has_room_for_are_those_of_their_ranks_if_all_that_are_known_are():
    assert many_files(files=200, openings=200).tolist() == [200] * P


def test_many_files_that_are_opened_again_or_by_two_ranks_are_unknown():
    assert np.isnan(many_files(files=100, openings=200)).all()
    assert np.isnan(many_files(files=200, openings=200, ranks_of_each=2)).all()
