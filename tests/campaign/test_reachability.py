"""Who listens for the agents of a campaign."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import zmq.auth

from insitu.campaign import reachability as reachability_module
from insitu.campaign.layout import (
    AGGREGATOR_ADDRESS,
    AGGREGATOR_LOCK,
    CLIENT_KEY,
    SERVER_KEY,
)
from insitu.campaign.listener import ListenerAddress, LockState
from insitu.campaign.reachability import (
    Reachability,
    find_listener,
    is_process,
    is_stopped,
    use_client_keys,
)

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
    monkeypatch.setattr(
        reachability_module, "does_answer", lambda address, wait_s: address == published
    )

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


def boot_time() -> float:
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_process_counts_only_if_it_began_before_its_address_was_published():
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    with open(f"/proc/{child.pid}/stat", encoding="ascii") as file:
        ticks = int(file.read().split(") ")[1].split()[19])
    began = boot_time() + ticks / os.sysconf("SC_CLK_TCK")

    assert is_process(child.pid, began)
    assert is_process(child.pid, began + 3600.0)
    assert is_process(child.pid, began - 0.5)
    assert not is_process(child.pid, began - 1.5)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_process(child.pid, began)  # ended, not yet waited for
    child.wait()
    assert not is_process(child.pid, began)


@pytest.mark.parametrize(
    ("host", "pid", "reachability"),
    [
        (HOST, os.getpid(), Reachability.UNREACHABLE),
        (HOST, 2**22 + 1, Reachability.ABSENT),
        (f"x{HOST}", os.getpid(), Reachability.ABSENT),
    ],
    ids=["alive", "no process", "another host"],  # the same in all processes of pytest
)
def test_without_locks_a_living_process_proves_that_the_listener_is_there(
    tmp_path, monkeypatch, host, pid, reachability
):
    monkeypatch.setattr(reachability_module, "lock_state", lambda path: LockState.UNSUPPORTED)
    file = tmp_path / AGGREGATOR_ADDRESS
    address = ListenerAddress("ipc:///x", "t", pid=pid, host=host, started=time.time() + 9)
    address.save(str(file))

    status = find_listener(str(tmp_path), answer_s=ANSWER_S)

    assert status.reachability is reachability
    is_there = reachability is Reachability.UNREACHABLE
    assert file.exists() == is_there
    assert status.address == (address if is_there else None)
    assert status.holder == (f"pid {pid} on host {host}" if is_there else "")
    assert status.reason == ("it is busy" if is_there else "")


def test_client_and_server_hold_each_others_keys(tmp_path):
    server_public, _ = zmq.auth.create_certificates(tmp_path, SERVER_KEY)
    _, secret = zmq.auth.create_certificates(tmp_path, CLIENT_KEY)
    os.chmod(secret, 0o600)

    client = SimpleNamespace()  # a socket does not give its keys back
    use_client_keys(client, str(tmp_path))

    keys = client.curve_serverkey, client.curve_publickey, client.curve_secretkey
    assert keys == (zmq.auth.load_certificate(server_public)[0], *zmq.auth.load_certificate(secret))
    os.chmod(secret, 0o644)
    with pytest.raises(OSError):
        use_client_keys(client, str(tmp_path))
