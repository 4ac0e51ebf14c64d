"""Copies the tables of a node into the campaign, for nodes that cannot reach the aggregator."""

import hashlib
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from insitu.campaign import layout
from insitu.collectors import table_directory
from insitu.collectors.node_facts import read_node_facts
from insitu.private_files import make_private_directory

HOST_FILE = "host"  # names the host and the node of the tables beside it
FACTS_FILE = "facts"  # JSON, those of the node
COMPLETE_FILE = "complete"  # exists when all tables of the node are there
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def make_folder(campaign: str, run: str, node: str) -> str:
    """Create the spool folder for a node's tables of a run, or return the existing one.

    Raises:
        OSError: the folder cannot be created, or other users can access it.
    """
    spool = os.path.join(campaign, layout.SPOOL)
    os.makedirs(campaign, mode=0o700, exist_ok=True)
    make_private_directory(spool)
    folder = os.path.join(spool, f"{run}-{node}")
    make_private_directory(folder)
    return folder


def copy_tables(directory: str, campaign: str, facts: Mapping[str, Any]) -> None:
    """Copy the tables of a run directory. They are on disk when this function returns.

    Args:
        directory: on this node.
        campaign: absolute path of the campaign.
        facts: of this node, as `read_node_facts` returns them.

    Raises:
        OSError: a table could not be copied; the copies made so far are complete.
    """
    node = node_name(directory)
    folder = make_folder(campaign, os.path.basename(directory), node)
    _write_file(os.path.join(folder, HOST_FILE), f"{socket.gethostname()}\n{node}".encode())
    _write_file(os.path.join(folder, FACTS_FILE), json.dumps(facts).encode())
    for name in table_directory.table_names(directory):
        with open(os.path.join(directory, name), "rb") as table:
            _write_file(os.path.join(folder, name), table.read())
    _write_file(os.path.join(folder, COMPLETE_FILE), b"")

    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def complete_folders(campaign: str) -> list[str]:
    """The folders of the spool that hold all tables of their node."""
    try:
        with os.scandir(os.path.join(campaign, layout.SPOOL)) as entries:
            folders = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [path for path in folders if os.path.exists(os.path.join(path, COMPLETE_FILE))]


def host_name(directory: str) -> str:
    """The host whose tables are in a directory: this one, unless the spool names another."""
    words = _read_host_file(directory)
    return words[0] if words else socket.gethostname()


def node_name(directory: str) -> str:
    """The name of the node whose tables are in a directory, unique among the nodes of the run.

    Containers may share a host name but not a directory for tables. The boot id, file system and
    inode of the directory distinguish them.
    """
    words = _read_host_file(directory)
    if words:
        return words[-1]

    try:
        with open(BOOT_ID, "rb") as file:
            boot = file.read(64)
    except OSError:
        boot = b""
    status = os.stat(directory)
    identity = boot + f"{status.st_dev} {status.st_ino}".encode()
    return f"{socket.gethostname()}-{hashlib.blake2b(identity, digest_size=4).hexdigest()}"


def facts_of_node(directory: str) -> dict[str, Any]:  # Any: JSON
    """The facts of the node whose tables are in a directory: of this one, or as the spool has them.

    Of this node without its load, which is not that of the run any more.
    """
    if not _read_host_file(directory):
        return {name: fact for name, fact in read_node_facts().items() if name != "load"}
    with (
        suppress(OSError, ValueError, RecursionError),
        open(os.path.join(directory, FACTS_FILE), encoding="utf-8") as file,
    ):
        facts = json.load(file)
        return facts if isinstance(facts, dict) else {}
    return {}


def _read_host_file(directory: str) -> list[str]:
    """The host and the node, for a folder of the spool; [] elsewhere."""
    try:
        with open(os.path.join(directory, HOST_FILE), encoding="utf-8", errors="replace") as file:
            return file.read(512).split()
    except OSError:
        return []


def _write_file(path: str, data: bytes) -> None:
    """Write a file that appears under its name only when it is complete."""
    new_path = f"{path}.{os.getpid()}"
    file = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    except OSError:
        os.unlink(new_path)
        raise
    finally:
        os.close(file)
    os.replace(new_path, path)
