"""Tables of ended ranks, copied into their campaign where no socket reaches the aggregator."""

import os
import socket

from insitu.collectors import places

HOST = "host"  # the file that names the node whose tables lie in a folder of the spool


def folder_of(campaign: str, run: str) -> str:
    """The folder for this node's tables of a run, made where it is not there yet.

    Raises:
        OSError: it cannot be made, or it is open to others.
    """
    spool = os.path.join(campaign, places.SPOOL)
    os.makedirs(campaign, mode=0o700, exist_ok=True)
    places.private(spool)
    folder = os.path.join(spool, f"{run}-{socket.gethostname()}")
    places.private(folder)
    return folder


def copy(directory: str, campaign: str) -> None:
    """Copy the tables of a run directory; they are on the disk when this returns.

    Raises:
        OSError: they could not be copied; those that were are whole.
    """
    folder = folder_of(campaign, os.path.basename(directory))
    _write(os.path.join(folder, HOST), socket.gethostname().encode())
    for name in places.tables(directory):
        with open(os.path.join(directory, name), "rb") as table:
            _write(os.path.join(folder, name), table.read())
    file = os.open(folder, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def host_of(directory: str) -> str:
    """The node whose tables lie in a directory: this one, unless the directory says another."""
    try:
        with open(os.path.join(directory, HOST), encoding="utf-8", errors="replace") as file:
            return file.read(256).strip() or socket.gethostname()
    except OSError:
        return socket.gethostname()


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
