"""Who listens for the agents of a campaign."""

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Iterator

import pytest

from insitu.campaign import reachability
from insitu.campaign.layout import AGGREGATOR_ADDRESS, AGGREGATOR_LOCK
from insitu.campaign.listener import ListenerAddress
from insitu.campaign.reachability import Reachability, find_listener, is_stopped

HOST = socket.gethostname()
ANSWER_S = 0.01
STOPS = """
import ctypes, os, signal, sys
if sys.argv[1:]:
    ctypes.CDLL(None).ptrace(0, 0, None, None)  # PTRACE_TRACEME
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def published(tmp_path) -> ListenerAddress:
    """An address at which nobody answers."""
    address = ListenerAddress(f"ipc://{tmp_path}/nobody", "t", pid=7, host=HOST)
    address.save(str(tmp_path / AGGREGATOR_ADDRESS))
    return address


@pytest.fixture
def hold(tmp_path) -> Iterator[object]:
    """Take the lock in the name of a process."""
    with (tmp_path / AGGREGATOR_LOCK).open("w") as lock:

        def take(pid: int) -> None:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(f"pid {pid} on host {HOST}\n")
            lock.flush()

        yield take


def test_who_answers_is_reachable_and_named(tmp_path, published, monkeypatch):
    monkeypatch.setattr(reachability, "does_answer", lambda address, wait_s: address == published)

    status = find_listener(str(tmp_path))

    assert status.reachability is Reachability.REACHABLE
    assert (status.address, status.holder) == (published, f"pid 7 on host {HOST}")


def test_a_lock_without_an_address_is_a_listener_that_starts(tmp_path, hold):
    hold(7)

    status = find_listener(str(tmp_path), answer_s=ANSWER_S)

    assert status.reachability is Reachability.STARTING
    assert status.holder == f"pid 7 on host {HOST}"


def test_the_address_of_another_process_than_the_holder_is_that_of_an_earlier_one(
    tmp_path, published, hold
):
    hold(8)

    status = find_listener(str(tmp_path), answer_s=ANSWER_S)

    assert status.reachability is Reachability.STARTING
    assert (status.address, status.holder) == (None, f"pid 8 on host {HOST}")


def test_a_holder_that_does_not_answer_is_unreachable_with_a_reason(tmp_path, published, hold):
    hold(published.pid)

    status = find_listener(str(tmp_path), answer_s=ANSWER_S)

    assert status.reachability is Reachability.UNREACHABLE
    assert status.address == published
    assert status.reason


def test_the_address_of_a_listener_that_is_gone_is_removed(tmp_path, published):
    (tmp_path / AGGREGATOR_LOCK).write_text(f"pid 7 on host {HOST}\n")

    status = find_listener(str(tmp_path), answer_s=ANSWER_S)

    assert status.reachability is Reachability.ABSENT
    assert not (tmp_path / AGGREGATOR_ADDRESS).exists()


def test_a_process_under_strace_is_not_stopped_but_one_with_sigstop_is():
    """A tracer stops a process at each system call, and continues it."""
    found = []
    for words in ([], ["traced"]):
        pid = os.posix_spawn(sys.executable, [sys.executable, "-c", STOPS, *words], os.environ)
        os.waitpid(pid, os.WUNTRACED)
        found.append(is_stopped(pid))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    assert found == [True, False]
