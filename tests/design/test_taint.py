"""Profiles of taint analyses, in the forms that exist."""

import json

import pytest

from insitu.design.dependencies import DependencyStatus, Nest
from insitu.design.dependency_file import read_structure
from insitu.errors import UsageError

NAMES = ["main", "solve", "MPI_Reduce"]


def profile(**functions):
    """A profile as perf-taint writes it."""
    return {
        "functions": functions,
        "functions_names": NAMES,
        "functions_mangled_names": ["main", "_Z5solveii", "MPI_Reduce"],
        "parameters": ["n", "m", "p"],
    }


def entry(stacks, **loops):
    return {"callstacks": stacks, "instance": {name[1:]: loop for name, loop in loops.items()}}


def read(data):
    return {path.callpath: path for path in read_structure(json.dumps(data), "x").dependencies}


def test_nested_loops_multiply_and_adjacent_loops_add():
    loops = {
        "_0": {
            "level": 0,
            "params": [["n"]],
            "loops": {"0": {"level": 1, "params": [["m"]]}, "1": {"level": 1}},
        },
        "_1": {"level": 0, "params": [["p"]]},
    }
    by_path = read(profile(_Z5solveii={"func_idx": 1, "loops": [entry([[0]], **loops)]}))
    solve = by_path["main->solve"]
    assert set(solve.nests) == {Nest.of("n"), Nest.of("nm"), Nest.of("p")}
    assert solve.status is DependencyStatus.LABELLED


def test_a_function_counts_for_every_path_that_calls_it():
    reduce = {"func_idx": 2, "loops": [entry([[0], [0, 1]], _0={"level": 0, "params": [["p"]]})]}
    start = {"func_idx": 0, "loops": [entry([None], _0=[{"entry_id": 0, "function_idx": 2}])]}
    by_path = read(profile(MPI_Reduce=reduce, main=start))
    assert set(by_path) == {"main", "main->MPI_Reduce", "main->solve->MPI_Reduce"}
    assert by_path["main->solve->MPI_Reduce"].nests == (Nest.of("p"),)
    assert by_path["main"].nests == ()


def test_all_variants_and_branches_of_a_loop_count():
    variants = [
        {"0": {"level": 0}},
        {"0": {"level": 0, "params": [["n"], ["m"]]}},
        {"0": {"level": 0, "params": [["n"]], "branches": {"0": ["p"]}}},
    ]
    by_path = read(profile(main={"func_idx": 0, "loops": [entry([None], _0=variants)]}))
    assert set(by_path["main"].nests) == {Nest.of("n"), Nest.of("m"), Nest.of("np")}


def test_a_processed_profile_lists_the_parameters_that_act_together():
    loops = [{"callstack": [[0]], "data": [], "deps": [["n"], ["m", "p"]]}]
    by_path = read(profile(_Z5solveii={"func_idx": 1, "loops": loops}))
    assert by_path["main->solve"].nests == (Nest.of("n"), Nest.of("mp"))


@pytest.mark.parametrize(
    "function",
    [
        {"func_idx": 7, "loops": [entry([None])]},
        {"func_idx": 0, "loops": 3},
        {"func_idx": "x", "loops": [entry([None])]},
        {"func_idx": 0, "loops": [{"callstacks": [[9]], "deps": [["n"]]}]},
        {"func_idx": 0, "loops": [{"callstacks": [[0]]}]},
        3,
    ],
)
def test_a_profile_of_another_form_is_refused(function):
    with pytest.raises(UsageError, match="x: not a file of"):
        read(profile(main=function))


def test_a_refused_profile_says_which_entry_is_wrong():
    with pytest.raises(UsageError, match="functions_names"):
        read(profile() | {"functions_names": 3})
