"""Sketches of ranks behind relays: made from totals, sent in messages, read for boards."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from insitu.entities import MetricKind
from insitu.errors import WireError
from insitu.modeling.classes.sketch import OFFSET, Sketch, cluster_sketch, merge, sketch
from insitu.modeling.measurement import FloatArray
from insitu.server.totals import MAX_VALUE, Register, Source, arrays_of
from insitu.wire.messages import (
    BUCKET_BYTES,
    MAX_FRAME_BYTES,
    MAX_ROWS,
    Buckets,
    Column,
    Sketches,
)

MAX_SKETCHES_BYTES = MAX_FRAME_BYTES // 2  # in one message; the rest is reserve for headers
DTYPES = {"rows": "<u4", "keys": "<i4", "counts": "<u4"}  # the others are <f8
MAX_KEY = 2 * OFFSET
HEAD_BYTES = 512  # estimated memory of a message without its arrays


@dataclass(slots=True)
class RelayView:
    """The newest sketch of each metric that a relay has sent, by the metric's name."""

    metrics: dict[str, Sketch] = field(default_factory=dict)
    ranks: int = 0
    ended: int = 0
    size_bytes: int = 0
    _reported_bytes: int = 0

    def update(self, message: Sketches, source: Source) -> bool:
        """Replace the sketches by those of a message; False if the dictionary lacks their rows.

        Raises:
            WireError: they do not fit the session, or are malformed.
        """
        new: dict[str, Sketch] = {}
        for buckets in message.metrics:
            if buckets.column >= len(source.columns):
                raise WireError(f"column {buckets.column} was not announced in Hello")
            name = source.columns[buckets.column].name
            read = _read_buckets(buckets, name)
            if read.rows.size and int(read.rows[-1]) >= len(source.dictionary):
                return False
            new[name] = read

        for name, read in new.items():
            self.metrics[name] = Sketch(
                rows=source.dictionary.path_ids[read.rows],
                keys=read.keys,
                counts=read.counts,
                sums=read.sums,
                lows=read.lows,
                highs=read.highs,
            )
        self.ranks, self.ended = message.ranks, message.ended

        buckets_held = sum(len(held.rows) for held in self.metrics.values())
        self.size_bytes = HEAD_BYTES + 8 * len(fields(Sketch)) * buckets_held
        return True

    def added_bytes(self) -> int:
        """The growth of its memory since the last call, in bytes."""
        growth = self.size_bytes - self._reported_bytes
        self._reported_bytes = self.size_bytes
        return growth


def memory_for(message: Sketches) -> int:
    """The memory that a message will need, at most, in bytes."""
    # In memory every field of a bucket takes 8 bytes.
    bytes_per_byte_of_rows = 8 * len(fields(Sketch)) // BUCKET_BYTES["rows"]
    return HEAD_BYTES + sum(bytes_per_byte_of_rows * len(each.rows) for each in message.metrics)


def _read_buckets(buckets: Buckets, name: str) -> Sketch:
    """The sketch in a message.

    Raises:
        WireError: buckets are out of order or empty, or numbers are out of range.
    """
    arrays = {
        column: np.frombuffer(getattr(buckets, column), DTYPES.get(column, "<f8"))
        for column in BUCKET_BYTES
    }
    rows, keys = arrays["rows"].astype(np.intp), arrays["keys"].astype(np.intp)
    lows, highs = arrays["lows"], arrays["highs"]

    row_steps = np.diff(rows)
    is_ascending = ((row_steps > 0) | ((row_steps == 0) & (np.diff(keys) > 0))).all()
    is_valid = (
        is_ascending
        and (np.abs(keys) <= MAX_KEY).all()
        and (arrays["counts"] > 0).all()
        and np.isfinite(arrays["sums"]).all()
        and (lows <= highs).all()  # False for NaN
        and (lows >= -MAX_VALUE).all()
        and (highs <= MAX_VALUE).all()
    )
    if not is_valid:
        raise WireError(f"the sketch of {name} has buckets out of order or numbers out of range")

    counts = arrays["counts"].astype(np.intp)
    return Sketch(rows, keys, counts, sums=arrays["sums"], lows=lows, highs=highs)


