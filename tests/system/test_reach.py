"""A run ends soon and loses nothing, whoever is said to listen for its agents."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from insitu.campaign.listener import ListenerAddress
from insitu.entities import RunState
from tests.support.listeners import Server
from tests.support.parameters import plain_and_full
from tests.system.conftest import until

PROGRAM = """
    import time
    def work():
        time.sleep(0.2)
    for _ in range(5):
        work()
    print("end", time.time())
"""
# Five seconds on a free machine. A run that believes a wrong address waits for 122 s; this limit is
# between both, so that a busy machine does not exceed it.
SOON_S = 90.0
NO_FLOCK = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int flock(int file, int how)
{
    char link[64], path[4096] = "";

    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "test.insitu/")) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_flock, file, how);
}
"""


def publish(bench, **changes):
    """Write the address file of an aggregator that is not there."""
    bench.campaign.mkdir(mode=0o700, exist_ok=True)
    fields = {
        "endpoint": f"ipc://{bench.folder}/nobody",
        "token": "t" * 64,
        "instance": "gone",
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started": time.time(),
    }
    ListenerAddress(**(fields | changes)).save(str(bench.campaign / "aggregator.json"))


def run_and_measure(bench, *options):
    """Run the program; return the outcome and the seconds from its end to the end of the run."""
    outcome = bench.run(*options, "--", str(bench.script(PROGRAM)))
    now = time.time()
    assert outcome.code == 0, outcome.err
    return outcome, now - float(outcome.out.split()[1])


def assert_complete(bench):
    (record,) = bench.records()
    assert record.state is RunState.COMPLETE
    assert bench.values("app.py->work", "visits") == [5]


@plain_and_full(
    "changes",
    [
        {},  # the process exists, but is another program
        {"host": "node7", "pid": 1},
        {"host": "node7", "pid": 1, "endpoint": "tcp://10.255.255.1:5555"},
        {"pid": 2**22 + 1},
    ],
)
def test_the_address_of_a_dead_aggregator_is_not_believed(bench, changes):
    publish(bench, **changes)

    outcome, took_s = run_and_measure(bench)

    assert_complete(bench)
    assert took_s < SOON_S
    assert "no rank of this run was measured" not in outcome.err
    assert not (bench.campaign / "aggregator.json").exists()


@pytest.mark.full
@plain_and_full("host", [socket.gethostname(), "node7"])
def test_a_dead_relay_does_not_hide_a_living_aggregator(bench, host):
    server = Server(bench.campaign)
    try:
        server.wait()
        address = json.loads((bench.campaign / "aggregator.json").read_text())
        relays = bench.campaign / "relays"
        relays.mkdir(mode=0o700)
        (relays / "r1.lock").touch()
        address |= {"endpoint": f"ipc://{bench.folder}/nobody", "host": host}
        ListenerAddress(**address).save(str(relays / "r1.json"))

        _, took_s = run_and_measure(bench)

        assert_complete(bench)
        assert took_s < SOON_S
        assert (relays / "r1.json").exists() == (host == "node7")  # only its own host can tell
    finally:
        server.kill()


def test_a_stopped_aggregator_stores_the_run_when_it_continues(bench):
    server = Server(bench.campaign)
    server.wait()
    try:
        os.kill(server.process.pid, signal.SIGSTOP)

        outcome, took_s = run_and_measure(bench)

        assert took_s < SOON_S
        assert f"kill -CONT {server.process.pid}" in outcome.err
        assert "no rank of this run was measured" not in outcome.err
        os.kill(server.process.pid, signal.SIGCONT)
        until(lambda: [run.state for run in bench.records()] == [RunState.COMPLETE])
        assert_complete(bench)
    finally:
        server.kill()


@pytest.mark.full
def test_a_run_that_its_own_stopped_aggregator_cannot_store_is_ingested(bench):
    script = bench.script(PROGRAM)
    process = bench.start(bench.command("--", str(script)))
    path = bench.campaign / "aggregator.json"
    until(path.exists)

    os.kill(json.loads(path.read_text())["pid"], signal.SIGSTOP)
    out, err = process.communicate(timeout=2 * SOON_S)

    assert process.returncode == 0
    assert time.time() - float(out.split()[1]) < SOON_S
    assert "is stopped" in err
    assert_complete(bench)


def test_tables_for_an_aggregator_out_of_reach_wait_in_the_campaign(bench):
    publish(bench, host="node7", pid=77)
    with open(bench.campaign / "aggregator.lock", "w", encoding="ascii") as lock:
        lock.write("pid 77 on host node7\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)

        outcome, took_s = run_and_measure(bench)

    assert took_s < SOON_S
    assert "node7" in outcome.err and "--bind" in outcome.err and "spool" in outcome.err
    assert bench.left_tables() == []
    assert bench.insitu("ingest", bench.campaign).code == 0
    assert_complete(bench)


@pytest.mark.full
def test_a_file_system_without_locks_is_no_obstacle(bench, monkeypatch):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source, library = bench.folder / "noflock.c", bench.folder / "noflock.so"
    source.write_text(NO_FLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))

    for _ in range(2):
        outcome, took_s = run_and_measure(bench)
        assert "another aggregator" not in outcome.err
        assert took_s < SOON_S

    assert [run.state for run in bench.records()] == [RunState.COMPLETE] * 2
