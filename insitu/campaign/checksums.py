"""Checksums of what campaign.db holds, so that a damaged value is reported and never used.

SQLite checks the structure of its file, not the values in it: a disk that flips one bit of a value
returns another value. This module does not import numpy, because `insitu run` reads the catalogue.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

SIZE = 8  # bytes; 500 flipped bits go unnoticed with a probability of 3e-17

# What reading a row raises that was damaged before rows had checksums.
DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

Value = str | bytes | int | float | None
SHORT = 24  # characters: names of metrics, units and types, which many rows have in common


def checksum_of(values: Iterable[Value]) -> bytes:
    """The checksum of a row. Values of different types, or divided differently, differ."""
    pieces: list[bytes] = []
    for value in values:
        if type(value) is bytes:
            pieces.append(b"bytes %d %b" % (len(value), value))
        elif type(value) is str and len(value) <= SHORT:
            pieces.append(_describe_short(value))
        else:
            pieces.append(_describe(value))
    return hashlib.blake2b(b"".join(pieces), digest_size=SIZE).digest()


def _describe(value: Value) -> bytes:
    """A value with its type and length."""
    data = value if isinstance(value, bytes) else repr(value).encode()
    return b"%b %d %b" % (type(value).__name__.encode(), len(data), data)


_describe_short = lru_cache(maxsize=1024)(_describe)


def is_intact(values: Iterable[Value], checksum: bytes | None) -> bool:
    """Whether a row is as it was stored; rows of the first format have no checksum."""
    return checksum is None or checksum == checksum_of(values)
