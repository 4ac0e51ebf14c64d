"""Files that all ranks of a run opened, and files that only one rank opened, per call path.

Each agent reports the files of its ranks as numbers that are equal on all nodes. Whether a file is
shared is only known when the files of all ranks have arrived. Imports and MPI_Init are left out:
they open more files than a set has room for, and then the others would be unknown.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.entities import FILES_OWN, FILES_SHARED, CallPath, is_start_up
from insitu.modeling.measurement import IntArray, RunTable
from insitu.wire.messages import Bye

OPENED = "opened"  # the entry of `Bye.cost`
EVERY_FILE = 1 << 63  # above the identity of any file


@dataclass(frozen=True, slots=True)
class OpenedSet:
    """The files that a call path opened on a rank; if the set is full, the smallest ones."""

    callpath: CallPath
    rank: int
    files: tuple[int, ...]
    is_full: bool


def without_files(cost: str) -> str:
    """The `cost` of a Bye without the files of its ranks, as it is stored."""
    values = _parse_cost(cost)
    if OPENED not in values:
        return cost
    return json.dumps({name: value for name, value in values.items() if name != OPENED})


def add_file_kinds(
    table: RunTable,
    nodes: Iterable[tuple[Bye, IntArray]],
    callpaths: Sequence[CallPath],
) -> RunTable:
    """The table of a run with the metrics `files_shared` and `files_own`.

    Args:
        table: of a run whose ranks have all ended.
        nodes: of each node the last message, and the path id of each row of its dictionary.
        callpaths: of the run, by path id.
    """
    sets = []
    for bye, path_ids in nodes:
        entry = _parse_cost(bye.cost).get(OPENED)
        if entry is None:
            continue
        of_node = _parse_sets(entry, path_ids, callpaths, table.size)
        if of_node is None:
            return table  # the files of this node are not all known
        sets += of_node

    return _add_metrics(table, sets) if sets else table


def _parse_cost(cost: str) -> dict[str, object]:
    try:
        values = json.loads(cost or "{}")
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _parse_sets(
    entry: object, path_ids: IntArray, callpaths: Sequence[CallPath], size: int
) -> list[OpenedSet] | None:
    """The sets of a node; None if some files are not known, or if the message is malformed."""
    if not isinstance(entry, dict) or entry.get("is_whole") is not True:
        return None

    sets = []
    try:
        for row, files, is_full, ranks in entry["sets"]:
            if not isinstance(row, int) or not 0 <= row < len(path_ids):
                return None
            if is_full and not files:
                return None
            callpath = callpaths[int(path_ids[row])]
            if is_start_up(callpath):
                continue
            identities = tuple(int(file) for file in files)
            for rank in ranks:
                if not 0 <= rank < size:
                    return None
                sets.append(OpenedSet(callpath, int(rank), identities, bool(is_full)))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None

    return sets


def _add_metrics(table: RunTable, sets: Sequence[OpenedSet]) -> RunTable:
    """Count the files of each set by kind.

    Of a full set only the files up to its largest one are known, so a larger file of another set
    may be in it as well. Such sets have no values.
    """
    limit = min((max(entry.files) for entry in sets if entry.is_full), default=EVERY_FILE)
    ranks_of: dict[int, set[int]] = {}
    for entry in sets:
        for file in entry.files:
            ranks_of.setdefault(file, set()).add(entry.rank)

    rows = {callpath: row for row, callpath in enumerate(table.callpaths)}
    shape = (len(table.callpaths), table.size)
    shared, own = np.full(shape, np.nan), np.full(shape, np.nan)
    for entry in sets:
        row = rows.get(entry.callpath)
        if row is None or entry.is_full or any(file > limit for file in entry.files):
            continue
        users = [len(ranks_of[file]) for file in entry.files]
        at = row, entry.rank
        shared[at] = np.nan_to_num(shared[at]) + users.count(table.size)
        # The files of a serial program are its own.
        own[at] = np.nan_to_num(own[at]) + (users.count(1) if table.size > 1 else 0)

    return replace(
        table,
        metrics=(*table.metrics, FILES_SHARED, FILES_OWN),
        values={**table.values, FILES_SHARED.name: shared, FILES_OWN.name: own},
    )
