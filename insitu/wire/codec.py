"""Encode messages as bytes and decode them; malformed frames are refused.

The decoder walks the fields of the dataclasses in `insitu.wire.messages` and asks msgpack for
exactly the values that belong there. It never builds anything that the protocol does not expect: a
header that claims a million nested arrays costs nothing. Array columns stay bytes; the aggregator
checks the ids and numbers in them.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any, Protocol, cast

import msgpack

from insitu.errors import WireError
from insitu.wire import messages
from insitu.wire.limits import MAX_NAME_BYTES
from insitu.wire.messages import (
    BUCKET_BYTES,
    COLLECTIVES_BYTES,
    DIGEST_BYTES,
    INTERVALS_BYTES,
    KINDS,
    MAGIC,
    MAX_FRAME_BYTES,
    MAX_LENGTHS,
    MAX_METRICS,
    MAX_RANKS,
    MAX_ROWS,
    MESSAGES_BYTES,
    PROFILE_BYTES,
    STARTED_BYTES,
    TRIP_BYTES,
    Buckets,
    Collectives,
    Column,
    Digest,
    Group,
    Hello,
    Intervals,
    Message,
    Paths,
    PointToPoint,
    Sketches,
)

NUMBERS: dict[type, int] = {kind: number for number, kind in KINDS.items()}
_PLAIN = frozenset((str, bytes, int, bool))
_INTEGERS = range(-(1 << 63), 1 << 63)
_DTYPES = ("u8", "f8")
_KINDS = ("total", "level", "place")
_HEX_DIGITS = frozenset("0123456789abcdef")


class _Unpacker(Protocol):
    """The methods of msgpack's Unpacker that are used here; the package has no types."""

    def read_array_header(self) -> int: ...

    def unpack(self) -> object: ...


_Reader = Callable[[_Unpacker], object]


def encode(message: Message) -> bytes:
    """Encode a message as a frame.

    Raises:
        WireError: the message is larger than a frame, or has a value that cannot be encoded.
    """
    number = NUMBERS.get(type(message))
    if number is None:
        raise WireError(f"{type(message).__name__} is not a message of the protocol")
    try:
        frame: bytes = MAGIC + msgpack.packb([number, *_plain(message)], use_bin_type=True)
    except (ValueError, OverflowError, TypeError) as error:
        raise WireError(f"{type(message).__name__} cannot be encoded: {error}") from error
    if len(frame) > MAX_FRAME_BYTES:
        raise WireError(
            f"{type(message).__name__} has {len(frame)} bytes, more than the {MAX_FRAME_BYTES} of a"
            " frame; split it"
        )
    return frame


def decode(frame: bytes) -> Message:
    """Decode a frame.

    Raises:
        WireError: the frame is not exactly one well-formed message within its limits.
    """
    if len(frame) > MAX_FRAME_BYTES:
        raise WireError(f"a frame has {len(frame)} bytes; the limit is {MAX_FRAME_BYTES}")
    if frame[: len(MAGIC)] != MAGIC:
        raise WireError("a frame does not begin with the magic of insitu")
    unpacker = msgpack.Unpacker(
        max_buffer_size=MAX_FRAME_BYTES,
        read_size=64,
        raw=False,
        max_array_len=0,  # arrays are read by read_array_header, where one is expected
        max_map_len=0,
        max_ext_len=0,
    )
    unpacker.feed(memoryview(frame)[len(MAGIC) :])
    try:
        message = _read_message(unpacker)
    except (msgpack.exceptions.UnpackException, ValueError) as error:
        raise WireError(f"a frame is not a message: {error or 'truncated'}") from error
    if unpacker.tell() != len(frame) - len(MAGIC):
        raise WireError("a frame has bytes after its message")
    return message


def _plain(value: object) -> list[object]:
    """The fields of a dataclass as nested lists, without omitting any field."""
    kind: type = type(value)
    return [_plain_value(getattr(value, name)) for name in _names(kind)]


