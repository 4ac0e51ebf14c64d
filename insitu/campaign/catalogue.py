"""The runs of a campaign without their values.

This module does not import numpy, because `insitu run` reads the catalogue at its start and must
not wait for that import.
"""

import json
import os
import sqlite3
import sys
from array import array
from collections.abc import Collection, Iterable
from typing import Any, Self

from insitu.campaign import records
from insitu.campaign.checksums import DAMAGE, Value, checksum_of, is_intact
from insitu.campaign.database import (
    connect,
    explain_errors,
    has_checksums,
    has_shared_classes,
    make_directory,
)
from insitu.campaign.layout import CAMPAIGN_FILE, DATABASE
from insitu.entities import CallPath, RunRecord
from insitu.errors import CampaignError

MODELLED = ("modelled parameters", "modelled runs", "modelled rest")  # names in `campaign`
MODELLED_CHECKSUM = "modelled checksum"
CLASSIFIED_RUNS = "modelled coordinates"  # JSON of the runs that the ids in `classified` stand for
ROW_COLUMNS = f"{records.RUN_COLUMNS}, size, callpaths, metrics"  # that a run's checksum covers


def open_database(path: str, *, create: bool = False) -> sqlite3.Connection:
    """Open the database of the campaign in directory `path`; see `open_store`.

    Raises:
        CampaignError: no campaign there, written by a newer insitu, locked, damaged, not permitted.
    """
    if not os.path.exists(os.path.join(path, DATABASE)):
        if not path:
            raise CampaignError("the name of the campaign is empty; name its directory")
        if not create:
            raise CampaignError(_describe_missing(path))
        make_directory(path)

    return connect(path)


def _describe_missing(path: str) -> str:
    """That there is no campaign, and how to get one."""
    is_file = os.path.isfile(path)
    what = "is a file, not a campaign" if is_file else "no campaign here"
    stem = os.path.splitext(path)[0] if is_file else path
    campaign = f"{stem}.insitu"
    if os.path.exists(os.path.join(path, CAMPAIGN_FILE)):
        return f"{path}: no run yet; `insitu campaign run {path}` makes those of {CAMPAIGN_FILE}"
    files = [os.path.join(campaign, name) for name in (DATABASE, CAMPAIGN_FILE)]
    if any(map(os.path.exists, files)):
        return f"{path}: {what}; did you mean {campaign}?"
    folder = os.path.dirname(os.path.abspath(path))
    if is_file and os.path.exists(os.path.join(folder, DATABASE)):
        return f"{path}: {what}; the campaign is its directory, {os.path.dirname(path) or '.'}"
    if is_file:
        return (
            f"{path}: {what}; import what another tool measured: `insitu import {campaign} {path}`"
        )
    return (
        f"{path}: {what}; measure one with `insitu run --campaign {path} -- COMMAND`,"
        f" fill one with `insitu import {path} FILE.jsonl`, or collect what ranks without an"
        f" aggregator left: `insitu ingest {path}`"
    )


