"""The store of a campaign: one SQLite file in the campaign's directory."""

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from insitu.campaign import model_tables, records, vectors
from insitu.campaign.catalogue import (
    CLASSIFIED_RUNS,
    MODELLED_CHECKSUM,
    ROW_COLUMNS,
    Catalogue,
    open_database,
)
from insitu.campaign.checksums import DAMAGE, checksum_of
from insitu.campaign.class_mean_tables import (
    are_class_means_intact,
    read_class_means,
    write_class_means,
)
from insitu.campaign.database import explain_errors
from insitu.campaign.run_values import (
    CallPathCache,
    RunHeader,
    StoredTable,
    read_checksums,
    read_headers,
    read_intact_values,
    read_values,
    values_checksum,
)
from insitu.campaign.selection import MAX_LISTED_RUNS
from insitu.campaign.stored_values import StoredValues, unpack
from insitu.entities import CallPath, Finding, Metric, RunRecord
from insitu.errors import CampaignError
from insitu.modeling.base import ClassMeans, Clusters, ModelSet
from insitu.modeling.measurement import FloatArray, RunTable, SeriesKey
from insitu.text import list_some

SITE = "site "  # begins the names of the rows of `campaign` that say where functions are defined


def open_store(path: str, *, create: bool = False) -> "SqliteStore":
    """Open the campaign whose directory is `path`.

    Args:
        path: the directory, by convention `NAME.insitu`, which contains `campaign.db`.
        create: create the directory (mode 0700) and the file if they do not exist.

    Raises:
        CampaignError: no campaign there, written by a newer insitu, locked, damaged, not permitted.
    """
    return SqliteStore(path, open_database(path, create=create))


