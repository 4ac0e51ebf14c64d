"""Agent and aggregator leave the cores to the ranks."""

import os
import subprocess
import sys

import pytest

from insitu.collectors import priority

SHOW = (
    "import os, sys; from insitu.collectors.priority import give_way, take_back;"
    "show = lambda: print(os.nice(0), open('/proc/self/autogroup').read().split()[-1]);"
    "give_way(is_own_session={}); show()"
)
NEEDS_AUTOGROUPS = pytest.mark.skipif(
    not os.path.exists("/proc/self/autogroup"),
    reason="this kernel has no autogroups (CONFIG_SCHED_AUTOGROUP)",
)


def shown(code):
    """In a session of its own: that of a service has no autogroup, and the file is empty."""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, start_new_session=True
    )
    return [int(word) for word in output.stdout.split()]


@NEEDS_AUTOGROUPS
def test_a_session_of_its_own_gives_way():
    """Else niceness counts only among its processes, and none of them is a rank."""
    nice, of_session = shown(SHOW.format(True))

    assert nice == min(os.nice(0) + priority.NICENESS, 19)
    assert of_session == priority.NICENESS


@NEEDS_AUTOGROUPS
def test_a_session_of_the_program_is_left_alone():
    nice, of_session = shown(SHOW.format(False))

    assert nice == min(os.nice(0) + priority.NICENESS, 19)
    assert of_session == 0


@NEEDS_AUTOGROUPS
def test_a_session_takes_its_priority_back():
    values = shown(SHOW.format(True) + "; take_back(os.getpid()); show()")

    assert values[1::2] == [priority.NICENESS, 0]


def test_the_priority_of_a_process_that_is_gone_is_not_taken_back():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    priority.take_back(gone.pid)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processor cores")
def test_a_process_leaves_the_core_that_its_rank_is_bound_to():
    mine = os.sched_getaffinity(0)
    code = (
        "import os; from insitu.collectors.priority import leave_core_of_rank;"
        f"os.sched_setaffinity(0, {{{min(mine)}}}); leave_core_of_rank({os.getpid()});"
        "print(sorted(os.sched_getaffinity(0)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert output.stdout.strip() == str(sorted(mine))


def test_a_launcher_that_is_gone_changes_nothing():
    before = os.sched_getaffinity(0)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    priority.leave_core_of_rank(gone.pid)

    assert os.sched_getaffinity(0) == before
