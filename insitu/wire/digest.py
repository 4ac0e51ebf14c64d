"""The digest of a node's dictionary: equal digests mean equal call paths, row by row."""

import hashlib

from insitu.wire.messages import DIGEST_BYTES

EMPTY_DIGEST = bytes(DIGEST_BYTES)


def extend_digest(digest: bytes, parent: int, name: str, file: str, line: int) -> bytes:
    """The digest of a dictionary with one more row; it depends on all rows up to that one."""
    row = f"{parent} {line} {len(name)} {name}{file}".encode()
    return hashlib.blake2b(digest + row, digest_size=DIGEST_BYTES).digest()
