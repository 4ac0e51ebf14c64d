"""The processor time of ranks and phases, and the threads that use it, on both MPIs."""

import pytest

from insitu.campaign.selection import is_oversubscribed
from insitu.workflows.diagnosis import diagnose
from tests.system.test_mpi_compiled import PROGRAMS, Compiled, compiled

__all__ = ["compiled"]  # a fixture

pytestmark = pytest.mark.mpi

PHASES = """
    import hashlib, time
    import insitu
    from mpi4py import MPI

    insitu.phase("work")
    block = bytes(1 << 20)
    while time.thread_time() < 0.4:
        hashlib.sha256(block).digest()
    insitu.phase("sleep")
    time.sleep(0.2)
"""
BESIDE_ANOTHER = """
    import os, subprocess, sys, time
    from mpi4py import MPI

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    while time.thread_time() < 0.6:
        pass
    other.kill()
    other.wait()
"""
BLOCKED = """
    import hashlib, threading, time
    from mpi4py import MPI

    block = bytes(1 << 20)
    while time.thread_time() < 0.3:
        hashlib.sha256(block).digest()
    time.sleep(0.2)
    if MPI.COMM_WORLD.rank == 0:
        time.sleep(0.1)
    MPI.COMM_WORLD.Barrier()
    time.sleep(0.1)
"""
OTHER_THREAD = """
    thread = threading.Thread(target=lambda: hashlib.sha256(bytes(200 << 20)))
    thread.start()
    thread.join()
"""
CHILD = """
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
"""
THREADS = """
    import hashlib, threading, time
    from mpi4py import MPI

    def burn():
        block = bytes(1 << 20)
        while time.thread_time() < 0.3:
            hashlib.sha256(block).digest()
        done.release()
        time.sleep(60)

    done = threading.Semaphore(0)
    for _ in range(2):
        threading.Thread(target=burn, daemon=True).start()
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    block = bytes(1 << 20)
    while time.thread_time() < 0.3:
        hashlib.sha256(block).digest()
    for _ in range(2):
        done.acquire()
"""


def test_sleeping_is_no_processor_time(each_mpi):
    program = each_mpi.script(PHASES)

    outcome = each_mpi.measure("-n", 2, "--", program)

    assert outcome.code == 0, outcome.err
    root = each_mpi.values("app.py", "cpu_time")
    work = each_mpi.values("app.py->(phase work)", "cpu_time")
    sleep = each_mpi.values("app.py->(phase sleep)", "cpu_time")
    for total, working, sleeping in zip(root, work, sleep, strict=True):
        assert total >= 0.4
        assert working > sleeping
        assert sleeping < 0.2


def test_waiting_for_a_processor_is_measured_and_times_are_not_judged(bench):
    """With one core for two programs, each waits for about half of the time."""
    program = bench.script(BESIDE_ANOTHER)

    outcome = bench.measure("-n", 1, "--", program, fits=True)

    assert outcome.code == 0, outcome.err
    (waited,) = bench.values("app.py", "processor_wait")
    (run,) = bench.records()
    assert 0.2 < waited < run.ended_at - run.started_at
    assert not is_oversubscribed(run)
    not_judged = diagnose(str(bench.campaign)).not_judged
    (statement,) = [entry for entry in not_judged if entry.kind == "time"]
    assert "other processes used the cores" in statement.text


def test_sleeping_outside_of_mpi_is_measured_and_waiting_in_mpi_is_not(each_mpi):
    program = each_mpi.script(BLOCKED)

    outcome = each_mpi.measure("-n", 2, "--", program)

    assert outcome.code == 0, outcome.err
    slept = each_mpi.values("app.py", "blocked_time")
    for seconds, expected in zip(slept, (0.4, 0.3), strict=True):
        assert 0.99 * expected < seconds < expected + 0.09  # less than the wait in MPI_Barrier


@pytest.mark.parametrize("kind", ["long", "short", "left"])
def test_what_an_mpi_library_sleeps_in_its_calls_is_not_blocked_outside(compiled, kind):
    """Nor in a call that siglongjmp leaves."""
    sleep_in_calls(compiled, kind)

    slept = compiled.bench.values("asleep", "blocked_time")
    late_s = 0.3 if kind == "long" else 0.0
    for seconds, expected in zip(slept, (0.1 + late_s, 0.1), strict=True):
        assert 0.99 * expected < seconds < expected + 0.09  # less than the sleep in calls


def test_how_long_a_rank_was_blocked_is_unknown_if_another_thread_called_mpi(compiled):
    """The main thread sleeps while that waits in the call."""
    sleep_in_calls(compiled, "thread")

    assert "blocked_time" not in compiled.bench.table().values


def sleep_in_calls(compiled: Compiled, kind: str) -> None:
    source = PROGRAMS / "asleep.c"
    compiled.compile(source, flags=("-rdynamic", "-o", "asleep", "-ldl", "-lpthread"))

    outcome = compiled.bench.measure("-n", 2, "--", compiled.bench.folder / "asleep", kind)

    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("other", [OTHER_THREAD, CHILD])
def test_how_long_a_rank_was_blocked_is_unknown_if_others_may_have_worked(bench, other):
    """The main thread sleeps until another thread, or a child, has ended."""
    program = bench.script(BLOCKED + other)

    outcome = bench.measure("-n", 1, "--", program)

    assert outcome.code == 0, outcome.err
    assert "blocked_time" not in bench.table().values


@pytest.mark.full
def test_threads_that_use_processors_are_counted(bench):
    program = bench.script(THREADS)

    outcome = bench.measure("-n", 1, "--", program)

    assert outcome.code == 0, outcome.err
    (run,) = bench.records()
    assert run.configuration.get("threads") == "3"
    assert is_oversubscribed(run) is (int(run.configuration.get("cores")) < 3)
