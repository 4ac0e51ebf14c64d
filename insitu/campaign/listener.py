"""The address of a process that agents connect to: the aggregator or a relay."""

import errno
import fcntl
import json
import os
import socket
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from insitu.private_files import read_private_file, write_private_file

# What flock(2) reports on file systems without locks: NFS without lockd, Lustre without `-o flock`.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


class LockState(StrEnum):
    """Whether a process holds the lock of a listener."""

    FREE = "free"
    HELD = "held"
    UNSUPPORTED = "unsupported"  # the file system has no locks


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """The content of aggregator.json, or of a relay's address file."""

    endpoint: str  # agents connect here
    token: str  # of the campaign
    boards: str = ""  # views subscribe here
    curve: str = ""  # directory of the CURVE keys, empty where sockets are not encrypted
    instance: str = ""  # differs at each start
    pid: int = 0
    host: str = ""
    started: float = 0.0  # seconds since 1970

    @property
    def target(self) -> tuple[str, str, str]:
        """What an agent connects to. A listener that restarted at the same target is the same."""
        return self.endpoint, self.token, self.curve

    def save(self, path: str) -> None:
        """Write the address to a private file.

        Raises:
            OSError: the file cannot be written.
        """
        write_private_file(path, json.dumps(asdict(self), indent=1) + "\n")


def load_address(path: str) -> ListenerAddress:
    """Read an address file that only this user could have written.

    Raises:
        OSError: the file cannot be opened, or another user may have written it.
        ValueError: the file holds no address.
    """
    return parse_address(read_private_file(path))


def parse_address(text: str) -> ListenerAddress:
    """Read an address from the content of its file. Unknown fields are ignored.

    Raises:
        ValueError: the text is no address.
    """
    data: Any = json.loads(text)  # Any: JSON
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")

    try:
        return ListenerAddress(
            endpoint=str(data["endpoint"]),
            token=str(data["token"]),
            boards=str(data.get("boards") or ""),
            curve=str(data.get("curve") or ""),
            instance=str(data.get("instance") or ""),
            pid=int(data.get("pid") or 0),
            host=str(data.get("host") or ""),
            started=float(data.get("started") or 0.0),
        )
    except KeyError as error:
        raise ValueError(f"no field {error}") from error
    except TypeError as error:
        raise ValueError(str(error)) from error


def find_address(path: str) -> ListenerAddress | None:
    """Read an address file; None if there is none, or none that can be read and trusted."""
    try:
        return load_address(path)
    except (OSError, ValueError):
        return None


def peek_address(path: str) -> ListenerAddress | None:
    """Read an address file without checking who wrote it; None if there is none.

    For those who only look at a campaign. Whoever sends the token or data uses `find_address`.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return parse_address(file.read())
    except (OSError, ValueError):
        return None


def lock_state(path: str) -> LockState:
    """Whether a process holds the lock file of a listener; FREE if there is no such file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return LockState.FREE
    try:
        return _try_shared_lock(file)
    finally:
        os.close(file)


def _try_shared_lock(file: int) -> LockState:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return LockState.UNSUPPORTED if error.errno in NO_LOCKS else LockState.HELD
    return LockState.FREE


def is_on_this_host(address: ListenerAddress) -> bool:
    """Whether the listener was started on this host."""
    return address.host in ("", socket.gethostname())


def remove_stale_address(path: str, lock_path: str, address: ListenerAddress) -> bool:
    """Remove the address file of a listener that is gone; return whether it is removed.

    The lock proves that the listener is gone: the kernel releases it when a process ends, however
    it ends. It proves nothing for a listener on another host, because some network file systems
    keep locks within a host; whoever calls this has found such a listener unreachable before.

    Args:
        path: the address file.
        lock_path: the lock file that the listener holds while it lives.
        address: what the file contained; a file with another address stays.
    """
    try:
        file = os.open(lock_path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False

    try:
        # While this process has the shared lock, no new listener can write its address.
        if _try_shared_lock(file) is not LockState.FREE or find_address(path) != address:
            return False
        os.unlink(path)
    except OSError:
        return False
    finally:
        os.close(file)

    return True
