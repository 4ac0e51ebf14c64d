"""The values of a run as they are stored, and whether they are intact."""

import hashlib
import json
import sqlite3
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


class RunHeader(NamedTuple):
    """What a run has values of; texts of call paths and metrics by id, in order."""

    ordinal: int
    size: int  # number of ranks
    texts: dict[int, str]
    metrics: dict[int, Metric]


class StoredTable(NamedTuple):
    """A run as it is stored."""

    header: RunHeader
    rows: list[VectorRow]


def read_header(
    connection: sqlite3.Connection,
    path: str,
    run_id: str,
    texts_by_ids: dict[bytes, dict[int, str]] | None = None,
) -> RunHeader:
    """Read the size, call paths and metrics of a run.

    Args:
        connection: to campaign.db.
        path: directory of the campaign.
        run_id: the run.
        texts_by_ids: call paths of runs that were read before; those of this run are added.

    Raises:
        CampaignError: there is no such run.
    """
    run = connection.execute(
        "SELECT ordinal, size, callpaths, metrics FROM run WHERE id = ?", (run_id,)
    ).fetchone()
    if run is None:
        raise CampaignError(f"{path}: has no run '{run_id}'")

    ordinal, size, callpath_bytes, metric_text = run
    texts_by_ids = {} if texts_by_ids is None else texts_by_ids
    if callpath_bytes not in texts_by_ids:
        texts_by_ids[callpath_bytes] = _read_texts(connection, callpath_bytes)
    metrics = {}
    for metric_id in json.loads(metric_text):
        name, unit, kind = connection.execute(
            "SELECT name, unit, kind FROM metric WHERE id = ?", (metric_id,)
        ).fetchone()
        metrics[metric_id] = Metric(name, unit, MetricKind(kind))
    return RunHeader(ordinal, size, texts_by_ids[callpath_bytes], metrics)


def _read_texts(connection: sqlite3.Connection, callpath_bytes: bytes) -> dict[int, str]:
    """The texts of call paths by their ids, in the order of these."""
    callpath_ids = np.frombuffer(callpath_bytes, dtype="<u4").tolist()
    texts = dict(
        connection.execute(
            "SELECT id, text FROM callpath WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(callpath_ids),),
        )
    )
    return {key: texts[key] for key in callpath_ids}


def read_values(connection: sqlite3.Connection, path: str, run_id: str) -> StoredTable:
    """Read the compressed values of a run.

    Raises:
        CampaignError: there is no such run.
    """
    header = read_header(connection, path, run_id)
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


def callpaths_of(header: RunHeader) -> tuple[CallPath, ...]:
    """The call paths of a run; runs with the same call paths share one object."""
    return _parse_callpaths(tuple(header.texts.values()))


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
    digest.update(checksum_of([stored.header.size, *stored.header.texts.values()]))
    for metric in stored.header.metrics.values():
        digest.update(checksum_of([metric.name, metric.unit, metric.kind.value]))
    for row in stored.rows:
        digest.update(checksum_of(row))
    return digest.digest()