def _plain_value(value: object) -> object:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, tuple):
        return [item if type(item) in _PLAIN else _plain_value(item) for item in value]
    return _plain(value) if dataclasses.is_dataclass(kind) else value


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _read_message(unpacker: _Unpacker) -> Message:
    arity = unpacker.read_array_header()
    number = unpacker.unpack() if arity else None
    kind = KINDS.get(number) if type(number) is int else None
    if kind is None:
        raise WireError(f"a message has the unknown kind {number!r:.40}")
    return cast(Message, _read_fields(unpacker, kind, arity - 1))


def _read_fields(unpacker: _Unpacker, kind: type, arity: int) -> object:
    readers, required, check = _plan(kind)
    if not required <= arity <= len(readers):
        raise WireError(f"{kind.__name__} has {len(readers)} fields, not {arity}")
    message: object = kind(*[read(unpacker) for read in readers[:arity]])
    if check is not None:
        check(message)
    return message


@functools.cache
def _plan(kind: type) -> tuple[list[_Reader], int, Callable[[Any], None] | None]:
    """The readers of a dataclass's fields, the number of required fields, and its check."""
    hints = typing.get_type_hints(kind, vars(messages))
    fields = dataclasses.fields(kind)
    readers = [_reader(hints[field.name], f"{kind.__name__}.{field.name}") for field in fields]
    required = sum(field.default is dataclasses.MISSING for field in fields)
    return readers, required, _CHECKS.get(kind)


def _reader(hint: object, where: str) -> _Reader:
    if isinstance(hint, types.GenericAlias):
        return _tuple_reader(typing.get_args(hint), where)
    kind = cast(type, hint)
    if dataclasses.is_dataclass(kind):
        return lambda unpacker: _read_fields(unpacker, kind, unpacker.read_array_header())

    return _scalar_reader(kind, where)


def _scalar_reader(kind: type, where: str) -> _Reader:
    longest = MAX_LENGTHS.get(where, MAX_NAME_BYTES)

    def read(unpacker: _Unpacker) -> object:
        value = unpacker.unpack()
        if type(value) is not kind:
            raise WireError(f"{where} is {type(value).__name__}, not {kind.__name__}")
        if isinstance(value, bytes | str):
            if len(value if isinstance(value, bytes) else value.encode()) > longest:
                raise WireError(f"{where} is longer than {longest} bytes")
        elif isinstance(value, int) and value not in _INTEGERS:
            raise WireError(f"{where} is out of range")
        return value

    return read


def _tuple_reader(items: tuple[object, ...], where: str) -> _Reader:
    if items[-1] is Ellipsis:
        read_item = _reader(items[0], f"{where}[]")
        longest = MAX_LENGTHS[where]

        def read(unpacker: _Unpacker) -> object:
            count = unpacker.read_array_header()
            if count > longest:
                raise WireError(f"{where} has {count} elements; the limit is {longest}")
            return tuple([read_item(unpacker) for _ in range(count)])

        return read

    readers = [_reader(item, f"{where}[]") for item in items]

    def read_exactly(unpacker: _Unpacker) -> object:
        count = unpacker.read_array_header()
        if count != len(readers):
            raise WireError(f"{where} has {count} elements, not {len(readers)}")
        return tuple([read_item(unpacker) for read_item in readers])

    return read_exactly


def _check_hello(hello: Hello) -> None:
    if len(hello.run) != 32 or not _HEX_DIGITS.issuperset(hello.run):
        raise WireError("Hello.run is not 32 hexadecimal digits")
    if not 0 < hello.size <= MAX_RANKS:
        raise WireError(f"Hello.size is {hello.size}, not 1 to {MAX_RANKS}")
    if any(not 0 <= rank < hello.size for rank in hello.ranks):
        raise WireError("Hello.ranks has a rank that the run does not have")
    if len({column.name for column in hello.columns}) != len(hello.columns):
        raise WireError("Hello.columns has a metric twice")
    if hello.incarnation < 0 or hello.started_ns < 0:
        raise WireError("Hello has a time before 1970")


def _check_column(column: Column) -> None:
    if column.dtype not in _DTYPES or column.kind not in _KINDS or not column.name:
        raise WireError(
            f"a column needs a name, a dtype of {_DTYPES} and a kind of {_KINDS}; this one has "
            f"{column.name!r:.40}, {column.dtype!r:.40} and {column.kind!r:.40}"
        )


