"""Message ⇄ bytes: one msgpack array behind the magic, refused where anything is malformed.

The reader walks the fields of the dataclasses of `insitu.wire.messages`, asking msgpack for exactly
what stands there, so that nothing is built that the protocol does not expect: a header that claims
a million nested arrays costs nothing. Array columns stay bytes; whether their ids and numbers make
sense is for the aggregator to see.
"""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from typing import Any, Protocol, cast

import msgpack

from insitu.errors import WireError
from insitu.wire import messages
from insitu.wire.messages import (
    BUCKET_BYTES,
    DIGEST_BYTES,
    KINDS,
    LONGEST,
    MAGIC,
    MAX_FRAME_BYTES,
    MAX_METRICS,
    MAX_NAME_BYTES,
    MAX_RANKS,
    MAX_ROWS,
    Buckets,
    Column,
    Digest,
    Group,
    Hello,
    Message,
    Paths,
    Sketches,
)

NUMBERS: dict[type, int] = {kind: number for number, kind in KINDS.items()}
_PLAIN = frozenset((str, bytes, int, float, bool))
_INTEGERS = range(-(1 << 63), 1 << 63)
_DTYPES = ("u8", "f8")
_KINDS = ("total", "level", "place")
_HEX = frozenset("0123456789abcdef")


class _Unpacker(Protocol):
    """The part of msgpack's Unpacker that is used here; the package has no types."""

    def read_array_header(self) -> int: ...

    def unpack(self) -> object: ...


_Reader = Callable[[_Unpacker], object]


def encode(message: Message) -> bytes:
    """The frame of a message.

    Raises:
        WireError: the message is larger than a frame may be or holds what cannot be written.
    """
    number = NUMBERS.get(type(message))
    if number is None:
        raise WireError(f"{type(message).__name__} is no message of the protocol")
    try:
        frame: bytes = MAGIC + msgpack.packb([number, *_plain(message)], use_bin_type=True)
    except (ValueError, OverflowError, TypeError) as error:
        raise WireError(f"{type(message).__name__} cannot be written: {error}") from error
    if len(frame) > MAX_FRAME_BYTES:
        raise WireError(
            f"{type(message).__name__} of {len(frame)} bytes is larger than a frame of "
            f"{MAX_FRAME_BYTES}; send it in parts"
        )
    return frame


def decode(frame: bytes) -> Message:
    """The message in a frame.

    Raises:
        WireError: for every frame that is not exactly one well-formed message within its limits.
    """
    if len(frame) > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {len(frame)} bytes; the limit is {MAX_FRAME_BYTES}")
    if frame[: len(MAGIC)] != MAGIC:
        raise WireError("a frame that does not begin with the magic of insitu")
    unpacker = msgpack.Unpacker(
        max_buffer_size=MAX_FRAME_BYTES,
        read_size=64,
        raw=False,
        max_array_len=0,  # arrays are entered by their header, where one is expected
        max_map_len=0,
        max_ext_len=0,
    )
    unpacker.feed(memoryview(frame)[len(MAGIC) :])
    try:
        message = _read_message(unpacker)
    except (msgpack.exceptions.UnpackException, ValueError) as error:
        raise WireError(f"a frame that is no message: {error or 'truncated'}") from error
    if unpacker.tell() != len(frame) - len(MAGIC):
        raise WireError("a frame with bytes behind its message")
    return message


def _plain(value: object) -> list[object]:
    """The fields of a dataclass as nested lists; fields are never left out."""
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
        raise WireError(f"a message of the unknown kind {number!r:.40}")
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
    """The readers of a dataclass, the number of fields that must be there, and its own check."""
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
    longest = LONGEST.get(where, MAX_NAME_BYTES)

    def read(unpacker: _Unpacker) -> object:
        value = unpacker.unpack()
        if type(value) is not kind:
            raise WireError(f"{where} is {type(value).__name__}, not {kind.__name__}")
        if isinstance(value, bytes | str):
            if len(value if isinstance(value, bytes) else value.encode()) > longest:
                raise WireError(f"{where} is longer than {longest} bytes")
        elif isinstance(value, int) and value not in _INTEGERS:
            raise WireError(f"{where} is out of range")
        elif isinstance(value, float) and not math.isfinite(value):
            raise WireError(f"{where} is not finite")
        return value

    return read


def _tuple_reader(items: tuple[object, ...], where: str) -> _Reader:
    if items[-1] is Ellipsis:
        read_item = _reader(items[0], f"{where}[]")
        longest = LONGEST[where]

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
    if len(hello.run) != 32 or not _HEX.issuperset(hello.run):
        raise WireError("Hello.run is not 32 hexadecimal digits")
    if not 0 < hello.size <= MAX_RANKS:
        raise WireError(f"Hello.size is {hello.size}, not 1 to {MAX_RANKS}")
    if any(not 0 <= rank < hello.size for rank in hello.ranks):
        raise WireError("Hello.ranks names a rank that the run does not have")
    if len({column.name for column in hello.columns}) != len(hello.columns):
        raise WireError("Hello.columns names a metric twice")
    if hello.incarnation < 0 or hello.started_ns < 0:
        raise WireError("Hello has a time before 1970")


def _check_column(column: Column) -> None:
    if column.dtype not in _DTYPES or column.kind not in _KINDS or not column.name:
        raise WireError(
            f"a column needs a name, one of {_DTYPES} and one of {_KINDS}; this has "
            f"{column.name!r:.40}, {column.dtype!r:.40}, {column.kind!r:.40}"
        )


def _check_paths(paths: Paths) -> None:
    count = len(paths.names)
    if not 0 <= paths.first <= MAX_ROWS - count:
        raise WireError(f"Paths leaves the {MAX_ROWS} rows that a node may have")
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
        raise WireError("Group.columns names a column that cannot be")
    if any(len(matrix) != 8 * size * rows for matrix in group.matrices):
        raise WireError(f"Group has a matrix that is not {size} ranks × {rows} rows")


def _check_buckets(buckets: Buckets) -> None:
    if not 0 <= buckets.column < MAX_METRICS:
        raise WireError("Buckets.column names a column that cannot be")
    count = len(buckets.rows) // BUCKET_BYTES["rows"]
    if any(len(getattr(buckets, name)) != count * size for name, size in BUCKET_BYTES.items()):
        raise WireError("Buckets has columns of different lengths")


def _check_sketches(sketches: Sketches) -> None:
    if not 0 <= sketches.ended <= sketches.ranks <= MAX_RANKS:
        raise WireError(f"Sketches of {sketches.ranks} ranks, of which {sketches.ended} have ended")
    if len({one.column for one in sketches.metrics}) != len(sketches.metrics):
        raise WireError("Sketches has a metric twice")


_CHECKS: dict[type, Callable[[Any], None]] = {  # Any: each takes its own class
    Hello: _check_hello,
    Column: _check_column,
    Paths: _check_paths,
    Digest: _check_digest,
    Group: _check_group,
    Buckets: _check_buckets,
    Sketches: _check_sketches,
}
