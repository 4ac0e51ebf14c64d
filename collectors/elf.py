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
FUNCTION, FILE, INDIRECT = 2, 4, 10  # types of symbols
LOCAL, GLOBAL = 0, 1  # bindings of symbols
BUILD_ID = 3  # type of notes
FORTRAN_RUNTIMES = ("_gfortran_", "_Fortran", "for_")  # of GCC, LLVM and Intel
DEBUG_FILES = "/usr/lib/debug"
MAX_DEBUGDATA_BYTES = 1 << 28  # of a section after decompression


@dataclass(slots=True)
class FunctionTable:
    """The functions of a file."""

    names: dict[int, str] = field(default_factory=dict)  # by address
    sources: dict[int, str] = field(default_factory=dict)  # of local functions, by address
    debug_path: str = ""  # the file with its DWARF, which may name more functions; "" for none
    uses_fortran: bool = False  # it calls the runtime library of a Fortran compiler


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
            table = _functions(data, sections)
            if any(section.name == ".debug_info" for section in sections):
                table.debug_path = path
            if not any(section.type == SYMTAB for section in sections):
                _add_debug_files(table, path, data, sections)
            return table
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


def _functions(data: "mmap.mmap | bytes", sections: list[Section]) -> FunctionTable:
    tables = [section for section in sections if section.type == SYMTAB]
    if not tables:
        tables = [section for section in sections if section.type == DYNSYM]

    best: dict[int, tuple[bool, str]] = {}  # by address: whether the name is not global, the name
    functions = FunctionTable()
    for table in tables:
        names_at, source = sections[table.link].offset, ""
        end = table.offset + table.size // SYMBOL.size * SYMBOL.size
        for name_at, info, _, section, address, _ in SYMBOL.iter_unpack(data[table.offset : end]):
            if info & 15 == FILE:
                source = _text(data, names_at + name_at)  # of the local symbols that follow
            if not section and _text(data, names_at + name_at).startswith(FORTRAN_RUNTIMES):
                functions.uses_fortran = True
            if not section or info & 15 not in (FUNCTION, INDIRECT):
                continue  # undefined here, or no function
            candidate = (info >> 4 != GLOBAL, _text(data, names_at + name_at))
            if address not in best or candidate < best[address]:
                best[address] = candidate
                functions.sources.pop(address, None)
                if info >> 4 == LOCAL and source:
                    functions.sources[address] = source
    functions.names = {address: name for address, (_, name) in best.items()}
    return functions


def _add_debug_files(
    table: FunctionTable, path: str, data: mmap.mmap, sections: list[Section]
) -> None:
    """Add the functions that were separated from a stripped file, where they were left."""
    try:
        for debug_path, debug_data in _debug_data(path, data, sections):
            debug_sections = _sections(debug_data)
            functions = _functions(debug_data, debug_sections)
            table.names |= functions.names
            table.sources |= functions.sources
            table.uses_fortran = table.uses_fortran or functions.uses_fortran
            if any(section.name == ".debug_info" for section in debug_sections):
                table.debug_path = debug_path
    except (OSError, EOFError, struct.error, IndexError, ValueError):
        pass  # a damaged debug file: keep what was read so far


def _debug_data(
    path: str, data: mmap.mmap, sections: list[Section]
) -> Iterator[tuple[str, "mmap.mmap | bytes"]]:
    """The compressed section of a stripped file, then its separate debug file with its path.

    The file is located by build id or by the name in .gnu_debuglink, as gdb does.
    """
    folder = os.path.dirname(path)
    candidates = []
    for section in sections:
        end = section.offset + section.size
        if section.name == ".gnu_debugdata":
            yield "", _decompress(data[section.offset : end])
        elif build := _build_id(data, section):
            candidates.append(f"{DEBUG_FILES}/.build-id/{build[:2]}/{build[2:]}.debug")
        elif section.name == ".gnu_debuglink":
            name = os.path.basename(_text(data, section.offset))
            candidates += [f"{folder}/{name}", f"{folder}/.debug/{name}"]
            candidates.append(f"{DEBUG_FILES}{folder}/{name}")

    for candidate in candidates:
        if os.path.isfile(candidate) and not os.path.samefile(candidate, path):
            with (
                open(candidate, "rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as debug_data,
            ):
                yield candidate, debug_data
            return


def read_build_id(path: str) -> str:
    """The build id of an ELF file as hexadecimal digits; empty if it has none or cannot be read."""
    try:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            found = [_build_id(data, section) for section in _sections(data)]
    except (OSError, struct.error, IndexError, ValueError):
        return ""
    return next(filter(None, found), "")


def _build_id(data: mmap.mmap, section: Section) -> str:
    """The build id if this is the section with it, else empty."""
    if section.type != NOTE:
        return ""
    name_bytes, size, note = struct.unpack_from("<III", data, section.offset)
    id_at = section.offset + 12 + name_bytes
    return data[id_at : id_at + size].hex() if note == BUILD_ID else ""


def _decompress(data: bytes) -> bytes:
    try:
        import lzma  # some Pythons are built without it
    except ImportError:
        return b""
    try:
        return lzma.LZMADecompressor().decompress(data, MAX_DEBUGDATA_BYTES)
    except lzma.LZMAError:
        return b""
