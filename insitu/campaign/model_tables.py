"""The tables of campaign.db that hold models and the classes of ranks.

A model is a row, see `model_bodies.py`. Most call paths have the same classes in a run, so each
distinct classification of ranks is stored once, and a row per series refers to those of all runs.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from insitu.campaign import records, vectors
from insitu.campaign.checksums import DAMAGE, Value, checksum_of, is_intact
from insitu.campaign.database import has_checksums, has_shared_classes
from insitu.campaign.model_bodies import has_mean_law, pack_body, unpack_body
from insitu.entities import CallPath, Metric, MetricKind, RunKey
from insitu.modeling.base import MAXIMUM, Clusters, Model, SeriesModel
from insitu.modeling.measurement import IntArray, SeriesKey

MAX_CLASSIFICATIONS = 1 << 20  # runs of one series

ClassKey = tuple[CallPath, str]  # a series with all of its classes
ClassesOfSeries = tuple[Clusters, ...]  # in all runs


def group_clusters(clusters: Iterable[Clusters]) -> dict[ClassKey, ClassesOfSeries]:
    """The classes of each series, in all runs."""
    by_series: dict[ClassKey, list[Clusters]] = {}
    for entry in clusters:
        by_series.setdefault((entry.callpath, entry.metric), []).append(entry)
    return {key: tuple(entries) for key, entries in by_series.items()}


def write_models(
    connection: sqlite3.Connection,
    models: Iterable[SeriesModel],
    checksums: Mapping[SeriesKey, bytes],
) -> dict[SeriesKey, bytes]:
    """Insert or replace the models whose rows differ; return the checksums of all of them.

    Args:
        connection: to campaign.db.
        models: of distinct series.
        checksums: of rows that are stored.
    """
    written = {}
    changed = []
    bodies: dict[int, tuple[Model, bytes]] = {}  # holds the model, so that no other has its id
    for series in models:
        if id(series.model) not in bodies:
            bodies[id(series.model)] = (series.model, pack_body(series.model))
        values: tuple[Value, ...] = (
            records.callpath_text(series.key.callpath),
            series.key.metric,
            series.key.behaviour,
            series.metric.unit,
            series.metric.kind.value,
            bodies[id(series.model)][1],
        )
        checksum = written[series.key] = checksum_of(values)
        if checksums.get(series.key) != checksum:
            changed.append((*values, checksum))

    connection.executemany("INSERT OR REPLACE INTO model VALUES (?, ?, ?, ?, ?, ?, ?)", changed)
    return written


def write_classes(
    connection: sqlite3.Connection, clusters: Mapping[ClassKey, ClassesOfSeries]
) -> str:
    """Replace all classes; return the runs as JSON, for `read_classes`."""
    for table in ("cluster", "classification", "classified"):
        connection.execute(f"DELETE FROM {table}")
    runs = {entry.run for entries in clusters.values() for entry in entries}
    keys = sorted(runs, key=lambda run: (run.parameters, run.repetition))
    rows, classifications = _class_rows(clusters, {key: index for index, key in enumerate(keys)})
    connection.executemany("INSERT INTO classification VALUES (?, ?, ?, ?)", classifications)
    connection.executemany("INSERT INTO classified VALUES (?, ?, ?, ?)", rows)

    return json.dumps([[records.key_text(key), key.repetition] for key in keys])


def _class_rows(
    clusters: Mapping[ClassKey, ClassesOfSeries], index_of: Mapping[RunKey, int]
) -> tuple[list[tuple[Value, ...]], list[tuple[Value, ...]]]:
    """The rows of `classified` and of `classification`."""
    id_of: dict[tuple[tuple[str, ...], bytes], int] = {}
    id_of_object: dict[tuple[tuple[str, ...], int], int] = {}  # equal labels are mostly one array
    compress = cache(zlib.compress)
    classifications: list[tuple[Value, ...]] = []
    rows: list[tuple[Value, ...]] = []
    for (callpath, metric), entries in clusters.items():
        ids = np.zeros(len(index_of), dtype="<u4")
        for entry in entries:
            known = (entry.names, id(entry.labels))
            if known not in id_of_object:
                content = (entry.names, np.asarray(entry.labels, dtype="<i4").tobytes())
                if content not in id_of:
                    id_of[content] = len(id_of) + 1
                    values = (
                        id_of[content],
                        json.dumps(entry.names),
                        vectors.pack_labels(entry.labels),
                    )
                    classifications.append((*values, checksum_of(values)))
                id_of_object[known] = id_of[content]
            ids[index_of[entry.run]] = id_of_object[known]

        row = (records.callpath_text(callpath), metric, compress(ids.tobytes()))
        rows.append((*row, checksum_of(row)))
    return rows, classifications


class StoredSeries(NamedTuple):
    """What the table of models holds: models and supplements, sorted, as in `ModelSet`.

    checksums: of their rows. n_damaged: rows that were left out.
    """

    models: tuple[SeriesModel, ...]
    supplements: tuple[SeriesModel, ...]
    checksums: dict[SeriesKey, bytes]
    n_damaged: int


def read_series(connection: sqlite3.Connection) -> StoredSeries:
    """Read all models; each is unpacked when it is first used."""
    callpath_of = cache(records.callpath_of)  # few call paths, each in many rows
    model_of = cache(unpack_body)  # many call paths have the same counts, and so the same model
    metric_of = cache(lambda name, unit, kind: Metric(name, unit, MetricKind(kind)))
    checksum = "checksum" if has_checksums(connection) else "NULL"
    rows = connection.execute(
        f"SELECT callpath, metric, class, unit, kind, body, {checksum} FROM model"
        " ORDER BY callpath, metric, class"
    )

    models: list[SeriesModel] = []
    supplements: list[SeriesModel] = []
    checksums: dict[SeriesKey, bytes] = {}
    n_damaged = 0
    for *row, row_checksum in rows:
        path, name, behaviour, unit, kind, body = row
        try:
            if not is_intact(row, row_checksum):
                raise ValueError("its checksum differs")
            key = SeriesKey(callpath_of(path), name, behaviour)
            series = SeriesModel(key, metric_of(name, unit, kind), model_of(body))
            is_supplement = behaviour == MAXIMUM or has_mean_law(series.model)
        except DAMAGE:
            n_damaged += 1
            continue
        (supplements if is_supplement else models).append(series)
        checksums[key] = row_checksum

    return StoredSeries(tuple(models), tuple(supplements), checksums, n_damaged)


def read_classes(
    connection: sqlite3.Connection, runs_text: str
) -> tuple[tuple[Clusters, ...], int]:
    """The intact classes of ranks, sorted, and the number of damaged rows.

    Args:
        connection: to campaign.db.
        runs_text: what `write_classes` returned.
    """
    clusters, n_damaged = _read_class_rows(connection)
    if has_shared_classes(connection):
        shared, n_more = _read_shared_classes(connection, runs_text)
        clusters, n_damaged = clusters + shared, n_damaged + n_more
    return tuple(sorted(clusters, key=_cluster_key)), n_damaged


def _read_shared_classes(
    connection: sqlite3.Connection, runs_text: str
) -> tuple[list[Clusters], int]:
    keys = [records.key_of(parameters, number) for parameters, number in json.loads(runs_text)]
    stored: dict[int, tuple[str, bytes]] = {}
    for *row, checksum in connection.execute("SELECT * FROM classification"):
        if is_intact(row, checksum):
            stored[row[0]] = (row[1], row[2])

    # The cache keeps each classification in memory once.
    unpack = cache(_unpack_classification)
    callpath_of = cache(records.callpath_of)
    sizes = [key.size for key in keys]

    @cache  # most series have the classes of others
    def unpack_ids(blob: bytes) -> list[tuple[RunKey, IntArray, tuple[str, ...]]]:
        ids = vectors.unpack_labels(blob, MAX_CLASSIFICATIONS).tolist()
        return [
            (key, *unpack(*stored[number], size))
            for key, size, number in zip(keys, sizes, ids, strict=True)
            if number
        ]

    clusters: list[Clusters] = []
    n_damaged = 0
    for *row, checksum in connection.execute("SELECT * FROM classified"):
        try:
            if not is_intact(row, checksum):
                raise ValueError("its checksum differs")
            callpath, metric = callpath_of(row[0]), row[1]
            for key, labels, names in unpack_ids(row[2]):
                clusters.append(Clusters(callpath, metric, key, labels, names))
        except DAMAGE:
            n_damaged += 1
    return clusters, n_damaged


def _read_class_rows(connection: sqlite3.Connection) -> tuple[list[Clusters], int]:
    """Classes as formats before the third stored them: a row per series and run."""
    callpath_of, key_of = cache(records.callpath_of), cache(records.key_of)
    unpack = cache(_unpack_classification)
    checksum = "checksum" if has_checksums(connection) else "NULL"
    rows = connection.execute(
        f"SELECT callpath, metric, parameters, repetition, names, labels, {checksum} FROM cluster"
    )

    clusters, n_damaged = [], 0
    for *row, row_checksum in rows:
        path, metric, parameters, repetition, names_text, blob = row
        try:
            if not is_intact(row, row_checksum):
                raise ValueError("its checksum differs")
            key = key_of(parameters, repetition)
            labels, names = unpack(names_text, blob, key.size)
            clusters.append(Clusters(callpath_of(path), metric, key, labels, names))
        except DAMAGE:
            n_damaged += 1
    return clusters, n_damaged


def _unpack_classification(names: str, blob: bytes, size: int) -> tuple[IntArray, tuple[str, ...]]:
    """The labels of `size` ranks, as a read-only array, and the names of their classes.

    Raises:
        ValueError: the bytes are damaged.
    """
    labels = vectors.unpack_labels(blob, size)
    labels.flags.writeable = False
    return labels, tuple(json.loads(names))


def _cluster_key(
    clusters: Clusters,
) -> tuple[tuple[str, ...], str, tuple[tuple[str, float], ...], int]:
    run = clusters.run
    return clusters.callpath.frames, clusters.metric, run.parameters, run.repetition


def delete_models(connection: sqlite3.Connection, keys: Iterable[SeriesKey]) -> None:
    """Delete the models of these series."""
    connection.executemany(
        "DELETE FROM model WHERE callpath = ? AND metric = ? AND class = ?",
        ((records.callpath_text(key.callpath), key.metric, key.behaviour) for key in keys),
    )
