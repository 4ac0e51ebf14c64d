"""Whose turn it is to make the runs of a campaign: one process at a time."""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable
from typing import Self

from insitu.errors import CampaignError

FILE = "runs.lock"
POLL_S = 0.5
HELD = (errno.EWOULDBLOCK, errno.EACCES)
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # of some file systems


class RunsLock:
    """Held from making to `close`; let go by the kernel when its last holder is gone.

    `descriptor` is handed to the run that is being made: a run that outlives who began it keeps
    the turn, so that nobody makes it a second time. On file systems without locks nothing is held.
    """

    def __init__(self, campaign: str, *, waiting: Callable[[str], None] | None = None) -> None:
        """Take it; where another has it, wait for that one if `waiting` is given, which is told
        once who it is.

        Raises:
            CampaignError: another has it, or the file cannot be made.
        """
        path = os.path.join(campaign, FILE)
        try:
            os.makedirs(campaign, mode=0o700, exist_ok=True)
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CampaignError(f"{path}: {error.strerror}") from error
        has_told = False
        while not self._take(path):
            holder = os.pread(self.descriptor, 4096, 0).decode("utf-8", "replace").strip()
            if waiting is None:
                os.close(self.descriptor)
                raise CampaignError(
                    f"{campaign}: its runs are being made already ({holder or 'just starting'});"
                    " nothing is run twice. Follow it with: insitu campaign status"
                )
            if not has_told:
                waiting(holder)
                has_told = True
            time.sleep(POLL_S)
        self.say("")

    def _take(self, path: str) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (*HELD, *NO_LOCKS):
                os.close(self.descriptor)
                raise CampaignError(f"{path}: {error.strerror}") from error
            return error.errno in NO_LOCKS
        return True

    def say(self, what: str) -> None:
        """Tell others what is being done."""
        text = f"pid {os.getpid()} on host {socket.gethostname()}{what and f': {what}'}\n"
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, text.encode(), 0)

    def close(self) -> None:
        """Let others have it."""
        os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def find_lock_holder(campaign: str) -> str:
    """Who makes runs of it now, and which; "" where nobody does."""
    try:
        with open(os.path.join(campaign, FILE), encoding="utf-8", errors="replace") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with open(os.path.join(campaign, FILE), encoding="utf-8", errors="replace") as file:
            return file.read().strip() or "just starting"
    except OSError:
        return ""
    return ""
