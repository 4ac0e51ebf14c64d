"""Rewrite an executable as if it had been linked for smaller pages than those of the kernel."""

import re
import struct
import subprocess
from pathlib import Path

EH_FRAME, RELRO = 0x6474E550, 0x6474E552  # types of program headers
HEADER_BYTES = 56


def end_relro_inside_a_page(program: Path) -> None:
    """Turn the header of the exception frames, which C does not need, into that of a RELRO range.

    The range ends at the end of `.got`; `.data` follows in the same page. The program must be
    linked with `-z norelro`.
    """
    image = bytearray(program.read_bytes())
    words = ["readelf", "-SW", str(program)]
    listing = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    sections = {}
    for line in listing.splitlines():
        fields = re.match(r"\s*\[\s*\d+\]\s+(\S+)\s+\S+\s+(\w{16})\s+(\w+)\s+(\w+)", line)
        if fields:
            sections[fields[1]] = [int(fields[n], 16) for n in (2, 3, 4)]

    address, offset, _ = sections[".init_array"]
    end = sections[".got"][0] + sections[".got"][2]
    headers_at = struct.unpack_from("<Q", image, 32)[0]
    count = struct.unpack_from("<H", image, 56)[0]
    for at in range(headers_at, headers_at + count * HEADER_BYTES, HEADER_BYTES):
        if struct.unpack_from("<I", image, at)[0] == EH_FRAME:
            size = end - address
            values = (RELRO, 4, offset, address, address, size, size, 1)
            struct.pack_into("<IIQQQQQQ", image, at, *values)
    program.write_bytes(image)
