"""Files that all ranks of a run opened, and files that only one rank opened, per call path.

Each agent reports the files of its ranks as numbers that are equal on all nodes. Whether a file is
shared is only known when the files of all ranks have arrived. Imports and MPI_Init are left out:
they open more files than a set has room for, and then the others would be unknown.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.entities import FILES_OPENED, FILES_OWN, FILES_SHARED, CallPath, is_start_up
from insitu.modeling.measurement import FloatArray, IntArray, RunTable
from insitu.wire.messages import Bye

OPENED = "opened"  # the entry of `Bye.cost`
EVERY_FILE = 1 << 63  # above the identity of any file
IDENTITIES = 1 << 52  # identities are evenly distributed below this number
# Of a call path that opens more files than a set has room for. If 1 in 10 files had two users, 30
# files would all have one in 4 of 100 runs.
MIN_KNOWN = 30
# The files of full sets are estimated with an error of 18 % [KMV]; a file that is opened twice
# halves the ratio of files to openings.
MIN_FILES_PER_OPENING, MAX_FILES_PER_OPENING = 0.7, 1.4


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
            if min(identities, default=1) < 1:
                return None
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
    may be in it as well. Such sets have no values, unless all known files of a call path are those
    of single ranks, and each was opened once: then the files of a rank are those that it opened.
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

    opened = table.values.get(FILES_OPENED.name)
    if opened is not None and table.size > 1:
        by_path: dict[CallPath, list[OpenedSet]] = {
            entry.callpath: [] for entry in sets if entry.is_full and entry.callpath in rows
        }
        for entry in sets:
            if entry.callpath in by_path:
                by_path[entry.callpath].append(entry)
        for callpath, ours in by_path.items():
            known = [file for entry in ours for file in entry.files if file <= limit]
            has_one_user = all(len(ranks_of[file]) == 1 for file in known)
            openings = opened[rows[callpath]]
            if has_one_user and len(known) >= MIN_KNOWN and _are_different(ours, openings):
                shared[rows[callpath]], own[rows[callpath]] = 0.0, openings

    return replace(
        table,
        metrics=(*table.metrics, FILES_SHARED, FILES_OWN),
        values={**table.values, FILES_SHARED.name: shared, FILES_OWN.name: own},
    )


def _are_different(sets: Sequence[OpenedSet], openings: FloatArray) -> bool:
    """Whether the files of a call path are about as many as its openings on all ranks.

    A full set keeps the k smallest of n evenly distributed identities, of which the largest is
    about k / n of their range: n is estimated as (k - 1) / share [Bar-Yossef et al. 2002; KMV].
    """
    files = 0.0
    for entry in sets:
        count = len(entry.files)
        files += (count - 1) * IDENTITIES / max(entry.files) if entry.is_full else count
    total = openings.sum()
    return bool(MIN_FILES_PER_OPENING * total <= files <= MAX_FILES_PER_OPENING * total)
