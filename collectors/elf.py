"""Reads the symbol tables of ELF files, and of the debug files that belong to stripped ones.

Layouts and numbers are those of elf(5) and of the System V ABI.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
PROGRAM_TABLE_AT, PROGRAM_COUNTS_AT = 0x20, 0x36  # in the file header
SECTION_TABLE_AT, SECTION_COUNTS_AT = 0x28, 0x3A
FILE_HEADER_BYTES = 64
MAX_HEADER_BYTES = 8192  # of the file header and the program headers, which follow it
INTERPRETER = 3  # type of the program header that names the dynamic linker
MAGIC_64_LITTLE = b"\x7fELF\x02\x01"  # 64 bits, little endian
SYMTAB, DYNSYM, NOTE = 2, 11, 7  # types of sections
FUNCTION, INDIRECT = 2, 10  # types of symbols
GLOBAL = 1  # binding of symbols
BUILD_ID = 3  # type of notes
DEBUG_FILES = "/usr/lib/debug"
MAX_DEBUGDATA_BYTES = 1 << 28  # of a section after decompression


@dataclass(slots=True)
class FunctionTable:
    """The functions of a file."""

    names: dict[int, str] = field(default_factory=dict)  # by address
    has_debug_info: bool = False  # DWARF may name more functions


class Section(NamedTuple):
    """An entry of the section table."""

    name: str
    type: int
    offset: int
    size: int
    link: int  # index of the section with the names, for symbol tables


def read_functions(path: str, *, before_ns: int) -> FunctionTable:
    """Read the functions of an ELF file.

    The result is empty if the file cannot be read, or was modified after `before_ns`: then it is
    not the file that was running. Of several names at one address, a global one comes before local
    ones, then the first in alphabetical order. If the file has no full symbol table, its debug
    files are searched, too.
    """
    try:
        if os.stat(path).st_mtime_ns > before_ns:
            return FunctionTable()
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            sections = _sections(data)
            names = _functions(data, sections)
            if not any(section.type == SYMTAB for section in sections):
                names |= _functions_of_debug_files(path, data, sections)
            has_debug_info = any(section.name == ".debug_info" for section in sections)
            return FunctionTable(names, has_debug_info)
    except (OSError, struct.error, IndexError, ValueError):
        return FunctionTable()


def is_static(path: str) -> bool:
    """Whether a file is an ELF program that no dynamic linker starts.

    Raises:
        OSError: it cannot be read.
    """
    return _dynamic_linker(path) == ""


def is_of_musl(path: str) -> bool:
    """Whether a file is an ELF program that the dynamic linker of musl starts.

    Raises:
        OSError: it cannot be read.
    """
    return os.path.basename(_dynamic_linker(path) or "").startswith("ld-musl-")


def _dynamic_linker(path: str) -> str | None:
    """The path of the linker that starts an ELF program, "" for none; None for other files."""
    with open(path, "rb") as file:
        head = file.read(MAX_HEADER_BYTES)
        if head[: len(MAGIC_64_LITTLE)] != MAGIC_64_LITTLE or len(head) < FILE_HEADER_BYTES:
            return None
        (table_at,) = struct.unpack_from("<Q", head, PROGRAM_TABLE_AT)
        entry_bytes, count = struct.unpack_from("<HH", head, PROGRAM_COUNTS_AT)
        if table_at + entry_bytes * count > len(head):
            return None
        for i in range(count):
            entry = PROGRAM_HEADER.unpack_from(head, table_at + i * entry_bytes)
            if entry[0] == INTERPRETER:
                return os.fsdecode(os.pread(file.fileno(), entry[5], entry[2]).rstrip(b"\0"))
    return ""


def _sections(data: "mmap.mmap | bytes") -> list[Section]:
    if data[: len(MAGIC_64_LITTLE)] != MAGIC_64_LITTLE:
        return []

    (table_at,) = struct.unpack_from("<Q", data, SECTION_TABLE_AT)
    entry_bytes, n_sections, names_index = struct.unpack_from("<HHH", data, SECTION_COUNTS_AT)
    headers = [
        SECTION_HEADER.unpack_from(data, table_at + i * entry_bytes) for i in range(n_sections)
    ]
    names_at = headers[names_index][4] if headers else 0

    sections = []
    for name_at, kind, _, _, offset, size, link, *_ in headers:
        sections.append(Section(_text(data, names_at + name_at), kind, offset, size, link))
    return sections


def _text(data: "mmap.mmap | bytes", at: int) -> str:
    """The zero-terminated string at an offset."""
    return data[at : data.find(b"\0", at)].decode()


def _functions(data: "mmap.mmap | bytes", sections: list[Section]) -> dict[int, str]:
    tables = [section for section in sections if section.type == SYMTAB]
    if not tables:
        tables = [section for section in sections if section.type == DYNSYM]

    best: dict[int, tuple[bool, str]] = {}  # by address: whether the name is local, the name
    for table in tables:
        names_at = sections[table.link].offset
        end = table.offset + table.size // SYMBOL.size * SYMBOL.size
        for name_at, info, _, section, address, _ in SYMBOL.iter_unpack(data[table.offset : end]):
            if not section or info & 15 not in (FUNCTION, INDIRECT):
                continue  # undefined here, or no function
            candidate = (info >> 4 != GLOBAL, _text(data, names_at + name_at))
            if address not in best or candidate < best[address]:
                best[address] = candidate
    return {address: name for address, (_, name) in best.items()}


def _functions_of_debug_files(
    path: str, data: mmap.mmap, sections: list[Section]
) -> dict[int, str]:
    """The functions that were separated from a stripped file; {} if no debug file is left."""
    names: dict[int, str] = {}
    try:
        for debug_data in _debug_data(path, data, sections):
            names |= _functions(debug_data, _sections(debug_data))
    except (OSError, EOFError, struct.error, IndexError, ValueError):
        pass  # a damaged debug file: keep what was read so far
    return names


def _debug_data(path: str, data: mmap.mmap, sections: list[Section]) -> Iterator[bytes]:
    """The compressed section of a stripped file, then its separate debug file.

    The file is located by build id or by the name in .gnu_debuglink, as gdb does.
    """
    folder = os.path.dirname(path)
    candidates = []
    for section in sections:
        end = section.offset + section.size
        if section.name == ".gnu_debugdata":
            yield _decompress(data[section.offset : end])
        elif section.type == NOTE:
            name_bytes, size, note = struct.unpack_from("<III", data, section.offset)
            id_at = section.offset + 12 + name_bytes
            build = data[id_at : id_at + size].hex()
            if note == BUILD_ID:
                candidates.append(f"{DEBUG_FILES}/.build-id/{build[:2]}/{build[2:]}.debug")
        elif section.name == ".gnu_debuglink":
            name = os.path.basename(_text(data, section.offset))
            candidates += [f"{folder}/{name}", f"{folder}/.debug/{name}"]
            candidates.append(f"{DEBUG_FILES}{folder}/{name}")

    for candidate in candidates:
        if os.path.isfile(candidate) and not os.path.samefile(candidate, path):
            with open(candidate, "rb") as file:
                yield file.read()
            return


def _decompress(data: bytes) -> bytes:
    try:
        import lzma  # some Pythons are built without it
    except ImportError:
        return b""
    try:
        return lzma.LZMADecompressor().decompress(data, MAX_DEBUGDATA_BYTES)
    except lzma.LZMAError:
        return b""
