"""Vectors of values as compressed bytes, and their statistics."""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

DTYPE = "<f8"
CODEC = "shuffle-zlib"  # bytes of equal significance side by side: 7 bytes a time, 0.1 a count
LEVEL = 1


class Vector(NamedTuple):
    """A row of a table as it is kept: statistics over the ranks that have a value, all values."""

    row: int
    n: int
    min: float
    median: float
    mean: float
    max: float
    blob: bytes


def packed(values: FloatArray) -> Iterator[Vector]:
    """Pack the rows (call paths × ranks) that have at least one value; NaN survives."""
    n = np.count_nonzero(~np.isnan(values), axis=1)
    rows = np.flatnonzero(n)
    if not rows.size:
        return
    present = np.asarray(values[rows], dtype=DTYPE)
    statistics = (
        np.nanmin(present, axis=1).tolist(),
        np.nanmedian(present, axis=1).tolist(),
        np.nanmean(present, axis=1).tolist(),
        np.nanmax(present, axis=1).tolist(),
    )
    for k, (row, low, median, mean, high) in enumerate(
        zip(rows.tolist(), *statistics, strict=True)
    ):
        yield Vector(row, int(n[row]), low, median, mean, high, _shuffled(present[k]))


def unpacked(blob: bytes, size: int) -> FloatArray:
    """The values of one row.

    Raises:
        ValueError: the bytes are damaged or hold another number of values.
    """
    try:
        raw = zlib.decompressobj().decompress(blob, 8 * size + 1)
    except zlib.error as error:
        raise ValueError(f"not zlib: {error}") from error
    if len(raw) != 8 * size:
        raise ValueError(f"{len(raw)} bytes for {size} values")
    planes = np.frombuffer(raw, dtype=np.uint8).reshape(8, size)
    return np.ascontiguousarray(planes.T).reshape(-1).view(DTYPE).astype(np.float64)


def pack_labels(labels: IntArray) -> bytes:
    """Labels of ranks as bytes."""
    return zlib.compress(np.asarray(labels, dtype="<i4").tobytes(), LEVEL)


def unpack_labels(blob: bytes, most: int) -> IntArray:
    """Labels of ranks from bytes.

    Raises:
        ValueError: the bytes are damaged, or hold more than so many.
    """
    try:
        raw = zlib.decompressobj().decompress(blob, 4 * most + 1)
        if len(raw) > 4 * most:
            raise ValueError(f"more than {most} labels")
        return np.frombuffer(raw, dtype="<i4").astype(np.intp)
    except zlib.error as error:
        raise ValueError(f"not zlib: {error}") from error


def _shuffled(values: FloatArray) -> bytes:
    planes = values.view(np.uint8).reshape(-1, 8).T
    return zlib.compress(planes.tobytes(), LEVEL)
