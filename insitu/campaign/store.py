"""A campaign on disk: one SQLite file in the campaign's directory."""

import json
import sqlite3
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np

from insitu.campaign import records, vectors
from insitu.campaign.catalogue import Catalogue, open_database
from insitu.campaign.database import explain_errors
from insitu.entities import CallPath, Finding, Metric, MetricKind, RunKey, RunRecord
from insitu.errors import CampaignError
from insitu.modeling.base import Clusters, Model, ModelSet, SeriesModel
from insitu.modeling.measurement import IntArray, RunTable, SeriesKey

RESTORE = "restore campaign.db from a backup"


def open_store(path: str, *, create: bool = False) -> "SqliteStore":
    """Open the campaign whose directory is `path`.

    Args:
        path: the directory, by custom `NAME.insitu`; `campaign.db` lies in it.
        create: make the directory (mode 0700) and the file where they are not there yet.

    Raises:
        CampaignError: no campaign there, written by a newer insitu, locked, damaged, not permitted.
    """
    return SqliteStore(path, open_database(path, create=create))


class SqliteStore(Catalogue):
    """The store in campaign.db; made by `open_store`."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        """Take over an open connection."""
        super().__init__(path, connection)
        self._kept = ModelSet()  # what put_models wrote last from here
        self._kept_at = -1  # the state of the file then

    def add_run(self, run: RunRecord, table: RunTable) -> None:
        """See Store."""
        records.check_shapes(run, table)
        with self._writing() as connection:
            callpaths = self._callpath_ids(table.callpaths)
            metrics = [self._metric_id(metric) for metric in table.metrics]
            extent = (
                table.size,
                np.asarray(callpaths, dtype="<u4").tobytes(),
                json.dumps(metrics),
            )
            ordinal = self._put_run((*records.run_row(run), *extent))
            connection.execute("DELETE FROM vec WHERE run = ?", (ordinal,))
            for metric, identity in zip(table.metrics, metrics, strict=True):
                connection.executemany(
                    "INSERT INTO vec VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        (
                            ordinal,
                            callpaths[v.row],
                            identity,
                            v.n,
                            vectors.DTYPE,
                            vectors.CODEC,
                            *v[2:],
                        )
                        for v in vectors.packed(table.values[metric.name])
                    ),
                )

    def add_findings(self, run_id: str, findings: Sequence[Finding], *, without: str = "") -> None:
        """See Store."""
        with self._writing() as connection:
            run = next((run for run in self.runs() if run.id == run_id), None)
            if run is None:
                raise CampaignError(f"{self.path}: has no run '{run_id}'")
            text = records.findings_text(records.noted(run, findings, without).findings)
            connection.execute("UPDATE run SET findings = ? WHERE id = ?", (text, run_id))

    def next_repetition(self, parameters: Mapping[str, float]) -> int:
        """See Store."""
        with explain_errors(self.path):
            (highest,) = self._connection.execute(
                "SELECT max(repetition) FROM run WHERE parameters = ?",
                (records.parameters_text(parameters),),
            ).fetchone()
        return 0 if highest is None else int(highest) + 1

    def table(self, run_id: str) -> RunTable:
        """See Store."""
        with self._reading() as connection:
            run = connection.execute(
                "SELECT ordinal, size, callpaths, metrics FROM run WHERE id = ?", (run_id,)
            ).fetchone()
            if run is None:
                raise CampaignError(f"{self.path}: has no run '{run_id}'")
            ordinal, size, row_bytes, metric_text = run
            ids = np.frombuffer(row_bytes, dtype="<u4").tolist()
            metrics = {identity: self._metric(identity) for identity in json.loads(metric_text)}
            texts = dict(
                connection.execute(
                    "SELECT id, text FROM callpath WHERE id IN (SELECT value FROM json_each(?))",
                    (json.dumps(ids),),
                )
            )
            found = connection.execute(
                "SELECT callpath, metric, dtype, codec, blob FROM vec WHERE run = ?", (ordinal,)
            ).fetchall()
        values = {m.name: np.full((len(ids), size), np.nan) for m in metrics.values()}
        rows = {identity: row for row, identity in enumerate(ids)}
        for callpath, metric, dtype, codec, blob in found:
            target = values[metrics[metric].name]
            target[rows[callpath]] = self._vector(blob, size, (dtype, codec))
        callpaths = tuple(records.callpath_of(texts[identity]) for identity in ids)
        return RunTable(callpaths, tuple(metrics.values()), values)

    def put_models(self, models: ModelSet, *, of: Collection[str] | None = None) -> None:
        """See Store. What is the same object as last time is not written again."""
        if self._kept_at != self.changes():  # nothing put yet, or somebody else wrote meanwhile
            self._kept = ModelSet()
        is_first = not self._kept.models and not self._kept.clusters
        before, after = _by_key(self._kept), _by_key(models)
        modelled = sorted(records.sealed(self.runs()) if of is None else of)
        with self._writing() as connection:
            for table in ("model", "cluster") if is_first else ():
                connection.execute(f"DELETE FROM {table}")
            for key in before.keys() - after.keys():
                _delete(connection, key)
            for key, made in after.items():
                if before.get(key) is not made:
                    _insert(connection, made)
            connection.execute("DELETE FROM finding")
            connection.executemany(
                "INSERT INTO finding VALUES (?, ?, ?)",
                ((found.code, found.text, found.where) for found in models.findings),
            )
            self._put("modelled parameters", json.dumps(models.parameters))
            self._put("modelled runs", json.dumps(modelled))
            rest = {records.callpath_text(path): share for path, share in models.rest.items()}
            self._put("modelled rest", json.dumps(rest))
        self._kept, self._kept_at = models, self.changes()

    def models(self) -> ModelSet:
        """See Store. Sorted by series."""
        with self._reading() as connection:
            parameters = self._get("modelled parameters", "[]")
            rest = json.loads(self._get("modelled rest", "{}"))
            series = connection.execute("SELECT * FROM model ORDER BY callpath, metric, class")
            callpath_of, key_of = cache(records.callpath_of), cache(records.key_of)  # few, often
            models = tuple(
                _series_of(
                    callpath_of(path), behaviour, Metric(metric, unit, MetricKind(kind)), body
                )
                for path, metric, behaviour, unit, kind, body in series
            )
            rows = connection.execute("SELECT * FROM cluster")
            parting = cache(self._parting)  # most are alike, and held once
            clusters = [
                Clusters(
                    callpath_of(path), sys.intern(metric), key, *parting(names, blob, key.size)
                )
                for path, metric, parameters, number, names, blob in rows
                for key in (key_of(parameters, number),)
            ]
            findings = connection.execute("SELECT * FROM finding ORDER BY rowid").fetchall()
        return ModelSet(
            parameters=tuple(json.loads(parameters)),
            models=models,
            clusters=tuple(sorted(clusters, key=_cluster_key)),
            findings=tuple(Finding(*row) for row in findings),
            rest={records.callpath_of(path): share for path, share in rest.items()},
        )

    def changes(self) -> int:
        """A number that changes when another process has written to the campaign."""
        with explain_errors(self.path):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is durable at the end, or nothing has changed."""
        with explain_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Several queries that see the same state of the file."""
        with explain_errors(self.path):
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("ROLLBACK")

    def _put_run(self, row: tuple[object, ...]) -> int:
        columns = f"{records.RUN_COLUMNS}, size, callpaths, metrics"
        names = columns.split(", ")
        updates = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
        places = ", ".join("?" for _ in names)
        (ordinal,) = self._connection.execute(
            f"INSERT INTO run ({columns}) VALUES ({places})"
            f" ON CONFLICT (id) DO UPDATE SET {updates} RETURNING ordinal",
            row,
        ).fetchone()
        return int(ordinal)

    def _callpath_ids(self, callpaths: tuple[CallPath, ...]) -> list[int]:
        texts = [records.callpath_text(callpath) for callpath in callpaths]
        self._connection.executemany(
            "INSERT OR IGNORE INTO callpath (text) VALUES (?)", ((text,) for text in texts)
        )
        find = "SELECT id FROM callpath WHERE text = ?"
        return [int(self._connection.execute(find, (text,)).fetchone()[0]) for text in texts]

    def _metric_id(self, metric: Metric) -> int:
        row = (metric.name, metric.unit, metric.kind.value)
        self._connection.execute(
            "INSERT OR IGNORE INTO metric (name, unit, kind) VALUES (?, ?, ?)", row
        )
        find = "SELECT id FROM metric WHERE name = ? AND unit = ? AND kind = ?"
        return int(self._connection.execute(find, row).fetchone()[0])

    def _metric(self, identity: int) -> Metric:
        name, unit, kind = self._connection.execute(
            "SELECT name, unit, kind FROM metric WHERE id = ?", (identity,)
        ).fetchone()
        return Metric(name, unit, MetricKind(kind))

    def _vector(self, blob: bytes, size: int, how: tuple[str, str]) -> np.ndarray:
        if how != (vectors.DTYPE, vectors.CODEC):
            raise CampaignError(f"{self.path}: values kept as {' '.join(how)}; update insitu")
        try:
            return vectors.unpacked(blob, size)
        except ValueError as error:
            raise CampaignError(f"{self.path}: damaged values ({error}); {RESTORE}") from error

    def _parting(self, names: str, blob: bytes, size: int) -> tuple[IntArray, tuple[str, ...]]:
        """Labels of so many ranks, which nobody changes, and the names of their classes."""
        try:
            labels = vectors.unpack_labels(blob, size)
        except ValueError as error:
            raise CampaignError(
                f"{self.path}: damaged classes ({error}); make them again with"
                f" `insitu refit {self.path}`"
            ) from error
        labels.flags.writeable = False
        return labels, tuple(json.loads(names))

    def _put(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO campaign VALUES (?, ?)", (name, value))

    def _get(self, name: str, default: str) -> str:
        row = self._connection.execute(
            "SELECT value FROM campaign WHERE name = ?", (name,)
        ).fetchone()
        return default if row is None else str(row[0])


Derived = SeriesModel | Clusters
ClusterKey = tuple[CallPath, str, tuple[tuple[str, float], ...], int]


def _by_key(models: ModelSet) -> dict[SeriesKey | ClusterKey, Derived]:
    """Everything that has a row of its own."""
    found: dict[SeriesKey | ClusterKey, Derived] = {one.key: one for one in models.models}
    found.update((_cluster_key(one), one) for one in models.clusters)
    return found


def _cluster_key(clusters: Clusters) -> ClusterKey:
    return clusters.callpath, clusters.metric, clusters.run.parameters, clusters.run.repetition


def _delete(connection: sqlite3.Connection, key: SeriesKey | ClusterKey) -> None:
    if isinstance(key, SeriesKey):
        connection.execute(
            "DELETE FROM model WHERE callpath = ? AND metric = ? AND class = ?",
            (records.callpath_text(key.callpath), key.metric, key.behaviour),
        )
        return
    callpath, metric, parameters, repetition = key
    run = RunKey(parameters, repetition)
    connection.execute(
        "DELETE FROM cluster WHERE callpath = ? AND metric = ? AND parameters = ?"
        " AND repetition = ?",
        (records.callpath_text(callpath), metric, records.key_text(run), run.repetition),
    )


def _insert(connection: sqlite3.Connection, made: Derived) -> None:
    if isinstance(made, SeriesModel):
        row: tuple[object, ...] = (
            records.callpath_text(made.key.callpath),
            made.key.metric,
            made.key.behaviour,
            made.metric.unit,
            made.metric.kind.value,
            json.dumps(made.model.to_dict()),
        )
    else:
        row = (
            records.callpath_text(made.callpath),
            made.metric,
            records.key_text(made.run),
            made.run.repetition,
            json.dumps(made.names),
            vectors.pack_labels(made.labels),
        )
    table = "model" if isinstance(made, SeriesModel) else "cluster"
    connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?, ?)", row)


def _series_of(callpath: CallPath, behaviour: str, metric: Metric, body: str) -> SeriesModel:
    model = Model.from_dict(json.loads(body))
    return SeriesModel(SeriesKey(callpath, metric.name, behaviour), metric, model)
