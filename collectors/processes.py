"""Waiting for processes to end, through process file descriptors (pidfd_open(2))."""

import os
from collections.abc import Collection, Iterable

CLOSED = -1


class Processes:
    """Descriptors that become readable when their processes end.

    A process has none if the kernel is older than 5.3 or the descriptors are exhausted; then the
    agent notices the end at the next heartbeat.
    """

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}  # by process id

    def watch(self, pids: Iterable[int]) -> None:
        """Open descriptors for these processes, unless they were watched before."""
        for pid in pids:
            if pid not in self._descriptors:
                self._descriptors[pid] = _open_descriptor(pid)

    def descriptors(self) -> list[int]:
        """The descriptors to wait for."""
        return [file for file in self._descriptors.values() if file != CLOSED]

    def forget(self, ready: Collection[object]) -> None:
        """Close the descriptors in `ready`: their processes have ended."""
        for pid, file in self._descriptors.items():
            if file in ready:
                os.close(file)
                self._descriptors[pid] = CLOSED


def _open_descriptor(pid: int) -> int:
    if not hasattr(os, "pidfd_open"):
        return CLOSED
    try:
        return os.pidfd_open(pid)
    except OSError:
        return CLOSED
