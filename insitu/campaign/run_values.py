"""The values of a run as they are stored, and whether they are intact."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from insitu.campaign import records
from insitu.campaign.checksums import SIZE, checksum_of
from insitu.campaign.database import has_checksums
from insitu.entities import CallPath, Metric, MetricKind
from insitu.errors import CampaignError

CALLPATHS_KEPT = 1 << 17  # parsed texts in memory; runs of one campaign share theirs
CALLPATH_LISTS_KEPT = 1 << 6  # of runs; most runs of a campaign have the same

VectorRow = tuple[int, int, str, str, bytes]  # call path, metric, dtype, codec, compressed values


class CallPathRows(NamedTuple):
    """Call paths of a run, in order; most runs of a campaign have the same."""

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    parsed: tuple[CallPath, ...]


CallPathCache = dict[bytes, CallPathRows]  # by their ids, as they are stored


class RunHeader(NamedTuple):
    """What a run has values of; metrics by id, in order."""

    run_id: str
    ordinal: int
    size: int  # number of ranks
    callpaths: CallPathRows
    metrics: dict[int, Metric]


class StoredTable(NamedTuple):
    """A run as it is stored."""

    header: RunHeader
    rows: list[VectorRow]


def read_headers(
    connection: sqlite3.Connection, cache: CallPathCache, run_id: str | None = None
) -> Iterator[RunHeader]:
    """Read the size, call paths and metrics of all runs, or of one.

    Args:
        connection: to campaign.db.
        cache: call paths that were read before; those of these runs are added.
        run_id: the one run.
    """
    metric_by_id = {}
    for metric_id, name, unit, kind in connection.execute(
        "SELECT id, name, unit, kind FROM metric"
    ):
        metric_by_id[metric_id] = Metric(name, unit, MetricKind(kind))
    query = "SELECT id, ordinal, size, callpaths, metrics FROM run"
    if run_id is None:
        rows = connection.execute(query)
    else:
        rows = connection.execute(f"{query} WHERE id = ?", (run_id,))

    metrics_by_text: dict[str, dict[int, Metric]] = {}
    for row_id, ordinal, size, callpath_ids, metric_ids in rows:
        if callpath_ids not in cache:
            if len(cache) >= CALLPATH_LISTS_KEPT:
                cache.clear()
            cache[callpath_ids] = _read_callpaths(connection, callpath_ids)
        if metric_ids not in metrics_by_text:
            metrics = {number: metric_by_id[number] for number in json.loads(metric_ids)}
            metrics_by_text[metric_ids] = metrics
        callpaths, metrics = cache[callpath_ids], metrics_by_text[metric_ids]
        yield RunHeader(row_id, ordinal, size, callpaths, metrics)


def _read_callpaths(connection: sqlite3.Connection, callpath_bytes: bytes) -> CallPathRows:
    ids = np.frombuffer(callpath_bytes, dtype="<u4").tolist()
    text_by_id = dict(
        connection.execute(
            "SELECT id, text FROM callpath WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(ids),),
        )
    )
    texts = tuple(text_by_id[callpath_id] for callpath_id in ids)
    return CallPathRows(tuple(ids), texts, _parse_callpaths(texts))


def read_values(connection: sqlite3.Connection, path: str, run_id: str) -> StoredTable:
    """Read the compressed values of a run.

    Raises:
        CampaignError: there is no such run.
    """
    header = next(read_headers(connection, {}, run_id), None)
    if header is None:
        raise CampaignError(f"{path}: has no run '{run_id}'")
    rows = connection.execute(
        "SELECT callpath, metric, dtype, codec, blob FROM vec WHERE run = ?"
        " ORDER BY callpath, metric",
        (header.ordinal,),
    ).fetchall()
    return StoredTable(header, rows)


def read_intact_values(connection: sqlite3.Connection, path: str, run_id: str) -> StoredTable:
    """Read the compressed values of a run.

    Raises:
        ValueError: the values are damaged.
        CampaignError: there is no such run.
    """
    stored = read_values(connection, path, run_id)
    checksum = read_checksum(connection, run_id)
    if checksum is not None and checksum != values_checksum(stored):
        raise ValueError("the checksum of its values differs")
    return stored


def read_checksum(connection: sqlite3.Connection, run_id: str) -> bytes | None:
    """The checksum of the values of a run, if the format has any."""
    if not has_checksums(connection):
        return None
    row = connection.execute(
        "SELECT vectors FROM checksum JOIN run ON run = ordinal WHERE id = ?", (run_id,)
    ).fetchone()
    return row[0] if row else None


def read_checksums(connection: sqlite3.Connection) -> dict[str, bytes | None]:
    """The checksum of the values of each run by its id; None if there is none."""
    if not has_checksums(connection):
        return {run_id: None for (run_id,) in connection.execute("SELECT id FROM run")}
    return dict(
        connection.execute("SELECT id, vectors FROM run LEFT JOIN checksum ON run = ordinal")
    )


@lru_cache(maxsize=CALLPATH_LISTS_KEPT)
def _parse_callpaths(texts: tuple[str, ...]) -> tuple[CallPath, ...]:
    return tuple(map(_parse_callpath, texts))


@lru_cache(maxsize=CALLPATHS_KEPT)
def _parse_callpath(text: str) -> CallPath:
    """The call path of a text: one object for all runs."""
    return records.callpath_of(text)


def values_checksum(stored: StoredTable) -> bytes:
    """The checksum of all values of a run, with the names of what they are values of."""
    digest = hashlib.blake2b(digest_size=SIZE)
    digest.update(checksum_of([stored.header.size, *stored.header.callpaths.texts]))
    for metric in stored.header.metrics.values():
        digest.update(checksum_of([metric.name, metric.unit, metric.kind.value]))
    for row in stored.rows:
        digest.update(checksum_of(row))
    return digest.digest()
