"""Flat lists of regions, of which the times say which contains which."""

import numpy as np
import pytest

from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, RunKey
from insitu.formats.nested_regions import (
    find_longer_callee,
    find_nesting,
    follow_nesting,
    nest_regions,
)
from insitu.modeling.measurement import RunTable

Run = tuple[RunKey, RunTable]


def flat_run(times: dict[str, float], p: int = 4, metric: str = "time") -> Run:
    paths = tuple(CallPath((name,)) for name in times)
    values = np.repeat(np.array(list(times.values()), dtype=float)[:, None], 2, axis=1)
    known = TIME if metric == "time" else TIME_EXCLUSIVE
    return RunKey.of({"p": p}), RunTable(paths, (known,), {metric: values})


def nested(*runs: Run) -> dict[str, str]:
    return {str(path): str(at) for path, at in find_nesting(runs).items()}


def test_two_regions_that_take_longer_than_the_program_together_are_nested():
    found = nested(flat_run({"main": 10, "solve": 7, "sort": 6, "read": 2}))

    assert found == {
        "main": "main",
        "solve": "main->solve",
        "sort": "main->solve->sort",
        "read": "main->read",
    }


@pytest.mark.parametrize("name", ["main", "main()", "MAIN__", "int main(int, char**)", "_main"])
def test_programs_are_known_by_the_names_that_languages_give_them(name):
    assert nested(flat_run({name: 10, "solve": 7}))["solve"] == f"{name}->solve"


@pytest.mark.parametrize(
    "times",
    [
        {"solve": 10, "sort": 6},
        {"domain": 10, "sort": 6},
        {"main": 10, "sort": 11},
        {"main": 10, "main()": 9, "sort": 6},
        {"main": 10},
        {"main": 10, "main->sort": 6},
    ],
)
def test_without_a_program_that_takes_longest_nothing_is_nested(times):
    paths = {CallPath.parse(name): value for name, value in times.items()}
    key, table = flat_run({str(path): value for path, value in paths.items()})
    table = RunTable(tuple(paths), table.metrics, table.values)

    assert find_nesting([(key, table)]) == {}


def test_exclusive_times_contain_no_others():
    assert find_nesting([flat_run({"main": 10, "sort": 6}, metric="time_exclusive")]) == {}


def test_one_run_in_which_a_region_takes_longer_shows_that_it_is_not_inside():
    first = flat_run({"main": 10, "solve": 7, "sort": 6})
    second = flat_run({"main": 10, "solve": 3, "sort": 6}, p=8)

    assert nested(first)["sort"] == "main->solve->sort"
    assert nested(first, second)["sort"] == "main->sort"


def random_tree(rng: np.random.Generator, n_regions: int) -> tuple[dict[str, str], list[Run]]:
    """The caller of each region, and flat runs in which each takes longer than what it calls."""
    names = ["main", *(f"r{i}" for i in range(1, n_regions))]
    callers = {names[i]: names[rng.integers(i)] for i in range(1, n_regions)}
    runs = []
    for p in (2, 4, 8):
        own = dict(zip(names, rng.exponential(size=n_regions).tolist(), strict=True))
        for name in reversed(names[1:]):
            own[callers[name]] += own[name]
        runs.append(flat_run(own, p))
    return callers, runs


def ancestors(callers: dict[str, str], name: str) -> set[str]:
    above = set()
    while name in callers:
        name = callers[name]
        above.add(name)
    return above


@pytest.mark.parametrize("seed", range(40))
def test_no_region_is_put_inside_another_that_does_not_contain_it(seed):
    callers, runs = random_tree(np.random.default_rng(seed), 9)

    for path, at in find_nesting(runs).items():
        assert set(at.frames[:-1]) <= ancestors(callers, path.name)


@pytest.mark.parametrize("seed", range(10))
def test_neither_the_order_of_regions_and_runs_nor_the_unit_matters(seed):
    rng = np.random.default_rng(seed)
    _, runs = random_tree(rng, 9)
    order = rng.permutation(9)
    changed = []
    for key, table in reversed(runs):
        paths = tuple(table.callpaths[i] for i in order)
        changed.append(
            (key, RunTable(paths, table.metrics, {"time": 1e3 * table.values["time"][order]}))
        )

    assert find_nesting(changed) == find_nesting(runs)


def test_nested_runs_keep_their_values():
    runs = [flat_run({"main": 10, "solve": 7, "sort": 6})]

    ((key, table),) = nest_regions(runs, find_nesting(runs))

    assert key == runs[0][0]
    assert [str(path) for path in table.callpaths] == ["main", "main->solve", "main->solve->sort"]
    assert table.values["time"].tolist() == [[10, 10], [7, 7], [6, 6]]


@pytest.mark.parametrize(
    "stored",
    [
        (),
        ("main",),
        ("main", "sort"),
        ("solve", "solve->sort"),
        ("main", "main->a->sort", "main->b->sort"),
    ],
)
def test_call_paths_of_a_campaign_are_followed_only_where_names_are_clear(stored):
    runs = [flat_run({"sort": 6})]

    assert follow_nesting(runs, tuple(map(CallPath.parse, stored))) == {}


def with_times(times: dict[str, float]) -> Run:
    key, table = flat_run(times)
    return key, RunTable(tuple(map(CallPath.parse, times)), table.metrics, table.values)


def test_a_function_that_takes_longer_than_its_caller_is_found():
    inclusive = with_times({"app": 10, "app->main": 10.5, "app->main->sort": 9})
    exclusive = with_times({"app": 1, "app->main": 0.5, "app->main->sort": 9})

    assert find_longer_callee([inclusive]) is None
    assert str(find_longer_callee([inclusive, exclusive])) == "app->main->sort"
