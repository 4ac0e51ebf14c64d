"""Table files without their empty places: small enough to keep, read like any other."""

from insitu.collectors import table


def compact(data: bytes) -> bytes:
    """The same table with room for what it holds only."""
    head = dict(zip(table.FIELDS, table.HEADER.unpack_from(data), strict=True))
    parts, at = [], 4096
    for place, size in (
        ("meta_at", head["meta_used"]),
        ("rows_at", head["rows_used"] * head["row_bytes"]),
        ("names_at", head["names_used"]),
        ("threads_at", head["threads_used"] * head["thread_bytes"]),
    ):
        content = data[head[place] : head[place] + size]
        head[place] = at
        padded = content.ljust((len(content) + 63) // 64 * 64, b"\0")
        parts.append(padded)
        at += len(padded)
    head["row_capacity"], head["thread_capacity"] = head["rows_used"], head["threads_used"]
    first = bytearray(data[:4096])
    table.HEADER.pack_into(first, 0, *head.values())
    return bytes(first) + b"".join(parts)