class Catalogue:
    """The runs of a campaign, without their values."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        """Read through an open connection, which the catalogue closes."""
        self.path = path
        self._connection = connection
        # Runs with their checksums by ordinal, as they were read last.
        self._runs: dict[int, tuple[bytes | None, RunRecord]] = {}
        self._runs_version = -1  # `changes()` then
        self._changed_runs: set[str] = set()  # ids of runs that this process has written since

    def runs(self) -> list[RunRecord]:
        """All runs, in the order in which they were first stored.

        Raises:
            CampaignError: the file cannot be read, or a run is damaged or missing.
        """
        version = self.changes()
        if self._connection.in_transaction:  # its changes may be undone
            return [run for _, run in self._read_runs().values()]

        if version != self._runs_version:
            self._runs = self._read_runs()
        elif self._changed_runs:
            self._runs.update(self._parse_runs(self._read_run_rows(self._changed_runs)))
        self._runs_version = version
        self._changed_runs.clear()
        return [run for _, run in self._runs.values()]

    def changes(self) -> int:
        """A number that changes when another process has written to the campaign."""
        with explain_errors(self.path):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    def _read_runs(self) -> dict[int, tuple[bytes | None, RunRecord]]:
        """All runs with their checksums by ordinal, in this order."""
        with explain_errors(self.path):
            rows = self._read_run_rows()
            n_checksums = self._count("checksum") if has_checksums(self._connection) else 0
        if n_checksums > sum(row[-1] is not None for row in rows):
            raise self.damage_error("the list of runs", ValueError("runs are missing"))
        return self._parse_runs(rows)

    def _parse_runs(
        self, rows: Iterable[tuple[Any, ...]]
    ) -> dict[int, tuple[bytes | None, RunRecord]]:
        """The runs of rows by ordinal; a run that has not changed is the same object as before."""
        runs = {}
        for ordinal, *row, checksum in rows:
            try:
                if not is_intact(row, checksum):
                    raise ValueError("its checksum differs")
                before, run = self._runs.get(ordinal, (None, None))
                if run is None or checksum is None or checksum != before:
                    run = records.run_of(tuple(row[:10]))
            except DAMAGE as error:
                raise self.damage_error(f"run '{row[0]}'", error) from error
            runs[ordinal] = (checksum, run)
        return runs

    def _read_run_rows(self, ids: Collection[str] | None = None) -> list[tuple[Any, ...]]:
        """Of all runs, or those with these ids: ordinal, what its checksum covers, checksum."""
        condition = ""
        values: tuple[str, ...] = ()
        if ids is not None:
            condition = " WHERE id IN (SELECT value FROM json_each(?))"
            values = (json.dumps(list(ids)),)
        checksum, join = "NULL", ""
        if has_checksums(self._connection):
            checksum = "checksum.record"
            join = " LEFT JOIN checksum ON checksum.run = run.ordinal"
        with explain_errors(self.path):
            return self._connection.execute(
                f"SELECT ordinal, {ROW_COLUMNS}, {checksum} FROM run{join}{condition}"
                " ORDER BY ordinal",
                values,
            ).fetchall()

    def _count(self, table: str) -> int:
        (count,) = self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    def damage_error(self, what: str, error: Exception) -> CampaignError:
        """See `damage_error`."""
        return damage_error(self.path, what, error)

    def structure_problems(self) -> list[str]:
        """What SQLite reports about the structure of the file; empty if it is intact."""
        try:
            rows = self._connection.execute("PRAGMA quick_check(10)").fetchall()
        except sqlite3.DatabaseError as error:
            return [str(error)]
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def modelled_checksum(self) -> bytes:
        """The checksum of everything about models that has no checksum of its own."""
        names, tables = list(MODELLED), ["model", "cluster"]
        if has_shared_classes(self._connection):
            names += [CLASSIFIED_RUNS]
            tables += ["classification", "classified"]

        values: list[Value] = []
        for name in names:
            row = self._connection.execute(
                "SELECT value FROM campaign WHERE name = ?", (name,)
            ).fetchone()
            values.append(row[0] if row else None)
        for row in self._connection.execute("SELECT * FROM finding ORDER BY rowid"):
            values += row
        return checksum_of([*values, *map(self._count, tables)])

    def are_models_intact(self) -> bool:
        """Whether no model, class or finding of modeling is missing, and no finding is damaged."""
        try:
            row = self._connection.execute(
                "SELECT value FROM campaign WHERE name = ?", (MODELLED_CHECKSUM,)
            ).fetchone()
            return row is None or row[0] == self.modelled_checksum().hex()
        except sqlite3.DatabaseError:
            return False

    def callpaths(self, run_id: str) -> list[CallPath]:
        """The call paths of a run; empty if there is no such run."""
        with explain_errors(self.path):
            row = self._connection.execute(
                "SELECT callpaths FROM run WHERE id = ?", (run_id,)
            ).fetchone()

            try:
                ids = array("I", row[0] if row else b"")
            except ValueError as error:
                raise self.damage_error(f"run '{run_id}'", error) from error
            if sys.byteorder == "big":  # the file is little-endian
                ids.byteswap()

            texts = self._connection.execute(
                "SELECT text FROM callpath WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(ids.tolist()),),
            ).fetchall()
        return [records.callpath_of(text) for (text,) in texts]

    def metric_names(self) -> list[str]:
        """The names of all metrics, in the order in which they were first stored."""
        with explain_errors(self.path):
            rows = self._connection.execute("SELECT name FROM metric ORDER BY id").fetchall()
        return [str(name) for (name,) in rows]

    def unmodelled_runs(self) -> list[str]:
        """The ids of the complete runs that the models do not include; all if they are damaged."""
        if not self.are_models_intact():
            return records.complete_ids(self.runs())
        with explain_errors(self.path):
            row = self._connection.execute(
                "SELECT value FROM campaign WHERE name = 'modelled runs'"
            ).fetchone()
        modelled = frozenset(json.loads(row[0])) if row else frozenset()
        return [run_id for run_id in records.complete_ids(self.runs()) if run_id not in modelled]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Return the catalogue itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()


def damage_error(path: str, what: str, error: Exception) -> CampaignError:
    """The error for damaged data, with what to do about it."""
    return CampaignError(
        f"{path}: {what} is damaged ({error}); restore campaign.db from a backup."
        f" `insitu doctor {path}` shows what is intact"
    )


def open_catalogue(path: str, *, create: bool = False) -> Catalogue:
    """Open the catalogue of the campaign in directory `path`; see `open_store`.

    Raises:
        CampaignError: as `open_database`.
    """
    return Catalogue(path, open_database(path, create=create))
