"""Checksums of what campaign.db holds, so that a damaged value is reported and never used.

SQLite checks the structure of its file, not the values in it: a disk that flips one bit of a value
returns another value. This module does not import numpy, because `insitu run` reads the catalogue.
"""

import hashlib
from collections.abc import Iterable

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
TYPE_NAMES = {kind: kind.__name__.encode() for kind in (str, bytes, int, float, type(None))}


def checksum_of(values: Iterable[Value]) -> bytes:
    """The checksum of a row. Values of different types, or divided differently, differ."""
    pieces: list[bytes] = []
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode()
        name = TYPE_NAMES.get(type(value)) or type(value).__name__.encode()
        pieces.append(b"%b %d %b" % (name, len(data), data))
    return hashlib.blake2b(b"".join(pieces), digest_size=SIZE).digest()


def is_intact(values: Iterable[Value], checksum: bytes | None) -> bool:
    """Whether a row is as it was stored; rows of the first format have no checksum."""
    return checksum is None or checksum == checksum_of(values)
