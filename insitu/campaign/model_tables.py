"""The tables of campaign.db that hold models and the classes of ranks.

A model is a row: compressed JSON. Most call paths have the same classes in a run, so each distinct
classification of ranks is stored once, and a row per series refers to those of all runs.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import numpy as np

from insitu.campaign import records, vectors
from insitu.campaign.checksums import DAMAGE, Value, checksum_of, is_intact
from insitu.campaign.database import has_checksums, has_shared_classes
from insitu.entities import CallPath, Metric, MetricKind, RunKey
from insitu.modeling.base import Clusters, Model, SeriesModel
from insitu.modeling.measurement import IntArray, SeriesKey

MAX_BODY_BYTES = 1 << 24  # of one model, uncompressed; the largest that was seen has 20 kB
MAX_CLASSIFICATIONS = 1 << 20  # runs of one series
BODY_LEVEL = 6  # of zlib

# Where a model differs from this text, it is compressed. Part of the format: never change it.
BODY_DICTIONARY = (
    b'"factors":[{"parameter":"n","exponent":"1/2","log":"1"}{"parameter":"p","exponent":"0",'
    b'"log":"0"}]}]}}],"exponential":"0.0,0.0,0.0,1.0,0.0,0.0,0.5,0.0,0.3333333333333333,'
    b"0.6666666666666666,1.3333333333333333,0.25,0.75,1.25,1.5,2.0,1.0,0.0,0.0,0.0],"
    b'"tails":[[0.0,0.0,0.0,0.0,0.0],[0.0,0.0,0.0,0.0,0.0]],"findings":[["not-modelled",'
    b'{"parameters":["p"],"modeler":"evidence","segments":[{"lower":null,"upper":null,"function":'
    b'{"parameters":["p"],"constant":0.0,"terms":[{"coefficient":1.0,"factors":[{"parameter":"p",'
    b'"exponent":"1","log":"0"}]}]}}],"quality":{"smape":0.0,"adjusted_r2":null,"rss":0.0},'
    b'"coordinates":[[2.0],[4.0],[8.0],[16.0],[32.0],[64.0],[128.0],[256.0],[512.0],[1024.0]],'
    b'"values":[0.0,1.0],"change_points":[],"spreads":[{"shape":[6,2,1,3],"exponents":[0.0,0.0,'
    b'0.0,0.0,0.0,0.0],"coefficients":[[0.0,0.0,0.0],[0.0,0.0]],"covariances":[[[0.0,0.0,0.0],'
    b"[0.0,0.0,0.0],[0.0,0.0,0.0]],[[0.0,0.0,0.0],[0.0,0.0,0.0],[0.0,0.0,0.0]]],"
    b'"weights":[0.9999,0.00001],"sigma":1e-06,"degrees":200.0}],"probability":0.9999,'
    b'"change_probabilities":[],"findings":[]}'
)

ClassKey = tuple[CallPath, str]  # a series with all of its classes
ClassesOfSeries = tuple[Clusters, ...]  # in all runs


def group_clusters(clusters: Iterable[Clusters]) -> dict[ClassKey, ClassesOfSeries]:
    """The classes of each series, in all runs."""
    by_series: dict[ClassKey, list[Clusters]] = {}
    for entry in clusters:
        by_series.setdefault((entry.callpath, entry.metric), []).append(entry)
    return {key: tuple(entries) for key, entries in by_series.items()}


def write_model_rows(
    connection: sqlite3.Connection,
    models: Iterable[SeriesModel],
    clusters: Mapping[ClassKey, ClassesOfSeries],
) -> str:
    """Insert models, and replace all classes; return the runs as JSON, for `read_classes`."""
    connection.executemany(
        "INSERT OR REPLACE INTO model VALUES (?, ?, ?, ?, ?, ?, ?)", _model_rows(models)
    )

    for table in ("cluster", "classification", "classified"):
        connection.execute(f"DELETE FROM {table}")
    runs = {entry.run for entries in clusters.values() for entry in entries}
    keys = sorted(runs, key=lambda run: (run.parameters, run.repetition))
    rows, classifications = _class_rows(clusters, {key: index for index, key in enumerate(keys)})
    connection.executemany("INSERT INTO classification VALUES (?, ?, ?, ?)", classifications)
    connection.executemany("INSERT INTO classified VALUES (?, ?, ?, ?)", rows)

    return json.dumps([[records.key_text(key), key.repetition] for key in keys])


def _model_rows(models: Iterable[SeriesModel]) -> Iterator[tuple[Value, ...]]:
    """The rows of models; one that several series share is packed once."""
    bodies: dict[int, tuple[Model, bytes]] = {}  # holds the model, so that no other has its id
    for series in models:
        if id(series.model) not in bodies:
            bodies[id(series.model)] = (series.model, _pack_body(series.model))
        values: tuple[Value, ...] = (
            records.callpath_text(series.key.callpath),
            series.key.metric,
            series.key.behaviour,
            series.metric.unit,
            series.metric.kind.value,
            bodies[id(series.model)][1],
        )
        yield (*values, checksum_of(values))


def _pack_body(model: Model) -> bytes:
    text = json.dumps(model.to_dict(), separators=(",", ":"))
    packer = zlib.compressobj(BODY_LEVEL, zdict=BODY_DICTIONARY)
    return packer.compress(text.encode()) + packer.flush()


def _unpack_body(body: str | bytes) -> Model:
    """The model from its row; formats before the third stored its text.

    Raises:
        ValueError: the bytes are damaged.
    """
    if isinstance(body, bytes):
        unpacker = zlib.decompressobj(zdict=BODY_DICTIONARY)
        try:
            body = unpacker.decompress(body, MAX_BODY_BYTES).decode()
        except zlib.error as error:
            raise ValueError(f"not zlib: {error}") from error
    return Model.from_dict(json.loads(body))


def _class_rows(
    clusters: Mapping[ClassKey, ClassesOfSeries], index_of: Mapping[RunKey, int]
) -> tuple[list[tuple[Value, ...]], list[tuple[Value, ...]]]:
    """The rows of `classified` and of `classification`."""
    id_of: dict[tuple[tuple[str, ...], bytes], int] = {}
    classifications: list[tuple[Value, ...]] = []
    rows: list[tuple[Value, ...]] = []
    for (callpath, metric), entries in clusters.items():
        ids = np.zeros(len(index_of), dtype="<u4")
        for entry in entries:
            content = (entry.names, np.asarray(entry.labels, dtype="<i4").tobytes())
            if content not in id_of:
                id_of[content] = len(id_of) + 1
                values = (
                    id_of[content],
                    json.dumps(entry.names),
                    vectors.pack_labels(entry.labels),
                )
                classifications.append((*values, checksum_of(values)))
            ids[index_of[entry.run]] = id_of[content]

        row = (records.callpath_text(callpath), metric, zlib.compress(ids.tobytes()))
        rows.append((*row, checksum_of(row)))
    return rows, classifications


def read_series(connection: sqlite3.Connection) -> tuple[tuple[SeriesModel, ...], int]:
    """The intact models, sorted, and the number of damaged ones."""
    callpath_of = cache(records.callpath_of)  # few call paths, each in many rows
    unpack_body = cache(_unpack_body)  # many call paths have the same counts, and so the same model
    checksum = "checksum" if has_checksums(connection) else "NULL"
    rows = connection.execute(
        f"SELECT callpath, metric, class, unit, kind, body, {checksum} FROM model"
        " ORDER BY callpath, metric, class"
    )

    models, n_damaged = [], 0
    for *row, row_checksum in rows:
        path, name, behaviour, unit, kind, body = row
        try:
            if not is_intact(row, row_checksum):
                raise ValueError("its checksum differs")
            metric = Metric(name, unit, MetricKind(kind))
            key = SeriesKey(callpath_of(path), name, behaviour)
            models.append(SeriesModel(key, metric, unpack_body(body)))
        except DAMAGE:
            n_damaged += 1

    return tuple(models), n_damaged


def read_classes(
    connection: sqlite3.Connection, runs_text: str
) -> tuple[tuple[Clusters, ...], int]:
    """The intact classes of ranks, sorted, and the number of damaged rows.

    Args:
        connection: to campaign.db.
        runs_text: what `write_model_rows` returned.
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
    clusters: list[Clusters] = []
    n_damaged = 0
    for *row, checksum in connection.execute("SELECT * FROM classified"):
        try:
            if not is_intact(row, checksum):
                raise ValueError("its checksum differs")
            callpath, metric = records.callpath_of(row[0]), row[1]
            ids = vectors.unpack_labels(row[2], MAX_CLASSIFICATIONS)
            for key, number in zip(keys, ids.tolist(), strict=True):
                if number:
                    labels, names = unpack(*stored[number], key.size)
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


def _cluster_key(clusters: Clusters) -> tuple[CallPath, str, tuple[tuple[str, float], ...], int]:
    return clusters.callpath, clusters.metric, clusters.run.parameters, clusters.run.repetition


def delete_models(connection: sqlite3.Connection, keys: Iterable[SeriesKey]) -> None:
    """Delete the models of these series."""
    connection.executemany(
        "DELETE FROM model WHERE callpath = ? AND metric = ? AND class = ?",
        ((records.callpath_text(key.callpath), key.metric, key.behaviour) for key in keys),
    )
