"""Values of a run that stay in campaign.db until rows of them are used.

A refit of a campaign that is larger than memory reads some call paths of all runs at a time.
Another process receives the location of the values, not the values, and reads those it works on.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from insitu.campaign import vectors
from insitu.campaign.catalogue import damage_error
from insitu.campaign.checksums import DAMAGE
from insitu.campaign.database import connect_to_read, explain_errors
from insitu.campaign.run_values import RunHeader, read_intact_values
from insitu.errors import CampaignError
from insitu.modeling.measurement import FloatArray, IntArray

OPEN_CAMPAIGNS = 4  # whose connections stay open while their values are read
CHECKED_RUNS = 1 << 16  # that are not checked again
_QUERY = "SELECT dtype, codec, blob FROM vec WHERE callpath = ? AND metric = ? AND run = ?"


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """The values of one metric of a run: (n_call_paths, n_ranks), read from the file when indexed.

    It behaves as an array where rows are selected; anything else reads all of it. path: directory
    of the campaign. run_id: of the run. run, metric, callpaths: ids in its database.
    """

    path: str
    run_id: str
    run: int
    metric: int
    callpaths: tuple[int, ...]
    n_ranks: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the whole array."""
        return len(self.callpaths), self.n_ranks

    @property
    def nbytes(self) -> int:
        """The bytes that the values would take in memory. None are used before rows are read."""
        return 8 * len(self.callpaths) * self.n_ranks

    def __len__(self) -> int:
        """The number of call paths."""
        return len(self.callpaths)

    def __getitem__(self, rows: Sequence[int] | IntArray) -> FloatArray:
        """Read rows, by their indices; NaN where nothing was measured.

        Raises:
            CampaignError: a row cannot be read, or is damaged.
        """
        values = np.full((len(rows), self.n_ranks), np.nan)
        path = os.path.abspath(self.path)
        connection = _open_connection(path, os.getpid())
        _check_values(path, os.getpid(), self.run_id)
        with explain_errors(self.path):
            for target, row in enumerate(rows):
                ids = (self.callpaths[row], self.metric, self.run)
                stored = connection.execute(_QUERY, ids).fetchone()
                if stored is not None:
                    dtype, codec, blob = stored
                    values[target] = unpack(self.path, blob, self.n_ranks, dtype=dtype, codec=codec)
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:  # Any: numpy's
        """Read everything."""
        return np.asarray(self[range(len(self.callpaths))], dtype=dtype)


@dataclass(frozen=True, slots=True)
class StoredValues(Mapping[str, FloatArray]):
    """The values of a run by metric, each a `StoredMatrix` that is made when it is asked for.

    A refit asks for those of few runs. path: directory of the campaign. header: of the run.
    """

    path: str
    header: RunHeader

    def __getitem__(self, metric: str) -> FloatArray:
        """The values of a metric."""
        for number, known in self.header.metrics.items():
            if known.name == metric:
                run_id, ordinal, size, callpaths, _ = self.header
                matrix = StoredMatrix(self.path, run_id, ordinal, number, callpaths.ids, size)
                return cast(FloatArray, matrix)  # an array where rows are selected
        raise KeyError(metric)

    def __iter__(self) -> Iterator[str]:
        """The names of the metrics."""
        return (metric.name for metric in self.header.metrics.values())

    def __len__(self) -> int:
        """The number of metrics."""
        return len(self.header.metrics)


def unpack(path: str, blob: bytes, size: int, *, dtype: str, codec: str) -> FloatArray:
    """Decompress the values of `size` ranks from the campaign in directory `path`.

    Raises:
        CampaignError: they are encoded as a newer insitu does, or damaged.
    """
    if (dtype, codec) != (vectors.DTYPE, vectors.CODEC):
        raise CampaignError(
            f"{path}: has values in an unknown encoding, {dtype} {codec}; update insitu"
        )
    try:
        return vectors.unpack_row(blob, size)
    except DAMAGE as error:
        raise CampaignError(f"{path}: values are damaged ({error})") from error


@lru_cache(maxsize=OPEN_CAMPAIGNS)
def _open_connection(path: str, pid: int) -> sqlite3.Connection:
    """A connection that only reads; a child process does not use that of its parent."""
    return connect_to_read(path)


@lru_cache(maxsize=CHECKED_RUNS)
def _check_values(path: str, pid: int, run_id: str) -> None:
    """Check all values of a run before the first of them is used in a process.

    Raises:
        CampaignError: they are damaged.
    """
    try:
        with explain_errors(path):
            read_intact_values(_open_connection(path, pid), path, run_id)
    except DAMAGE as error:
        raise damage_error(path, f"run '{run_id}'", error) from error


def release_connections() -> None:
    """Close the files from which values were read in this process."""
    _open_connection.cache_clear()
    _check_values.cache_clear()
