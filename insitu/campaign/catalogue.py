"""Which runs a campaign has, read without numpy: who starts a run does not wait for that."""

import json
import os
import sqlite3
import sys
from array import array
from typing import Self

from insitu.campaign import records, schema
from insitu.campaign.database import connect, explain_errors, make_directory
from insitu.entities import CallPath, RunRecord
from insitu.errors import CampaignError


def open_database(path: str, *, create: bool = False) -> sqlite3.Connection:
    """The file of the campaign whose directory is `path`; see `open_store`.

    Raises:
        CampaignError: no campaign there, written by a newer insitu, locked, damaged, not permitted.
    """
    if not os.path.exists(os.path.join(path, schema.FILE)):
        if not path:
            raise CampaignError("the name of the campaign is empty; name its directory")
        if not create:
            what = "is no campaign but a file" if os.path.isfile(path) else "no campaign here"
            raise CampaignError(
                f"{path}: {what}; measure one with `insitu run --campaign {path} -- COMMAND`, or"
                f" fill one with `insitu import {path} FILE.jsonl`"
            )
        make_directory(path)
    return connect(path)


class Catalogue:
    """The runs of a campaign, without their values."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        """Read through an open connection."""
        self.path = path
        self._connection = connection

    def runs(self) -> list[RunRecord]:
        """All runs in the order in which they were first sealed."""
        with explain_errors(self.path):
            rows = self._connection.execute(
                f"SELECT {records.RUN_COLUMNS} FROM run ORDER BY ordinal"
            ).fetchall()
        return [records.run_of(row) for row in rows]

    def callpaths(self, run_id: str) -> list[CallPath]:
        """The call paths of a run, none of one that is not there."""
        with explain_errors(self.path):
            found = self._connection.execute(
                "SELECT callpaths FROM run WHERE id = ?", (run_id,)
            ).fetchone()
            numbers = array("I", found[0] if found else b"")
            if sys.byteorder == "big":
                numbers.byteswap()
            texts = self._connection.execute(
                "SELECT text FROM callpath WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(numbers.tolist()),),
            ).fetchall()
        return [records.callpath_of(text) for (text,) in texts]

    def unmodelled(self) -> list[str]:
        """The ids of sealed runs that were not there yet when the models were made."""
        with explain_errors(self.path):
            found = self._connection.execute(
                "SELECT value FROM campaign WHERE name = 'modelled runs'"
            ).fetchone()
        modelled = frozenset(json.loads(found[0])) if found else frozenset()
        return [run for run in records.sealed(self.runs()) if run not in modelled]

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Close it at the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()


def open_catalogue(path: str, *, create: bool = False) -> Catalogue:
    """The runs of the campaign whose directory is `path`; made where `create` says so.

    Raises:
        CampaignError: as `open_database`.
    """
    return Catalogue(path, open_database(path, create=create))
