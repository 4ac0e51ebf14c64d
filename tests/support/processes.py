"""Start insitu commands as processes: the usual way, or forked from a process that has them loaded.

Importing an aggregator takes most of its start-up time. Tests that kill hundreds of processes
therefore fork them from a `CommandForker`: the same process at a tenth of the cost.
"""

import glob
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
FORKER = """
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
    """A process, however it was started."""

    pid: int

    def poll(self) -> int | None:
        """The exit code; None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""

    def kill(self) -> None:
        """Send SIGKILL."""

    def terminate(self) -> None:
        """Send SIGTERM."""


Start = Callable[[list[str], Path], Process]


def find_files(folder: Path, pattern: str) -> list[Path]:
    """The files below a folder whose name matches, while others remove folders from it.

    `Path.rglob` fails where a folder goes between its listing and its being entered.
    """
    names = glob.glob(f"**/{pattern}", root_dir=folder, recursive=True, include_hidden=True)
    return sorted(folder / name for name in names)


def start_command(words: list[str], log: Path) -> Process:
    """Start an insitu command as a user does; its output is appended to `log`.

    In a session of its own, since it gives way to all other processes of its session: beside tests
    that keep the cores busy it would hardly run.
    """
    command = [sys.executable, "-m", "insitu", *words]
    with open(log, "ab") as file:
        return subprocess.Popen(command, cwd=HERE, stdout=file, stderr=file, start_new_session=True)


@dataclass
class Child:
    """A process forked by a `CommandForker`."""

    forker: "CommandForker"
    pid: int
    code: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while the process runs."""
        if self.code is None:
            self.code = self.forker.request({"ended": self.pid})
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.

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
        """Send SIGKILL."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


class CommandForker:
    """A process that has imported insitu and forks insitu commands on request."""

    def __init__(self) -> None:
        """Start the process."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORKER],
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
        """End the process."""
        self.process.communicate()

    def start(self, words: list[str], log: Path) -> Process:
        """Fork an insitu command; its output is appended to `log`."""
        pid = self.request({"words": words, "log": str(log)})
        assert pid is not None
        return Child(self, pid)

    def request(self, order: dict[str, object]) -> int | None:
        """Send a request and return the answer: a number or None."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        return None if answer == "None" else int(answer)
