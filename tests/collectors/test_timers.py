"""The native hook against its Python twin: the same visits per call path, on every interpreter
here."""

import json
import sys

import pytest

from insitu.collectors.table import ENDED
from tests.collectors.measured import counts_every_call, measure, paths, visits
from tests.support.interpreters import find_free_threaded

TORTURE = """
    import asyncio, contextlib, dataclasses, json, sys, threading
    from collections import namedtuple

    def leaf(n=1):
        return n

    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def ping(n):
        return pong(n - 1) if n else leaf()

    def pong(n):
        return ping(n - 1) if n else leaf()

    def numbers(n):
        for i in range(n):
            yield leaf(i)

    def delegating(n):
        result = yield from numbers(n)
        return result

    def generators():
        list(numbers(4))
        list(delegating(3))
        half = numbers(10)
        next(half); next(half)
        half.close()
        never = numbers(5)
        del never
        thrown = numbers(5)
        next(thrown)
        with contextlib.suppress(ValueError):
            thrown.throw(ValueError("in"))
        unstarted = numbers(5)
        with contextlib.suppress(ValueError):
            unstarted.throw(ValueError("in"))

    def raising(depth):
        if depth == 0:
            raise KeyError("deep")
        leaf()
        raising_other(depth - 1)

    def raising_other(depth):
        raising(depth)

    def exceptions():
        for _ in range(3):
            with contextlib.suppress(KeyError):
                raising(2)

    class Cell:
        def __init__(self):
            self.value = leaf(3)

        def __getitem__(self, at):
            return leaf(at)

        @property
        def double(self):
            return leaf(self.value) * 2

        @staticmethod
        def still():
            return leaf()

        @contextlib.contextmanager
        def held(self):
            leaf()
            yield self
            leaf()

    @dataclasses.dataclass
    class Point:
        x: int

    Pair = namedtuple("Pair", "a b")

    def classes():
        cell = Cell()
        for i in range(5):
            # Before 3.11.4 a specialised cell[i] passes the frame evaluator by (cpython#104405).
            cell[i] if sys.version_info >= (3, 11, 4) else cell.__getitem__(i)
            cell.double
            Cell.still()
        with cell.held():
            leaf()
        Point(1)
        Pair(1, 2)

    def callbacks():
        sorted([3, 1, 2], key=lambda v: leaf(v))
        json.loads("[1, 2]", object_hook=leaf)
        json.loads('{"a": {"b": 1}}', object_hook=lambda d: leaf(d))
        list(map(leaf, range(3)))

    async def sleeper(n):
        for _ in range(n):
            await asyncio.sleep(0)
            leaf()

    async def gather():
        await asyncio.gather(sleeper(2), sleeper(3))

    def coroutines():
        asyncio.run(gather())

    def work(n):
        for _ in range(n):
            leaf()

    def threads():
        workers = [threading.Thread(target=work, args=(n,)) for n in (2, 3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def dynamic():
        scope = {"leaf": leaf}
        exec("leaf()", scope)
        eval("leaf()", scope)

    def main():
        fib(8)
        ping(5)
        generators()
        exceptions()
        classes()
        callbacks()
        coroutines()
        threads()
        dynamic()

    for _ in range(3):
        main()
    print("ended")
"""


@counts_every_call
@pytest.mark.native
def test_both_hooks_count_the_same_calls(tmp_path, python, shared):
    native = measure(tmp_path, python, TORTURE, shared)
    twin = measure(tmp_path, python, TORTURE, "")

    assert native.header.hook.rstrip(b"\0") in (b"evaluator", b"monitoring")
    assert twin.header.hook.rstrip(b"\0") == b"setprofile"
    counted, expected = visits(native), visits(twin)
    assert counted == expected


@counts_every_call
@pytest.mark.native
def test_calls_inside_a_library_function_are_counted_by_it(tmp_path, python, shared):
    program = """
        import copy

        def copy_lists(n):
            copy.deepcopy([[i] for i in range(n)])

        def few(): copy_lists(5)
        def more(): copy_lists(10)
        def most(): copy_lists(20)

        few(); more(); most()
        print("ended")
    """
    counted = []
    for library_path in (shared, ""):
        table = measure(tmp_path, python, program, library_path)
        calls = table.totals(table.tick_s())["library_calls"]
        by_path = dict(zip(paths(table), calls, strict=True))
        counted.append(
            [
                by_path[f"program.py->{name}->copy_lists->copy.deepcopy"]
                for name in ("few", "more", "most")
            ]
        )

    native, twin = counted
    assert native == twin
    assert native[2] - native[1] == 2 * (native[1] - native[0]) > 0


@pytest.mark.native
def test_exclusive_times_add_up_to_the_whole(tmp_path, python, shared):
    program = TORTURE.replace("        threads()\n", "")

    for library_path in (shared, ""):
        table = measure(tmp_path, python, program, library_path)
        totals = table.totals(table.tick_s())

        assert table.header.state == ENDED
        assert sum(totals["time_exclusive"]) == totals["time"][0]
        for row, name in zip(table.rows, paths(table), strict=True):
            assert totals["time"][row.parent] >= 0, name


@pytest.mark.native
def test_deep_recursion_survives_under_the_native_hook(tmp_path, python, shared):
    program = (
        "import sys\nsys.setrecursionlimit(10**6)\n"
        "def down(n): return n if not n else down(n - 1)\n"
        "def main(): down(50_000)\nmain()\nmain()\nprint('ended')\n"
    )

    table = measure(tmp_path, python, program, shared)

    assert visits(table)["program.py->main"] == 2


@pytest.mark.native
def test_a_recursion_error_leaves_the_native_hook_in_order(tmp_path, python, shared):
    program = (
        "def endless(): endless()\n"
        "def attempt():\n    try: endless()\n    except RecursionError: leaf()\n"
        "def leaf(): pass\n"
        "for _ in range(3): attempt()\nprint('ended')\n"
    )

    counted = visits(measure(tmp_path, python, program, shared))

    assert counted["program.py->attempt"] == counted["program.py->attempt->leaf"] == 3
    assert 2900 < counted["program.py->attempt->endless"] < 3000


@pytest.mark.native
def test_the_launchers_description_of_the_run_is_in_the_table(tmp_path, shared):
    table = measure(tmp_path, sys.executable, "print('ended')", shared)

    assert json.loads(table.meta())["run"] == "0" * 32
    assert json.loads(table.meta())["campaign"] == str(tmp_path)


def test_a_free_threaded_interpreter_counts_threads_that_run_at_once(tmp_path, shared):
    python = find_free_threaded()
    if not python:
        pytest.skip("no free-threaded Python on PATH, and INSITU_FREE_THREADED names none")
    program = """
        import sys, threading

        def leaf():
            pass

        def work():
            for _ in range(2000):
                leaf()

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(sys._is_gil_enabled())
    """

    table = measure(tmp_path, python, program, shared, prints="False\n")

    assert table.header.hook.rstrip(b"\0") == b"setprofile"
    assert visits(table)["program.py->(thread)->work"] == 6
    assert visits(table)["program.py->(thread)->work->leaf"] == 12000