def _check_paths(paths: Paths) -> None:
    count = len(paths.names)
    if not 0 <= paths.first <= MAX_ROWS - count:
        raise WireError(f"Paths exceeds the {MAX_ROWS} rows that a node may have")
    if len(paths.files) != count or not len(paths.parents) == len(paths.lines) == 4 * count:
        raise WireError("Paths has columns of different lengths")


def _check_digest(digest: Digest) -> None:
    if not 0 < digest.rows <= MAX_ROWS or len(digest.digest) != DIGEST_BYTES:
        raise WireError(f"Digest needs 1 to {MAX_ROWS} rows and {DIGEST_BYTES} bytes")


def _check_group(group: Group) -> None:
    size, rows = len(group.ranks) // 4, len(group.rows) // 4
    if len(group.ranks) % 4 or len(group.rows) % 4 or len(group.tick_s) != 8 * size:
        raise WireError("Group has columns of different lengths")
    if len(group.columns) != len(group.matrices) or len(set(group.columns)) != len(group.columns):
        raise WireError("Group needs one matrix for each column")
    if any(not 0 <= column < MAX_METRICS for column in group.columns):
        raise WireError("Group.columns has a column out of range")
    if any(len(matrix) != 8 * size * rows for matrix in group.matrices):
        raise WireError(f"Group has a matrix whose size is not {size} ranks × {rows} rows")


def _check_buckets(buckets: Buckets) -> None:
    if not 0 <= buckets.column < MAX_METRICS:
        raise WireError("Buckets.column is out of range")
    count = len(buckets.rows) // BUCKET_BYTES["rows"]
    if any(len(getattr(buckets, name)) != count * size for name, size in BUCKET_BYTES.items()):
        raise WireError("Buckets has columns of different lengths")


def _check_collectives(collectives: Collectives) -> None:
    count = len(collectives.keys) // COLLECTIVES_BYTES["keys"]
    for name, size in COLLECTIVES_BYTES.items():
        if len(getattr(collectives, name)) != count * size:
            raise WireError("Collectives has columns of different lengths")
    for name, size in STARTED_BYTES.items():
        if len(getattr(collectives, name)) not in (0, count * size):
            raise WireError("Collectives has columns of different lengths")
    if len(collectives.trips) % TRIP_BYTES:
        raise WireError("Collectives.trips has an incomplete round trip")


def _check_messages(messages: PointToPoint) -> None:
    count = len(messages.keys) // MESSAGES_BYTES["keys"]
    for name, size in MESSAGES_BYTES.items():
        if len(getattr(messages, name)) != count * size:
            raise WireError("PointToPoint has columns of different lengths")


def _check_intervals(intervals: Intervals) -> None:
    count = len(intervals.keys) // INTERVALS_BYTES["keys"]
    for name, size in INTERVALS_BYTES.items():
        if len(getattr(intervals, name)) != count * size:
            raise WireError("Intervals has columns of different lengths")
    count = len(intervals.profile_rows) // PROFILE_BYTES["profile_rows"]
    for name, size in PROFILE_BYTES.items():
        if len(getattr(intervals, name)) != count * size:
            raise WireError("Intervals has profiles of different lengths")
    if len(intervals.mpi_rows) % 4:
        raise WireError("Intervals.mpi_rows has an incomplete row")
    if intervals.threshold_ns < 0:
        raise WireError("Intervals.threshold_ns is negative")


def _check_sketches(sketches: Sketches) -> None:
    if not 0 <= sketches.ended <= sketches.ranks <= MAX_RANKS:
        raise WireError(f"Sketches claims {sketches.ended} ended of {sketches.ranks} ranks")
    if len({buckets.column for buckets in sketches.metrics}) != len(sketches.metrics):
        raise WireError("Sketches has a metric twice")


_CHECKS: dict[type, Callable[[Any], None]] = {  # Any: each check takes its own class
    Hello: _check_hello,
    Column: _check_column,
    Paths: _check_paths,
    Digest: _check_digest,
    Group: _check_group,
    Buckets: _check_buckets,
    Collectives: _check_collectives,
    PointToPoint: _check_messages,
    Intervals: _check_intervals,
    Sketches: _check_sketches,
}
