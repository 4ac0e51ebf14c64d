"""The runs of a campaign without their values.

This module does not import numpy, because `insitu run` reads the catalogue at its start and must
not wait for that import.
"""

import json
import os
import sqlite3
import sys
from array import array
from typing import Self

from insitu.campaign import records
from insitu.campaign.database import connect, explain_errors, make_directory
from insitu.campaign.layout import DATABASE
from insitu.entities import CallPath, RunRecord
from insitu.errors import CampaignError


def open_database(path: str, *, create: bool = False) -> sqlite3.Connection:
    """Open the database of the campaign in directory `path`; see `open_store`.

    Raises:
        CampaignError: no campaign there, written by a newer insitu, locked, damaged, not permitted.
    """
    if not os.path.exists(os.path.join(path, DATABASE)):
        if not path:
            raise CampaignError("the name of the campaign is empty; name its directory")
        if not create:
            what = "is a file, not a campaign" if os.path.isfile(path) else "no campaign here"
            raise CampaignError(
                f"{path}: {what}; measure one with `insitu run --campaign {path} -- COMMAND`, or"
                f" fill one with `insitu import {path} FILE.jsonl`"
            )
        make_directory(path)

    return connect(path)


class Catalogue:
    """The runs of a campaign, without their values."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        """Read through an open connection, which the catalogue closes."""
        self.path = path
        self._connection = connection

    def runs(self) -> list[RunRecord]:
        """All runs, in the order in which they were first stored."""
        with explain_errors(self.path):
            rows = self._connection.execute(
                f"SELECT {records.RUN_COLUMNS} FROM run ORDER BY ordinal"
            ).fetchall()
        return [records.run_of(row) for row in rows]

    def callpaths(self, run_id: str) -> list[CallPath]:
        """The call paths of a run; empty if there is no such run."""
        with explain_errors(self.path):
            row = self._connection.execute(
                "SELECT callpaths FROM run WHERE id = ?", (run_id,)
            ).fetchone()

            ids = array("I", row[0] if row else b"")
            if sys.byteorder == "big":  # the file is little-endian
                ids.byteswap()

            texts = self._connection.execute(
                "SELECT text FROM callpath WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(ids.tolist()),),
            ).fetchall()
        return [records.callpath_of(text) for (text,) in texts]

    def unmodelled_runs(self) -> list[str]:
        """The ids of the complete runs that the models do not include."""
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


def open_catalogue(path: str, *, create: bool = False) -> Catalogue:
    """Open the catalogue of the campaign in directory `path`; see `open_store`.

    Raises:
        CampaignError: as `open_database`.
    """
    return Catalogue(path, open_database(path, create=create))
