"""Whether the native library writes tables that this insitu reads.

They differ after an update of a checkout whose library was not built again.
"""

import struct

from insitu.collectors import table, table_events, table_header

MARK = b"insitu layout\0\0\0"
LAYOUT = struct.Struct("<16s8I")  # `insitu_layout` in native/layout.c
RECORDS = (
    *(table_header.HEADER, table.NAME, table.FRAME, table.PHASE_HEAD, table.OPENED),
    *(table_events.COLLECTIVE, table_events.MESSAGE, table_events.INTERVAL),
)


def is_current(path: str) -> bool:
    """Whether the records of tables that this library writes have the sizes that insitu expects."""
    with open(path, "rb") as file:
        return LAYOUT.pack(MARK, *(record.size for record in RECORDS)) in file.read()
