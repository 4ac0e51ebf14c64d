"""Tables that no agent has delivered: found and read by `insitu ingest`."""

import fcntl
import os
import shutil
import time

from insitu.campaign import layout
from insitu.collectors import spool, table_directory
from insitu.collectors.node import Node, read_meta
from insitu.collectors.table import TableReader
from insitu.errors import WireError
from insitu.wire.messages import Message

SETTLE_S = 5.0  # how long to wait at most for agents whose ranks have ended


def find_leftovers(campaign: str) -> list[str]:
    """The run directories of a campaign whose tables wait for ingest.

    They are on this machine or in the campaign's spool. Agents whose ranks have ended are about to
    deliver their tables, or to copy them into the spool: this function waits for them.
    """
    campaign = os.path.realpath(campaign)
    directories = [
        path for path in table_directory.run_directories() if _campaign_of(path) == campaign
    ]
    deadline = time.monotonic() + SETTLE_S
    while any(map(_is_ending, directories)) and time.monotonic() < deadline:
        time.sleep(0.05)

    directories = [path for path in directories if os.path.isdir(path)]
    folder = os.path.join(campaign, layout.SPOOL)
    if not os.path.isdir(folder):
        return directories

    being_copied = tuple(map(os.path.basename, directories))
    spooled = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    complete = spool.complete_folders(campaign)
    for path in spooled:
        # What an agent still copies is read from its run directory.
        if path in complete or not os.path.basename(path).startswith(being_copied):
            directories.append(path)
    return directories


def _is_ending(directory: str) -> bool:
    """Whether an agent holds this run directory although all its ranks have ended."""
    return has_agent(directory) and not has_live_ranks(directory)


def _campaign_of(directory: str) -> str:
    for name in table_directory.table_names(directory):
        try:
            table = TableReader(os.path.join(directory, name))
        except WireError:
            continue
        meta = read_meta(table)
        table.close()
        return os.path.realpath(str(meta.get("campaign", "")))
    return ""


def has_agent(directory: str) -> bool:
    """Whether a running agent holds the lock of this run directory."""
    try:
        lock = os.open(os.path.join(directory, table_directory.AGENT_LOCK), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def has_live_ranks(directory: str) -> bool:
    """Whether ranks still write the tables of this run directory."""
    node = Node(directory)
    node.scan()
    return bool(node.live_ranks())


def read_messages(directory: str, *, token: str = "") -> list[Message]:
    """The messages that an agent would have sent about the ended ranks of a run directory.

    Raises:
        WireError: no table can be read.
    """
    node = Node(directory, token=token, facts=spool.facts_of_node(directory))
    node.scan()
    if not node.ranks:
        reasons = "; ".join(node.damaged.values()) or "it contains no table"
        raise WireError(f"{directory}: nothing to ingest: {reasons}")

    totals = node.totals(1, everything=True)
    return [node.hello(), *node.new_paths(0), totals, node.bye(1, {})]


def remove(directory: str) -> None:
    """Delete a run directory that was ingested."""
    shutil.rmtree(directory, ignore_errors=True)
