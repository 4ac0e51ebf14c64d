"""Greenlets, coroutines and generators, whose calls end in another order than they begin."""

import pytest

from tests.support.interpreters import OWN_FIRST
from tests.support.parameters import plain_and_full
from tests.system.hostile.compare import PROGRAMS, compare
from tests.system.hostile.matrix import has_package, interpreter

pytestmark = [pytest.mark.mpi, pytest.mark.native]

EVENTS = {  # visits of each path of the program, without those of libraries
    "tasks_gevent.py": {"main": 1, "task": 50, "task->inner": 250},
    "tasks_greenlet.py": {"drive": 1, "worker": 1, "worker->step": 10, "forever": 1},
    "tasks_asyncio.py": {"main": 1, "branch": 40, "branch->leaf": 80},
}
PACKAGES = {"tasks_gevent.py": "gevent", "tasks_greenlet.py": "greenlet"}


@plain_and_full("version", OWN_FIRST)
@pytest.mark.parametrize("script", EVENTS)
def test_calls_of_tasks_that_take_turns_have_their_own_paths(bench, version, script):
    python = interpreter(version)
    for package in filter(None, ("mpi4py", PACKAGES.get(script))):
        if not python or not has_package(python, package):
            pytest.skip(
                f"no {package} for Python {version}: python -m tests.system.hostile --install"
            )

    both = compare(bench, python, PROGRAMS / script, ranks=1)

    assert both.differences() == []
    assert not bench.ingest().errors
    table = bench.table()
    visits: dict[str, float] = {}
    for path, values in zip(table.callpaths, table.values["visits"], strict=True):
        names = [
            frame for frame in str(path).split("->")[1:] if "." not in frame and frame[:1] != "("
        ]
        if "." not in str(path).split("->")[-1]:
            visits["->".join(names)] = visits.get("->".join(names), 0) + float(values[0])
    for path, expected in EVENTS[script].items():
        assert visits.get(path) == expected, visits
    assert "greenlets-untraced" not in {finding.code for finding in bench.records()[0].findings}


THREAD = """
    import threading
    import greenlet
    def leaf(): return 1
    def task(parent):
        for _ in range(5):
            leaf()
            parent.switch()
    def turn(tasks):
        for task in tasks: task.switch(greenlet.getcurrent())
    def run():
        tasks = [greenlet.greenlet(task) for _ in range(3)]
        for _ in range(6): turn(tasks)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    print("end")
"""


@plain_and_full("version", ["3.11", "3.12"])
def test_a_finding_names_greenlets_that_insitu_cannot_follow(bench, version):
    python = interpreter(version)
    if not python or not has_package(python, "greenlet"):
        pytest.skip(f"no greenlet for Python {version}")
    script = bench.script(THREAD)

    both = compare(bench, python, script, ranks=1)

    assert both.differences() == []
    assert not bench.ingest().errors
    (record,) = bench.records()
    assert {finding.code for finding in record.findings} == {"greenlets-untraced"}
