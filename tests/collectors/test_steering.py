"""Filters, depth, recursion and the budget: what is left out, and that the rest stays exact."""

import sys

import pytest

from insitu.collectors import node
from insitu.collectors.steering import Steering, parse_steering
from insitu.errors import UsageError
from insitu.run.options import parse
from tests.collectors.measured import counts_every_call, measure, paths, visits

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


@counts_every_call
@pytest.mark.native
@pytest.mark.parametrize("options", WAYS, ids=" ".join)
def test_both_hooks_leave_out_the_same_functions(tmp_path, python, shared, options):
    native = measure(tmp_path, python, PROGRAM, shared, *options)
    twin = measure(tmp_path, python, PROGRAM, "", *options)

    assert visits(native) == visits(twin)


@pytest.mark.native
def test_callees_of_a_skipped_function_are_below_its_caller(tmp_path, shared):
    table = measure(tmp_path, sys.executable, PROGRAM, shared, "--skip", "Solver")

    counted = visits(table)
    assert counted["program.py->main->leaf"] == 2 * (3 * 2 + 1)
    assert counted["program.py->main->json.loads"] == 6
    assert not any("Solver" in path for path in counted)


@pytest.mark.native
def test_recursion_is_recorded_with_the_option_recursion(tmp_path, python, shared):
    folded = visits(measure(tmp_path, python, PROGRAM, shared))
    levels = visits(measure(tmp_path, python, PROGRAM, shared, "--recursion", "keep"))

    assert folded["program.py->main->fact"] == 10
    assert levels["program.py->main" + "->fact" * 5] == 2


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
def test_the_budget_leaves_out_short_functions_with_many_calls(tmp_path, python, shared):
    table = measure(tmp_path, python, HOT, shared, "--budget", "1%")

    left_out = {table.rows[i].name for i in table.throttled_rows()}
    assert "tiny" in left_out
    assert "main" not in left_out
    assert visits(table)["program.py->main->middle->tiny"] > 1000


@pytest.mark.native
def test_without_a_budget_everything_is_counted(tmp_path, python, shared):
    table = measure(tmp_path, python, HOT, shared, "--budget", "off")

    counted = visits(table)
    assert table.throttled_rows() == []
    assert counted["program.py->main->middle->tiny"] == 10 * counted["program.py->main->middle"]


@pytest.mark.native
def test_throttled_functions_count_for_their_callers_and_are_reported(tmp_path, shared):
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
def test_the_time_of_throttled_functions_counts_for_their_callers(tmp_path, shared):
    table = measure(tmp_path, sys.executable, HOT, shared, "--budget", "0.1%")
    (before,) = [name for name in paths(table) if name == "program.py->main"]
    here = node.Node(table.path.rpartition("/")[0])
    here.scan()

    (totals,) = [group for group in here.totals(1).groups if len(group.columns) == 3]

    times = memoryview(totals.matrices[1]).cast("Q").tolist()
    exclusive = memoryview(totals.matrices[2]).cast("Q").tolist()
    assert before
    assert sum(exclusive) == times[0]


def test_settings_reach_the_rank_unchanged():
    settings = parse(
        [
            *("--budget", "5%", "--only", "a.*", "--only", "b", "--skip", "*/x y/*"),
            *("--depth", "4", "--recursion", "keep", "--c-functions", "program.py"),
        ]
    ).steering

    assert str(parse_steering(str(settings))) == str(settings)
    assert (settings.budget, settings.only, settings.depth) == (0.05, ("a.*", "b"), 4)
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
def test_invalid_options_are_refused_by_name(words):
    with pytest.raises(UsageError, match=words[0]):
        parse([*words, "program.py"])
