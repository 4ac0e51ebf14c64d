"""Where agents and eyes find the aggregator of a campaign: lock, token, address, sockets."""

import fcntl
import hashlib
import json
import os
import secrets
import socket
import stat
from dataclasses import asdict, dataclass
from typing import Self

from insitu.errors import CampaignError

LOCK = "aggregator.lock"
ADDRESS = "aggregator.json"
COMING = "aggregator.coming"  # there while agents may hope for an address
KEYS = "keys"
RELAYS = "relays"  # a directory with an address and a lock of each
TOKEN = "token"
MAX_SOCKET_PATH = 107  # bytes of a UNIX socket's path, unix(7)


@dataclass(frozen=True, slots=True)
class Address:
    """The content of aggregator.json; its mode is 0600, for it holds the token."""

    pid: int
    host: str
    instance: str
    endpoint: str  # agents connect here
    boards: str  # eyes subscribe here
    token: str
    started: float  # seconds since 1970
    curve: str = ""  # directory of the keys, where the sockets are encrypted

    def write(self, campaign: str, name: str = ADDRESS) -> None:
        """Let others find this aggregator."""
        write_secret(os.path.join(campaign, name), json.dumps(asdict(self), indent=1) + "\n")


def load_aggregator_address(campaign: str) -> Address | None:
    """Where the aggregator of a campaign listens; None where none is running.

    Raises:
        CampaignError: somebody else may have written what is there.
    """
    path = os.path.join(campaign, ADDRESS)
    try:
        return Address(**json.loads(read_secret(path))) if os.path.exists(path) else None
    except (ValueError, TypeError) as error:
        raise CampaignError(f"{path}: no address that this insitu reads: {error}") from error


def remove_address(campaign: str, name: str = ADDRESS) -> None:
    """Say that no aggregator is running."""
    try:
        os.unlink(os.path.join(campaign, name))
    except FileNotFoundError:
        return


class WriterLock:
    """One writer of a campaign: held from making to `close`, and let go by the kernel at a kill."""

    def __init__(self, campaign: str, name: str = LOCK) -> None:
        """Take the lock; that of the campaign, or another one in it.

        Raises:
            CampaignError: another aggregator has it.
        """
        path = os.path.join(campaign, name)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CampaignError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._file, 4096).decode("utf-8", "replace").strip()
            os.close(self._file)
            raise CampaignError(
                f"{campaign}: another aggregator ({holder or 'just starting'}) is running;"
                " use it, or stop it first"
            ) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"pid {os.getpid()} on host {socket.gethostname()}\n".encode(), 0)

    def close(self) -> None:
        """Let others in."""
        os.ftruncate(self._file, 0)
        os.close(self._file)

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def load_token(campaign: str) -> str:
    """The campaign's token: agents that outlive an aggregator are known to the next one.

    Raises:
        CampaignError: the file is another's or open to others.
    """
    directory = os.path.join(campaign, KEYS)
    make_private_directory(directory)
    path = os.path.join(directory, TOKEN)
    if not os.path.exists(path):
        write_secret(path, secrets.token_hex(32) + "\n")
    return read_secret(path).strip()


def socket_directory(environment: dict[str, str]) -> str:
    """The directory of this user's sockets on this machine.

    Raises:
        CampaignError: it is another's or open to others.
    """
    fallback = f"/tmp/insitu-{os.getuid()}"
    base = environment.get("XDG_RUNTIME_DIR", "")
    directory = os.path.join(base, "insitu") if os.path.isdir(base) else fallback
    if len(os.fsencode(directory)) > MAX_SOCKET_PATH - 32:
        directory = fallback
    make_private_directory(directory)
    return directory


def socket_paths(campaign: str, directory: str, relay: str = "") -> tuple[str, str]:
    """The sockets for agents and for boards: the same at every start of this campaign."""
    known = os.fsencode(os.path.realpath(campaign)) + b"\0" * bool(relay) + relay.encode()
    name = hashlib.sha256(known).hexdigest()[:16]
    return os.path.join(directory, f"{name}.agents"), os.path.join(directory, f"{name}.boards")


def make_private_directory(directory: str) -> None:
    """Make a directory that only this user may enter, or see that it is one.

    Raises:
        CampaignError: it is no directory, another user's, or open to others.
    """
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise CampaignError(f"{directory}: {error.strerror}") from error
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CampaignError(
            f"{directory}: must be a directory of yours that only you may enter"
            " (mode 0700); remove it or correct it"
        )


def write_secret(path: str, text: str) -> None:
    """Write a file that only this user may read, whole or not at all."""
    fresh = f"{path}.{os.getpid()}"
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(file)
    os.replace(fresh, path)


def read_secret(path: str) -> str:
    """Read a file that only this user may read.

    Raises:
        CampaignError: it is another's or open to others.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}") from error
    with open(file, encoding="utf-8") as stream:
        found = os.fstat(file)
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise CampaignError(f"{path}: must be yours and readable by you alone (mode 0600)")
        return stream.read()