def sketches_of(registers: Mapping[int, Register], callpaths: int) -> dict[str, Sketch]:
    """Sketch the values of some ranks, by metric; the rows of a sketch are path ids of the run."""
    return {name: sketch(values) for name, values in arrays_of(registers, callpaths).items()}


def merge_sketches(groups: Iterable[Mapping[str, Sketch]]) -> dict[str, Sketch]:
    """Merge the sketches of several groups of ranks, by metric."""
    by_name: dict[str, list[Sketch]] = {}
    for group in groups:
        for name, group_sketch in group.items():
            by_name.setdefault(name, []).append(group_sketch)
    return {name: merge(of_all_groups) for name, of_all_groups in by_name.items()}


def messages_of(
    metrics: Mapping[str, Sketch],
    columns: Sequence[Column],
    *,
    seq: int,
    time_ns: int,
    ranks: int,
    ended: int,
) -> tuple[list[Sketches], list[str]]:
    """Write sketches into messages that fit into frames.

    Args:
        metrics: the sketches by metric.
        columns: the metrics as announced in Hello.
        seq: the sequence number of the first message.
        time_ns: the time of the messages, since 1970.
        ranks: how many ranks were sketched.
        ended: how many of them have ended.

    Returns:
        The messages, and the names of metrics whose sketch is too large for a message.
    """
    groups: list[list[Buckets]] = [[]]
    group_bytes = 0
    omitted = []

    for index, column in enumerate(columns):
        metric_sketch = metrics.get(column.name)
        if metric_sketch is None or not len(metric_sketch.rows):
            continue
        if column.kind == MetricKind.POSITION:
            continue

        buckets = _write_buckets(index, metric_sketch)
        size = sum(len(getattr(buckets, name)) for name in BUCKET_BYTES)
        if size > MAX_SKETCHES_BYTES:
            omitted.append(column.name)
            continue

        if groups[-1] and group_bytes + size > MAX_SKETCHES_BYTES:
            groups.append([])
            group_bytes = 0
        groups[-1].append(buckets)
        group_bytes += size

    messages = [
        Sketches(seq + i, time_ns, ranks, ended, metrics=tuple(group))
        for i, group in enumerate(groups)
    ]
    return messages, omitted


def _write_buckets(index: int, metric_sketch: Sketch) -> Buckets:
    # A node's dictionary has at most MAX_ROWS rows. Further call paths of the run are not sketched,
    # since sketches are only displayed.
    is_numbered = metric_sketch.rows < MAX_ROWS
    arrays = {}
    for name in BUCKET_BYTES:
        values = getattr(metric_sketch, name)[is_numbered]
        arrays[name] = np.ascontiguousarray(values, DTYPES.get(name, "<f8")).tobytes()
    return Buckets(index, **arrays)


def means_of(metric_sketch: Sketch, callpaths: int) -> FloatArray:
    """The mean over ranks of each call path, shape (callpaths,); 0 if no rank has a value."""
    sums = np.zeros(callpaths)
    np.add.at(sums, metric_sketch.rows, metric_sketch.sums)
    means: FloatArray = sums / np.maximum(ranks_of(metric_sketch, callpaths), 1.0)
    return means


def ranks_of(metric_sketch: Sketch, callpaths: int) -> FloatArray:
    """How many ranks have a value of each call path, shape (callpaths,)."""
    counts = np.zeros(callpaths)
    np.add.at(counts, metric_sketch.rows, metric_sketch.counts)
    return counts


def classes_of(metric_sketch: Sketch) -> dict[int, tuple[tuple[int, float], ...]]:
    """The clusters of call paths that have more than one: (ranks, mean) of each, ascending."""
    bounds = cluster_sketch(metric_sketch)
    clusters: dict[int, list[tuple[int, float]]] = {}
    for row, count, mean in zip(
        bounds.rows.tolist(), bounds.counts.tolist(), bounds.means.tolist(), strict=True
    ):
        clusters.setdefault(row, []).append((count, mean))
    return {row: tuple(of_row) for row, of_row in clusters.items() if len(of_row) > 1}
