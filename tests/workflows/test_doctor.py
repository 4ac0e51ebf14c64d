"""`insitu doctor`: processes of insitu that are stopped, and what Slurm answers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.workflows.doctor import LIMITED, OK, OPTIONAL, processes, slurm


@pytest.fixture
def service() -> Iterator[subprocess.Popen[bytes]]:
    """A process with the command line of an aggregator."""
    code = "import time; print(flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, "insitu", "serve", "heat.insitu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_stopped_aggregator_is_named_until_it_continues(service):
    os.kill(service.pid, signal.SIGSTOP)
    os.waitpid(service.pid, os.WUNTRACED)

    stopped = processes()
    os.kill(service.pid, signal.SIGCONT)
    os.waitpid(service.pid, os.WCONTINUED)
    continued = processes()

    assert stopped.state == "limited"
    assert f"aggregator {service.pid}" in stopped.found
    assert str(service.pid) in stopped.advice
    assert f"aggregator {service.pid}" not in continued.found


@pytest.mark.parametrize(
    ("sinfo", "state", "found"),
    [
        ("echo 'main* up 4'; echo 'old down 9'", OK, "22.05.8 at {}; partitions: main (4 nodes)"),
        ("echo 'main* down 4'", OK, "22.05.8 at {}; partitions: none is up"),
        ("exit 1", LIMITED, "22.05.8 at {}: the controller does not answer"),
        (None, OPTIONAL, "no sbatch: campaigns run with launcher"),
    ],
)
def test_slurm_is_asked_for_partitions_that_are_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sinfo: str | None, state: str, found: str
):
    tools = {} if sinfo is None else {"sbatch": "echo slurm-wlm 22.05.8", "sinfo": sinfo}
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))

    check = slurm()

    assert (check.name, check.state) == ("Slurm", state)
    assert check.found.startswith(found.format(tmp_path / "sbatch"))
