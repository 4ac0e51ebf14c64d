"""Filters, depth, recursion and the budget: what is left out, and that the rest stays exact."""

import sys

import pytest

from insitu.collectors import node
from insitu.collectors.steering import Steering, parse_steering
from insitu.errors import UsageError
from insitu.run.options import parse
from tests.collectors.measured import measure, paths, visits

PROGRAM = """
    import json

    def leaf(n=0): return n
    def fact(n): return 1 if n < 2 else n * fact(n - 1)
    def numbers(n):
        for i in range(n): yield leaf(i)
    class Solver:
        def step(self):
            leaf()
            return self.inner()
        def inner(self):
            leaf()
            return json.loads("[1, 2]", parse_int=leaf)
    def main():
        solver = Solver()
        for _ in range(3): solver.step()
        list(numbers(4))
        fact(5)
        try: raising()
        except ValueError: leaf()
    def raising():
        leaf()
        raise ValueError
    for _ in range(2): main()
    print("ended")
"""
WAYS = (
    ("--skip", "Solver.*", "--skip", "numbers", "--skip", "*/json/*"),
    ("--only", "main", "--only", "Solver.step", "--only", "raising"),
    ("--depth", "2", "--skip", "Solver.step", "--skip", "json"),
    ("--recursion", "keep"),
)


@pytest.mark.native
@pytest.mark.parametrize("options", WAYS, ids=" ".join)
def test_the_native_hook_leaves_out_what_its_twin_leaves_out(tmp_path, python, shared, options):
    native = measure(tmp_path, python, PROGRAM, shared, *options)
    twin = measure(tmp_path, python, PROGRAM, "", *options)

    assert visits(native) == visits(twin)


@pytest.mark.native
def test_filters_let_callees_stand_below_the_caller(tmp_path, shared):
    table = measure(tmp_path, sys.executable, PROGRAM, shared, "--skip", "Solver")

    counted = visits(table)
    assert counted["program.py->main->leaf"] == 2 * (3 * 2 + 1)
    assert counted["program.py->main->json.loads"] == 6
    assert not any("Solver" in path for path in counted)


@pytest.mark.native
def test_recursion_is_kept_where_that_is_asked_for(tmp_path, python, shared):
    folded = visits(measure(tmp_path, python, PROGRAM, shared))
    kept = visits(measure(tmp_path, python, PROGRAM, shared, "--recursion", "keep"))

    assert folded["program.py->main->fact"] == 10
    assert kept["program.py->main" + "->fact" * 5] == 2


HOT = """
    import time

    def tiny(n): return n
    def middle(n):
        for i in range(10): tiny(i)
        return pair(n)
    def pair(n): return rare(n)
    def rare(n): return n
    def main():
        began = time.perf_counter()
        calls = 0
        while time.perf_counter() - began < 0.8:
            middle(calls)
            calls += 1
        return calls
    calls = main()
    assert calls > 1000
    print("ended")
"""


@pytest.mark.native
def test_the_budget_leaves_out_what_is_called_most_for_least(tmp_path, python, shared):
    table = measure(tmp_path, python, HOT, shared, "--budget", "1%")

    left_out = {table.rows[i].name for i in table.throttled()}
    assert "tiny" in left_out
    assert "main" not in left_out
    assert visits(table)["program.py->main->middle->tiny"] > 1000


@pytest.mark.native
def test_without_a_budget_everything_is_counted(tmp_path, python, shared):
    table = measure(tmp_path, python, HOT, shared, "--budget", "off")

    counted = visits(table)
    assert table.throttled() == []
    assert counted["program.py->main->middle->tiny"] == 10 * counted["program.py->main->middle"]


@pytest.mark.native
def test_throttled_functions_are_part_of_their_callers_and_named(tmp_path, shared):
    table = measure(tmp_path, sys.executable, HOT, shared, "--budget", "0.1%")
    path = table.path.rpartition("/")[0]

    here = node.Node(path)
    here.scan()
    names = [here.paths[i][1] for i in next(iter(here.ranks.values())).node_rows]
    bye = here.bye(1, {})

    assert "tiny" not in names
    ((code, text, _),) = bye.findings
    assert code == "throttled"
    assert "tiny (" in text
    assert "0.1 %" in text


@pytest.mark.native
def test_the_time_of_throttled_functions_is_their_callers(tmp_path, shared):
    table = measure(tmp_path, sys.executable, HOT, shared, "--budget", "0.1%")
    (before,) = [name for name in paths(table) if name == "program.py->main"]
    here = node.Node(table.path.rpartition("/")[0])
    here.scan()

    (totals,) = [group for group in here.totals(1).groups if len(group.columns) == 3]

    times = memoryview(totals.matrices[1]).cast("Q").tolist()
    exclusive = memoryview(totals.matrices[2]).cast("Q").tolist()
    assert before
    assert sum(exclusive) == times[0]


def test_steering_reaches_the_rank_as_it_was_said():
    said = parse(
        [
            *("--budget", "5%", "--only", "a.*", "--only", "b", "--skip", "*/x y/*"),
            *("--depth", "4", "--recursion", "keep", "--c-functions", "program.py"),
        ]
    ).steering

    assert str(parse_steering(str(said))) == str(said)
    assert (said.budget, said.only, said.depth) == (0.05, ("a.*", "b"), 4)
    assert str(parse_steering("")) == str(Steering())


@pytest.mark.parametrize(
    "words",
    [
        ["--budget", "120%"],
        ["--budget", "much"],
        ["--depth", "0"],
        ["--recursion", "no"],
        ["--only", ""],
    ],
)
def test_what_makes_no_sense_is_refused_by_name(words):
    with pytest.raises(UsageError, match=words[0]):
        parse([*words, "program.py"])