class SqliteStore(Catalogue):
    """The store in campaign.db; created by `open_store`."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        """Take over an open connection."""
        super().__init__(path, connection)
        self._checksums: dict[
            SeriesKey, bytes
        ] = {}  # of models that this store has read or written
        self._clusters: Sequence[Clusters] | None = None  # the same, of classes; None if unknown
        self._last_version = -1  # `changes()` after that
        self._intact_means: frozenset[str] = frozenset()  # class means that this store has read
        self._callpaths: CallPathCache = {}

    def add_run(self, run: RunRecord, table: RunTable) -> None:
        """See Store."""
        records.check_shapes(run, table)

        self._changed_runs.add(run.id)
        with self._writing() as connection:
            callpath_ids = self._callpath_ids(table.callpaths)
            metric_ids = [self._metric_id(metric) for metric in table.metrics]
            ordinal = self._put_run(
                (
                    *records.run_row(run),
                    table.size,
                    np.asarray(callpath_ids, dtype="<u4").tobytes(),
                    json.dumps(metric_ids),
                )
            )

            connection.execute("DELETE FROM vec WHERE run = ?", (ordinal,))
            for metric, metric_id in zip(table.metrics, metric_ids, strict=True):
                rows = _vector_rows(ordinal, callpath_ids, metric_id, table.values[metric.name])
                connection.executemany(
                    "INSERT INTO vec VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
                )
            connection.execute(
                "INSERT OR REPLACE INTO checksum VALUES (?, ?, ?)",
                (
                    ordinal,
                    self._record_checksum(run.id),
                    values_checksum(read_values(connection, self.path, run.id)),
                ),
            )
            for callpath, site in table.sites.items():
                name = f"{SITE}{records.callpath_text(callpath)}"
                self._put(name, json.dumps([*site, checksum_of([name, *site]).hex()]))

    def sites(self) -> dict[CallPath, tuple[str, int]]:
        """See Store."""
        with explain_errors(self.path):
            rows = self._connection.execute(
                "SELECT name, value FROM campaign WHERE name >= ? AND name < ?",
                (SITE, SITE[:-1] + chr(ord(SITE[-1]) + 1)),
            ).fetchall()

        sites = {}
        for name, value in rows:
            try:
                file, line, *checksum = json.loads(value)
            except DAMAGE:
                continue
            if checksum in ([], [checksum_of([name, file, line]).hex()]):
                sites[records.callpath_of(name.removeprefix(SITE))] = (str(file), int(line))

        return sites

    def set_parameters(self, run_id: str, parameters: Mapping[str, float]) -> None:
        """See Store."""
        with self._writing() as connection:
            self._run(run_id)
            repetition = self.next_repetition(parameters)
            connection.execute(
                "UPDATE run SET parameters = ?, repetition = ? WHERE id = ?",
                (records.parameters_text(parameters), repetition, run_id),
            )
            self._update_record_checksum(run_id)

    def add_findings(self, run_id: str, findings: Sequence[Finding], *, without: str = "") -> None:
        """See Store."""
        with self._writing() as connection:
            run = records.with_findings(self._run(run_id), findings, without)
            text = records.findings_text(run.findings)
            connection.execute("UPDATE run SET findings = ? WHERE id = ?", (text, run_id))
            self._update_record_checksum(run_id)

    def _run(self, run_id: str) -> RunRecord:
        """A run, as the present transaction sees it.

        Raises:
            CampaignError: there is no such run, or it is damaged.
        """
        for _, run in self._parse_runs(self._read_run_rows([run_id])).values():
            return run
        raise CampaignError(f"{self.path}: has no run '{run_id}'")

    def _update_record_checksum(self, run_id: str) -> None:
        self._changed_runs.add(run_id)
        self._connection.execute(
            "UPDATE checksum SET record = ? WHERE run = (SELECT ordinal FROM run WHERE id = ?)",
            (self._record_checksum(run_id), run_id),
        )

    def _record_checksum(self, run_id: str) -> bytes:
        row = self._connection.execute(f"SELECT {ROW_COLUMNS} FROM run WHERE id = ?", (run_id,))
        return checksum_of(row.fetchone())

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
        try:
            with self._reading() as connection:
                stored = read_intact_values(connection, self.path, run_id)
            return self._unpack_table(stored)
        except DAMAGE as error:
            raise self.damage_error(f"run '{run_id}'", error) from error

    def table_on_disk(self, run_id: str) -> RunTable:
        """See Store."""
        for table in self._tables_on_disk(run_id).values():
            return table
        raise CampaignError(f"{self.path}: has no run '{run_id}'")

    def tables_on_disk(self) -> dict[str, RunTable]:
        """See Store."""
        return self._tables_on_disk()

    def _tables_on_disk(self, run_id: str | None = None) -> dict[str, RunTable]:
        """The tables of all runs, or of one, by id."""
        tables = {}
        try:
            with self._reading() as connection:
                for header in read_headers(connection, self._callpaths, run_id):
                    tables[header.run_id] = self._stored_table(header)
        except DAMAGE as error:
            what = "the list of runs" if run_id is None else f"run '{run_id}'"
            raise self.damage_error(what, error) from error
        return tables

    def _stored_table(self, header: RunHeader) -> RunTable:
        metrics = tuple(header.metrics.values())
        return RunTable(header.callpaths.parsed, metrics, StoredValues(self.path, header))

    def contents(self) -> dict[str, str]:
        """See Store."""
        with self._reading() as connection:
            checksums = read_checksums(connection)
        return {
            run_id: checksum.hex() if checksum else "" for run_id, checksum in checksums.items()
        }

    def table_bytes(self, run_id: str) -> int:
        """See Store."""
        with explain_errors(self.path):
            row = self._connection.execute(
                "SELECT 2 * length(callpaths) * size * json_array_length(metrics) FROM run"
                " WHERE id = ?",  # a call path has 4 bytes there, a value 8
                (run_id,),
            ).fetchone()
        return int(row[0]) if row else 0

    def _unpack_table(self, stored: StoredTable) -> RunTable:
        header = stored.header
        shape = (len(header.callpaths.ids), header.size)
        values = {metric.name: np.full(shape, np.nan) for metric in header.metrics.values()}
        row_of = {callpath_id: row for row, callpath_id in enumerate(header.callpaths.ids)}
        unpacked: dict[tuple[str, str, bytes], FloatArray] = {}  # most counts are those of others
        for callpath_id, metric_id, dtype, codec, blob in stored.rows:
            row = values[header.metrics[metric_id].name][row_of[callpath_id]]
            equal = unpacked.setdefault((dtype, codec, blob), row)
            if equal is row:
                row[:] = unpack(self.path, blob, header.size, dtype=dtype, codec=codec)
            else:
                row[:] = equal
        return RunTable(header.callpaths.parsed, tuple(header.metrics.values()), values)

    def put_models(
        self,
        models: ModelSet,
        *,
        of: Collection[str] | None = None,
        class_means: ClassMeans | None = None,
    ) -> None:
        """See Store. What is stored already is not written again."""
        if self._last_version != self.changes():  # nothing known yet, or another process wrote
            self._checksums, self._clusters = {}, None
        every_model = [*models.models, *models.supplements]
        keys = {series.key for series in every_model}
        modelled = sorted(records.complete_ids(self.runs()) if of is None else of)

        with self._writing() as connection:
            if not self._checksums:
                connection.execute("DELETE FROM model")
            model_tables.delete_models(connection, self._checksums.keys() - keys)
            checksums = model_tables.write_models(connection, every_model, self._checksums)
            if not _is_same(models.clusters, self._clusters):
                clusters = model_tables.group_clusters(models.clusters)
                self._put(CLASSIFIED_RUNS, model_tables.write_classes(connection, clusters))

            connection.execute("DELETE FROM finding")
            connection.executemany(
                "INSERT INTO finding VALUES (?, ?, ?)",
                ((finding.code, finding.text, finding.where) for finding in models.findings),
            )

            self._put("modelled parameters", json.dumps(models.parameters))
            self._put("modelled runs", json.dumps(modelled))
            rest = {records.callpath_text(path): share for path, share in models.rest.items()}
            self._put("modelled rest", json.dumps(rest))
            write_class_means(connection, class_means, self._intact_means)
            self._put(MODELLED_CHECKSUM, self.modelled_checksum().hex())

        self._checksums, self._last_version = checksums, self.changes()
        self._clusters = models.clusters
        self._intact_means = frozenset(class_means.means if class_means is not None else ())

    def models(self) -> ModelSet:
        """See Store. Models and clusters are sorted by series.

        Models and classes are derived from the runs: damaged ones count as absent, and a finding
        says how to fit them again.
        """
        self._checksums, self._clusters = {}, None
        if not self.are_models_intact():
            return ModelSet(findings=(self._damage_finding("the models are"),))

        version = self.changes()
        try:
            with self._reading() as connection:
                parameters = self._get("modelled parameters", "[]")
                rest = json.loads(self._get("modelled rest", "{}"))
                stored = model_tables.read_series(connection)
                clusters, n_damaged_clusters = model_tables.read_classes(
                    connection, self._get(CLASSIFIED_RUNS, "[]")
                )
                rows = connection.execute("SELECT * FROM finding ORDER BY rowid").fetchall()
        except CampaignError as error:
            if isinstance(error.__cause__, sqlite3.DatabaseError):
                return ModelSet(findings=(self._damage_finding("the models are"),))
            raise

        findings = tuple(Finding(*row) for row in rows)
        if stored.n_damaged or n_damaged_clusters:
            what = f"{stored.n_damaged} models and {n_damaged_clusters} classifications are"
            findings += (self._damage_finding(what),)
        else:
            self._checksums, self._clusters = stored.checksums, clusters
            self._last_version = version
        if stored.models:
            findings += self._find_unmodelled()

        return ModelSet(
            parameters=tuple(json.loads(parameters)),
            models=stored.models,
            supplements=stored.supplements,
            clusters=clusters,
            findings=findings,
            rest={records.callpath_of(path): share for path, share in rest.items()},
        )

    def class_means(self, models: ModelSet) -> ClassMeans:
        """See Store."""
        with self._reading() as connection:
            class_means = read_class_means(connection, models.clusters)
        self._intact_means = frozenset(class_means.means)
        return class_means

    def are_class_means_intact(self, models: ModelSet) -> bool:
        """Whether all stored class means can be used with the models from `models`."""
        with self._reading() as connection:
            return are_class_means_intact(connection, models.clusters)

    def _find_unmodelled(self) -> tuple[Finding, ...]:
        """A finding if the models lack runs: they took long to fit, or their aggregator ended."""
        keys = []
        with suppress(CampaignError):  # damaged runs are reported by who reads them
            unmodelled = set(self.unmodelled_runs())
            keys = [str(run.key) for run in self.runs() if run.id in unmodelled]
        if not keys:
            return ()
        text = (
            f"the models lack {list_some(keys, MAX_LISTED_RUNS)}, measured after they were fitted;"
            f" fit them again with `insitu refit {self.path}`"
        )
        return (Finding("models-outdated", text, ""),)

    def _damage_finding(self, what: str) -> Finding:
        text = f"{what} damaged and left out; fit them again with `insitu refit {self.path}`"
        return Finding("models-damaged", text, "")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction: durable at the end, or without any effect."""
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
        """Run several queries that see the same state of the file."""
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
        marks = ", ".join("?" for _ in names)
        (ordinal,) = self._connection.execute(
            f"INSERT INTO run ({columns}) VALUES ({marks})"
            f" ON CONFLICT (id) DO UPDATE SET {updates} RETURNING ordinal",
            row,
        ).fetchone()
        return int(ordinal)

    def _callpath_ids(self, callpaths: tuple[CallPath, ...]) -> list[int]:
        """The ids of call paths, which are inserted if necessary."""
        texts = [records.callpath_text(callpath) for callpath in callpaths]
        self._connection.executemany(
            "INSERT OR IGNORE INTO callpath (text) VALUES (?)", ((text,) for text in texts)
        )
        query = "SELECT id FROM callpath WHERE text = ?"
        return [int(self._connection.execute(query, (text,)).fetchone()[0]) for text in texts]

    def _metric_id(self, metric: Metric) -> int:
        """The id of a metric, which is inserted if necessary."""
        row = (metric.name, metric.unit, metric.kind.value)
        self._connection.execute(
            "INSERT OR IGNORE INTO metric (name, unit, kind) VALUES (?, ?, ?)", row
        )
        query = "SELECT id FROM metric WHERE name = ? AND unit = ? AND kind = ?"
        return int(self._connection.execute(query, row).fetchone()[0])

    def _put(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO campaign VALUES (?, ?)", (name, value))

    def _get(self, name: str, default: str) -> str:
        row = self._connection.execute(
            "SELECT value FROM campaign WHERE name = ?", (name,)
        ).fetchone()
        return default if row is None else str(row[0])


def _is_same(clusters: Sequence[Clusters], stored: Sequence[Clusters] | None) -> bool:
    """Whether these are the very objects that are stored."""
    if stored is None or len(clusters) != len(stored):
        return False
    return all(entry is before for entry, before in zip(clusters, stored, strict=True))


def _vector_rows(
    ordinal: int, callpath_ids: Sequence[int], metric_id: int, values: FloatArray
) -> Iterator[tuple[object, ...]]:
    """The rows of the table `vec` for one metric of a run; `values` is (call paths × ranks)."""
    for vector in vectors.pack_rows(values):
        row, n, *statistics_and_blob = vector
        yield (
            ordinal,
            callpath_ids[row],
            metric_id,
            n,
            vectors.DTYPE,
            vectors.CODEC,
            *statistics_and_blob,
        )
