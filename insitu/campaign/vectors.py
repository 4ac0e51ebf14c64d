"""Compress the values of all ranks of a call path, and the labels of ranks, into bytes."""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

DTYPE = "<f8"

# Bytes of equal significance are stored together before zlib compresses them. This takes about 7
# bytes for a time and 0.1 bytes for a count, where the values of ranks are similar.
CODEC = "shuffle-zlib"
LEVEL = 1


class Vector(NamedTuple):
    """A row of a table as it is stored: statistics over the ranks with a value, and all values."""

    row: int
    n: int  # ranks with a value
    min: float
    median: float
    mean: float
    max: float
    blob: bytes


def pack_rows(values: FloatArray) -> Iterator[Vector]:
    """Compress the rows that have at least one value.

    Args:
        values: shape (n_call_paths, n_ranks); NaN where a rank has no value, which is preserved.
    """
    counts = np.count_nonzero(~np.isnan(values), axis=1)
    rows = np.flatnonzero(counts)
    if not rows.size:
        return

    present = np.asarray(values[rows], dtype=DTYPE)
    statistics = zip(
        np.nanmin(present, axis=1).tolist(),
        np.nanmedian(present, axis=1).tolist(),
        np.nanmean(present, axis=1).tolist(),
        np.nanmax(present, axis=1).tolist(),
        strict=True,
    )
    for row, row_values, (low, median, mean, high) in zip(
        rows.tolist(), present, statistics, strict=True
    ):
        yield Vector(
            row=row,
            n=int(counts[row]),
            min=low,
            median=median,
            mean=mean,
            max=high,
            blob=_compress(row_values),
        )


def unpack_row(blob: bytes, size: int) -> FloatArray:
    """Decompress the values of one row, shape (size,).

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
    """Compress the labels of ranks, shape (n_ranks,)."""
    return zlib.compress(np.asarray(labels, dtype="<i4").tobytes(), LEVEL)


def unpack_labels(blob: bytes, max_labels: int) -> IntArray:
    """Decompress the labels of ranks.

    Raises:
        ValueError: the bytes are damaged, or hold more than `max_labels` labels.
    """
    try:
        raw = zlib.decompressobj().decompress(blob, 4 * max_labels + 1)
        if len(raw) > 4 * max_labels:
            raise ValueError(f"more than {max_labels} labels")
        return np.frombuffer(raw, dtype="<i4").astype(np.intp)
    except zlib.error as error:
        raise ValueError(f"not zlib: {error}") from error


def _compress(values: FloatArray) -> bytes:
    planes = values.view(np.uint8).reshape(-1, 8).T
    return zlib.compress(planes.tobytes(), LEVEL)
