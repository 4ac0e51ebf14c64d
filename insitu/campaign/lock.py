"""The lock that lets one process at a time make the runs of a campaign."""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable
from typing import Self

from insitu.campaign.layout import RUNS_LOCK
from insitu.errors import CampaignError

POLL_S = 0.5
HELD = (errno.EWOULDBLOCK, errno.EACCES)
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # on some network file systems


class RunsLock:
    """The lock, held from construction to `close`.

    The kernel releases it when the last process that has `descriptor` open is gone. `descriptor` is
    handed to the run in progress: a run that outlives the process that started it keeps the lock,
    so that nobody makes it a second time. On file systems without locks nothing is held.
    """

    def __init__(self, campaign: str, *, waiting: Callable[[str], None] | None = None) -> None:
        """Acquire the lock.

        Args:
            campaign: the campaign's directory, which is created if necessary.
            waiting: called once with the holder's description if another process holds the lock;
                the constructor then waits for it. None: raise an error instead.

        Raises:
            CampaignError: another process holds the lock, or the file cannot be created.
        """
        path = os.path.join(campaign, RUNS_LOCK)
        try:
            os.makedirs(campaign, mode=0o700, exist_ok=True)
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CampaignError(f"{path}: {error.strerror}") from error

        has_reported = False
        while not self._try_lock(path):
            holder = os.pread(self.descriptor, 4096, 0).decode("utf-8", "replace").strip()
            if waiting is None:
                os.close(self.descriptor)
                raise CampaignError(
                    f"{campaign}: another process ({holder or 'just starting'}) is already making"
                    " its runs; nothing is run twice. Follow it with: insitu campaign status"
                )
            if not has_reported:
                waiting(holder)
                has_reported = True
            time.sleep(POLL_S)

        self.describe("")

    def _try_lock(self, path: str) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (*HELD, *NO_LOCKS):
                os.close(self.descriptor)
                raise CampaignError(f"{path}: {error.strerror}") from error
            return error.errno in NO_LOCKS
        return True

    def describe(self, activity: str) -> None:
        """Write who holds the lock and what it is doing into the file, for other processes."""
        text = f"pid {os.getpid()} on host {socket.gethostname()}"
        if activity:
            text += f": {activity}"
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{text}\n".encode(), 0)

    def close(self) -> None:
        """Release the lock."""
        os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        """Return the lock itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Release the lock."""
        self.close()


def peek_activity(campaign: str) -> str:
    """The run that `insitu campaign run` makes now, as `p=4,n=64`; "" if it makes none.

    Reads what the holder of the lock has written and does not touch the lock: views call this
    several times per second.
    """
    try:
        with open(os.path.join(campaign, RUNS_LOCK), encoding="utf-8", errors="replace") as file:
            owner, _, activity = file.read(4096).strip().partition(": ")
    except OSError:
        return ""

    words = owner.split()  # pid N on host H
    is_local = words[-1:] == [socket.gethostname()]
    if is_local and not os.path.exists(f"/proc/{words[1]}"):
        return ""  # the holder was killed
    return activity


def find_lock_holder(campaign: str) -> str:
    """Describe the process that makes runs of the campaign now; "" if there is none."""
    path = os.path.join(campaign, RUNS_LOCK)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip() or "just starting"
    except OSError:
        return ""
    return ""
