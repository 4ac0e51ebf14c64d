"""Where processes of insitu that are killed again and again come from: started, or forked.

Importing what an aggregator needs takes most of its start. A nursery has imported it and forks
commands from itself, so that what is killed is the same process at a tenth of the price.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

HERE = Path(__file__).resolve().parents[2]
NURSERY = """
import json, os, sys
import insitu.cli.ingest, insitu.cli.relay, insitu.cli.serve
import insitu.server.ingest, insitu.server.loop, insitu.server.relay.loop
from insitu.cli import call

for line in sys.stdin:
    order = json.loads(line)
    if "ended" in order:
        pid, status = os.waitpid(order["ended"], os.WNOHANG)
        print(os.waitstatus_to_exitcode(status) if pid else None, flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
        os._exit(call(order["words"]))
    print(pid, flush=True)
"""


class Process(Protocol):
    """What is asked of a process, however it was started."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended."""

    def kill(self) -> None:
        """SIGKILL."""

    def terminate(self) -> None:
        """SIGTERM."""


Start = Callable[[list[str], Path], Process]


def started(words: list[str], log: Path) -> Process:
    """An insitu command as a user starts it; what it says goes to a file."""
    with open(log, "ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "insitu", *words], cwd=HERE, stdout=file, stderr=file
        )


@dataclass
class Child:
    """A process that a nursery has forked."""

    nursery: "Nursery"
    pid: int
    code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        if self.code is None:
            self.code = self.nursery.asked({"ended": self.pid})
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended.

        Raises:
            TimeoutExpired: it has not.
        """
        deadline = time.monotonic() + (timeout or 3600.0)
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 3600.0)
            time.sleep(0.005)
        return code

    def kill(self) -> None:
        """SIGKILL."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


class Nursery:
    """A process that has imported insitu and forks its commands."""

    def __init__(self) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self.process.communicate()

    def start(self, words: list[str], log: Path) -> Process:
        """An insitu command, forked."""
        pid = self.asked({"words": words, "log": str(log)})
        assert pid is not None
        return Child(self, pid)

    def asked(self, order: dict[str, object]) -> int | None:
        """A word to the nursery and its answer, a number or nothing."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        return None if answer == "None" else int(answer)
