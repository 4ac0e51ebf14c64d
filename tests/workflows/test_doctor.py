"""`insitu doctor` names processes of insitu that are stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from insitu.workflows.doctor import processes


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
