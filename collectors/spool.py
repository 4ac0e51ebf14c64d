"""Tables of ended ranks, copied into their campaign where no socket reaches the aggregator."""

import hashlib
import os
import socket

from insitu.campaign import layout
from insitu.collectors import table_directory
from insitu.private_files import make_private_directory

HOST = "host"  # the file that names the host, and the node, of the tables in a folder of the spool
BOOT = "/proc/sys/kernel/random/boot_id"


def folder_of(campaign: str, run: str, node: str) -> str:
    """The folder for a node's tables of a run, made where it is not there yet.

    Raises:
        OSError: it cannot be made, or it is open to others.
    """
    spool = os.path.join(campaign, layout.SPOOL)
    os.makedirs(campaign, mode=0o700, exist_ok=True)
    make_private_directory(spool)
    folder = os.path.join(spool, f"{run}-{node}")
    make_private_directory(folder)
    return folder


def copy(directory: str, campaign: str) -> None:
    """Copy the tables of a run directory; they are on the disk when this returns.

    Raises:
        OSError: they could not be copied; those that were are whole.
    """
    node = node_of(directory)
    folder = folder_of(campaign, os.path.basename(directory), node)
    _write(os.path.join(folder, HOST), f"{socket.gethostname()}\n{node}".encode())
    for name in table_directory.table_names(directory):
        with open(os.path.join(directory, name), "rb") as table:
            _write(os.path.join(folder, name), table.read())
    file = os.open(folder, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def host_of(directory: str) -> str:
    """The host of the tables in a directory: this one, unless the directory says another."""
    return next(iter(_said(directory)), "") or socket.gethostname()


def node_of(directory: str) -> str:
    """The node of the tables in a directory: a name that no other node of the run has.

    Containers may share a host name; they share no directory for tables. Its place tells them
    apart: the kernel's start, the file system, the inode.
    """
    said = _said(directory)
    if said:
        return said[-1]
    try:
        with open(BOOT, "rb") as file:
            boot = file.read(64)
    except OSError:
        boot = b""
    found = os.stat(directory)
    place = boot + f"{found.st_dev} {found.st_ino}".encode()
    return f"{socket.gethostname()}-{hashlib.blake2b(place, digest_size=4).hexdigest()}"


def _said(directory: str) -> list[str]:
    """What a folder of the spool says of its host and its node; nothing elsewhere."""
    try:
        with open(os.path.join(directory, HOST), encoding="utf-8", errors="replace") as file:
            return file.read(512).split()
    except OSError:
        return []


def _write(path: str, data: bytes) -> None:
    """A file that appears whole or not at all."""
    fresh = f"{path}.{os.getpid()}"
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    except OSError:
        os.unlink(fresh)
        raise
    finally:
        os.close(file)
    os.replace(fresh, path)
