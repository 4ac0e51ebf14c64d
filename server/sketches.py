"""Sketches of the ranks behind relays: made of totals, read from messages, seen as classes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from insitu.entities import MetricKind
from insitu.errors import WireError
from insitu.modeling.classes.sketch import (
    OFFSET,
    ClusterBounds,
    Sketch,
    cluster_sketch,
    merge,
    sketch,
)
from insitu.modeling.measurement import FloatArray
from insitu.server.totals import LARGEST, Register, Source, arrays_of
from insitu.wire.messages import (
    BUCKET_BYTES,
    MAX_FRAME_BYTES,
    MAX_ROWS,
    Buckets,
    Column,
    Sketches,
)

ROOM_BYTES = MAX_FRAME_BYTES // 2  # of a message; the rest is headers and head room
DTYPES = {"rows": "<u4", "keys": "<i4", "counts": "<u4"}  # the others are <f8
LARGEST_KEY = 2 * OFFSET
HEAD_BYTES = 512  # of a message in memory, about


@dataclass(slots=True)
class View:
    """What a relay has told of its ranks: the newest sketch of each metric, by its name."""

    metrics: dict[str, Sketch] = field(default_factory=dict)
    ranks: int = 0
    ended: int = 0
    size_bytes: int = 0
    _counted: int = 0  # of these bytes

    def take(self, message: Sketches, source: Source) -> bool:
        """Let the sketches of a message stand; False where the dictionary is too short for them.

        Raises:
            WireError: they do not fit the session, or are no sketches.
        """
        found = {}
        for buckets in message.metrics:
            if buckets.column >= len(source.columns):
                raise WireError(f"column {buckets.column} was not announced in Hello")
            name = source.columns[buckets.column].name
            found[name] = _read(buckets, name)
            rows = found[name].rows
            if rows.size and int(rows[-1]) >= len(source.dictionary):
                return False
        for name, one in found.items():
            places = source.dictionary.places[one.rows]
            self.metrics[name] = Sketch(places, one.keys, one.counts, one.sums, one.lows, one.highs)
        self.ranks, self.ended = message.ranks, message.ended
        self.size_bytes = HEAD_BYTES + 8 * sum(
            len(fields(Sketch)) * len(one.rows) for one in self.metrics.values()
        )
        return True

    def grown(self) -> int:
        """The bytes that it holds more than at the last call."""
        more = self.size_bytes - self._counted
        self._counted = self.size_bytes
        return more


def size_of(message: Sketches) -> int:
    """The memory that a message takes, at most."""
    widest = 8 * len(fields(Sketch)) // BUCKET_BYTES["rows"]
    return HEAD_BYTES + sum(widest * len(one.rows) for one in message.metrics)


def _read(buckets: Buckets, name: str) -> Sketch:
    """The sketch in a message.

    Raises:
        WireError: buckets out of order, empty ones, or numbers that cannot be.
    """
    arrays = {
        part: np.frombuffer(getattr(buckets, part), DTYPES.get(part, "<f8"))
        for part in BUCKET_BYTES
    }
    rows, keys = arrays["rows"].astype(np.intp), arrays["keys"].astype(np.intp)
    steps = np.diff(rows)
    is_ascending = ((steps > 0) | ((steps == 0) & (np.diff(keys) > 0))).all()
    lows, highs = arrays["lows"], arrays["highs"]
    is_sound = (
        is_ascending
        and (np.abs(keys) <= LARGEST_KEY).all()
        and (arrays["counts"] > 0).all()
        and np.isfinite(arrays["sums"]).all()
        and (lows <= highs).all()  # False for NaN
        and (lows >= -LARGEST).all()
        and (highs <= LARGEST).all()
    )
    if not is_sound:
        raise WireError(f"the sketch of {name} is none: buckets out of order or out of range")
    counts = arrays["counts"].astype(np.intp)
    return Sketch(rows, keys, counts, arrays["sums"], lows, highs)


def sketches_of(registers: Mapping[int, Register], callpaths: int) -> dict[str, Sketch]:
    """The values of some ranks by metric; rows are places of call paths of the run."""
    return {name: sketch(values) for name, values in arrays_of(registers, callpaths).items()}


def merged(parts: Iterable[Mapping[str, Sketch]]) -> dict[str, Sketch]:
    """The sketches of all parts together, by metric."""
    by_name: dict[str, list[Sketch]] = {}
    for part in parts:
        for name, one in part.items():
            by_name.setdefault(name, []).append(one)
    return {name: merge(found) for name, found in by_name.items()}


def messages_of(
    metrics: Mapping[str, Sketch],
    columns: Sequence[Column],
    *,
    seq: int,
    time_ns: int,
    ranks: int,
    ended: int,
) -> tuple[list[Sketches], list[str]]:
    """The sketches in messages that fit into frames, and the metrics too large for one.

    The seq of the first message is given; it ascends.
    """
    groups: list[list[Buckets]] = [[]]
    filled, omitted = 0, []
    for index, column in enumerate(columns):
        one = metrics.get(column.name)
        if one is None or not len(one.rows) or column.kind == MetricKind.POSITION:
            continue
        buckets = _written(index, one)
        size = sum(len(getattr(buckets, part)) for part in BUCKET_BYTES)
        if size > ROOM_BYTES:
            omitted.append(column.name)
            continue
        if groups[-1] and filled + size > ROOM_BYTES:
            groups.append([])
            filled = 0
        groups[-1].append(buckets)
        filled += size
    sent = [
        Sketches(seq + i, time_ns, ranks, ended, tuple(group)) for i, group in enumerate(groups)
    ]
    return sent, omitted


def _written(index: int, one: Sketch) -> Buckets:
    kept = one.rows < MAX_ROWS  # of a dictionary; a sketch is for people to look at
    arrays = {
        part: np.ascontiguousarray(getattr(one, part)[kept], DTYPES.get(part, "<f8")).tobytes()
        for part in BUCKET_BYTES
    }
    return Buckets(index, **arrays)


def means_of(one: Sketch, callpaths: int) -> FloatArray:
    """The mean over ranks of each call path; 0 where no rank has a value."""
    sums = np.zeros(callpaths)
    np.add.at(sums, one.rows, one.sums)
    means: FloatArray = sums / np.maximum(ranks_of(one, callpaths), 1.0)
    return means


def ranks_of(one: Sketch, callpaths: int) -> FloatArray:
    """How many ranks have a value of each call path."""
    counts = np.zeros(callpaths)
    np.add.at(counts, one.rows, one.counts)
    return counts


def classes_of(one: Sketch) -> dict[int, tuple[tuple[int, float], ...]]:
    """Ranks and mean of each cluster, ascending, of the call paths that have more than one."""
    found: ClusterBounds = cluster_sketch(one)
    classes: dict[int, list[tuple[int, float]]] = {}
    for row, count, mean in zip(
        found.rows.tolist(), found.counts.tolist(), found.means.tolist(), strict=True
    ):
        classes.setdefault(row, []).append((count, mean))
    return {row: tuple(parts) for row, parts in classes.items() if len(parts) > 1}
