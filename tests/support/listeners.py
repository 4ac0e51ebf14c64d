"""Aggregators and relays as processes, started and killed by tests; and a program that counts."""

import json
import time
from pathlib import Path
from typing import Self

from tests.support.processes import Start, start_command

WAIT_S = 60.0

# Counts calls of `step` in its row and, as the truth, in a file of its own.
COUNTING_PROGRAM = """
import os, sys, time

def step(): pass

def main(truth, stop, pause_s="0.002"):
    file = os.open(truth, os.O_RDWR | os.O_CREAT)
    count = 0
    while not os.path.exists(stop):
        step()
        count += 1
        os.pwrite(file, count.to_bytes(8, "little"), 0)
        time.sleep(float(pause_s))

main(*sys.argv[1:])
"""


class Listener:
    """An insitu command that listens for agents and may be killed."""

    def __init__(self, campaign: Path, words: list[str], file: Path, start: Start) -> None:
        """Start it; `file`, relative to the campaign, is where it writes its address."""
        self.campaign = campaign
        self.file = campaign / file
        self.log = campaign.parent / f"{words[0]}.log"
        self.process = start([words[0], str(campaign), *words[1:]], self.log)

    def wait(self) -> Self:
        """Wait until it listens."""
        until(lambda: self.process.poll() is not None or _listening(self.file, self.process.pid))
        return self

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Send SIGTERM; the process must exit with 0."""
        self.process.terminate()
        if self.process.wait(WAIT_S):
            raise RuntimeError(f"it failed: {self.log}")


class Server(Listener):
    """An aggregator."""

    def __init__(self, campaign: Path, beat: str = "0.05", start: Start = start_command) -> None:
        """Start it without waiting until it listens."""
        super().__init__(campaign, ["serve", "--beat", beat], Path("aggregator.json"), start)


class Relay(Listener):
    """A relay of a campaign."""

    def __init__(self, campaign: Path, name: str, start: Start = start_command) -> None:
        """Start it without waiting until it listens."""
        words = ["relay", "--name", name, "--beat", "0.05"]
        super().__init__(campaign, words, Path("relays", f"{name}.json"), start)


def until(condition: object, seconds: float = WAIT_S) -> bool:
    """Wait until `condition()` is true; False if it is not within `seconds`."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _listening(file: Path, pid: int) -> bool:
    try:
        return bool(json.loads(file.read_text())["pid"] == pid)
    except (OSError, ValueError):
        return False
