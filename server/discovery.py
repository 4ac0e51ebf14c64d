"""How agents and views find the aggregator of a campaign: lock, token, address file, sockets."""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import socket
import tempfile
import time
from contextlib import suppress
from typing import Self

from insitu import private_files
from insitu.campaign.layout import AGGREGATOR_ADDRESS, AGGREGATOR_LOCK, KEYS, TOKEN
from insitu.campaign.listener import NO_LOCKS, ListenerAddress, find_address, load_address
from insitu.campaign.reachability import ANSWER_S, does_answer, is_process
from insitu.errors import CampaignError

MAX_SOCKET_PATH = 107  # bytes in the path of a UNIX socket, unix(7)
SOCKET_NAME_BYTES = 32  # room for "/", 16 hexadecimal digits and a suffix
LOCK_WAIT_S = 0.3  # longer than anybody who only looks at a lock holds it
POLL_S = 0.01
SETTLE_S = 0.1  # without locks: for a process that started at the same time to write its name
_HOLDER = re.compile(r"pid (\d+) on host (\S+)")


class WriterLock:
    """The lock of a campaign's only writer, or of a relay.

    It is held from construction to `close`. The kernel releases it when the process is killed.
    """

    def __init__(self, campaign: str, name: str = AGGREGATOR_LOCK) -> None:
        """Acquire the lock.

        Args:
            campaign: the campaign's directory.
            name: the lock file in the campaign.

        Raises:
            CampaignError: another process holds the lock.
        """
        path = os.path.join(campaign, name)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            hint = ""
            if error.errno in (errno.EACCES, errno.EROFS):
                hint = "; copy the campaign to a directory of yours to change the copy"
            raise CampaignError(
                f"{campaign}: cannot be changed ({name}: {error.strerror}){hint}"
            ) from error

        is_alone = self._lock()
        if is_alone is None:
            try:
                is_alone = self._claim_without_locks(path)
            except OSError as error:
                os.close(self._file)
                raise CampaignError(
                    f"{campaign}: cannot be changed ({name}: {error.strerror})"
                ) from error
        if not is_alone:
            holder = self._read_holder()
            os.close(self._file)
            raise CampaignError(
                f"{campaign}: another aggregator ({holder or 'just starting'}) is running;"
                " use it, or stop it first"
            )
        with suppress(OSError):  # on a full disk, only its name in messages is missing
            self._write_holder()

    def _lock(self) -> bool | None:
        """Lock the file; False if another process has it, None if the file system has no locks."""
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in NO_LOCKS:
                    return None
            else:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)

    def _claim_without_locks(self, path: str) -> bool:
        """Claim a lock file on a file system without locks; whether nobody else has claimed it.

        The file names the process that claimed it. That process is gone if this host does not have
        it any more, or if it runs on another host and the address beside the file does not answer.
        """
        match = _HOLDER.match(self._read_holder())
        if match and match[2] == socket.gethostname():
            if is_process(int(match[1]), os.fstat(self._file).st_mtime):
                return int(match[1]) == os.getpid()
        elif match:
            address = find_address(f"{path.removesuffix('.lock')}.json")
            if address is not None and does_answer(address, ANSWER_S):
                return False

        # Of several processes that start at the same time, the last one to write has the file.
        self._write_holder()
        time.sleep(SETTLE_S)
        match = _HOLDER.match(self._read_holder())
        return match is not None and int(match[1]) == os.getpid()

    def _read_holder(self) -> str:
        return os.pread(self._file, 4096, 0).decode("utf-8", "replace").strip()

    def _write_holder(self) -> None:
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"pid {os.getpid()} on host {socket.gethostname()}\n".encode(), 0)

    def close(self) -> None:
        """Release the lock."""
        os.ftruncate(self._file, 0)
        os.close(self._file)

    def __enter__(self) -> Self:
        """Return the lock itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Release the lock."""
        self.close()


def load_aggregator_address(campaign: str) -> ListenerAddress | None:
    """The address of the campaign's aggregator; None if no aggregator is running.

    Raises:
        CampaignError: the address file is not private to this user, or is malformed.
    """
    path = os.path.join(campaign, AGGREGATOR_ADDRESS)
    if not os.path.exists(path):
        return None

    try:
        return load_address(path)
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise CampaignError(f"{path}: not an address that this insitu can read: {error}") from error


def remove_address(campaign: str, name: str = AGGREGATOR_ADDRESS) -> None:
    """Remove an address file, if it exists: nobody listens there any more."""
    try:
        os.unlink(os.path.join(campaign, name))
    except FileNotFoundError:
        return


def load_token(campaign: str) -> str:
    """The campaign's token, created on first use.

    It belongs to the campaign, not to an aggregator: agents that outlive one aggregator are
    admitted by the next.

    Raises:
        CampaignError: the file is not private to this user.
    """
    directory = os.path.join(campaign, KEYS)
    make_private_directory(directory)

    path = os.path.join(directory, TOKEN)
    if not os.path.exists(path):
        private_files.write_private_file(path, secrets.token_hex(32) + "\n")
    return read_private_file(path).strip()


def socket_directory(environment: dict[str, str]) -> str:
    """The directory of this user's sockets on this machine, created if necessary.

    Raises:
        CampaignError: the directory in XDG_RUNTIME_DIR is not private to this user.
        OSError: no directory can be created.
    """
    fallback = f"/tmp/insitu-{os.getuid()}"
    runtime_directory = environment.get("XDG_RUNTIME_DIR", "")

    directory = fallback
    if os.path.isdir(runtime_directory):
        directory = os.path.join(runtime_directory, "insitu")
    if len(os.fsencode(directory)) > MAX_SOCKET_PATH - SOCKET_NAME_BYTES:
        directory = fallback

    try:
        make_private_directory(directory)
        return directory
    except CampaignError:
        if directory != fallback:
            raise

    # Somebody else took the name. The addresses are saved in the campaign, so any name will do.
    return tempfile.mkdtemp(prefix=f"insitu-{os.getuid()}-", dir="/tmp")


def socket_paths(campaign: str, directory: str, relay: str = "") -> tuple[str, str]:
    """The paths of the sockets for agents and for boards, the same at every start.

    Args:
        campaign: the campaign's directory; every path to the same directory gives the same sockets.
        directory: the directory of the sockets.
        relay: the name of a relay, which has sockets of its own.
    """
    identity = os.fsencode(os.path.realpath(campaign))
    if relay:
        identity += b"\0" + relay.encode()
    name = hashlib.sha256(identity).hexdigest()[:16]
    return os.path.join(directory, f"{name}.agents"), os.path.join(directory, f"{name}.boards")


def make_private_directory(path: str) -> None:
    """Create a directory that only this user can enter, or check that an existing one is private.

    Raises:
        CampaignError: it cannot be created, or is not private to this user.
    """
    try:
        private_files.make_private_directory(path)
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}") from error


def read_private_file(path: str) -> str:
    """Return the text of a file that only this user can read.

    Raises:
        CampaignError: it cannot be read, or is not private to this user.
    """
    try:
        return private_files.read_private_file(path)
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}") from error
