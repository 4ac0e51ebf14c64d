"""The kernel's word that a process has ended, however it ends."""

import os
from collections.abc import Collection, Iterable


class Processes:
    """Descriptors of processes, readable once these have ended; those that cannot be had (an old
    kernel, no descriptor left) are missing, and the next beat sees the end."""

    def __init__(self) -> None:
        self._files: dict[int, int] = {}  # by process; -1 where there is nothing more to hear

    def watch(self, processes: Iterable[int]) -> None:
        """Hear of the end of these."""
        for process in processes:
            if process not in self._files:
                self._files[process] = _opened(process)

    def watched(self) -> list[int]:
        """The descriptors to wait for."""
        return [file for file in self._files.values() if file >= 0]

    def forget(self, ready: Collection[object]) -> None:
        """Those among `ready` have said all they have to say."""
        for process, file in self._files.items():
            if file in ready:
                os.close(file)
                self._files[process] = -1


def _opened(process: int) -> int:
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        return os.pidfd_open(process)
    except OSError:
        return -1
