"""What functions of compiled code are called, from the symbol tables of the files they were loaded
from, or of what was parted from these: separate and compressed debug files.

Only the agent and `insitu ingest` look: in the rank a function is an address.
"""

import ctypes
import mmap
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from typing import Any

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMTAB, DYNSYM = 2, 11  # types of sections
FUNCTION, INDIRECT = 2, 10  # types of symbols
GLOBAL = 1  # binding of symbols
NOTE = 7  # a type of sections
BUILD_ID = 3  # a type of notes
# What compilers put behind the names of parts and variants of functions, and of inner functions.
VARIANT = re.compile(r"(\.(isra|constprop|part|cold|lto_priv|localalias|\d+))+\Z")
DEBUG_FILES = "/usr/lib/debug"
LARGEST = 1 << 28  # bytes of symbols that a compressed section may hold
ADDR2LINE_S = 10.0  # for an answer; names may be missing, the agent may not hang
MODULE_PROCEDURE = re.compile(r"__(?P<module>\w+?)_MOD_(?P<procedure>\w+)\Z")  # as gfortran writes


class Symbols:
    """Names by file and address; every file is read once."""

    def __init__(self) -> None:
        self.files: dict[str, dict[int, str]] = {}
        self._demangle = _Demangler()

    def name(self, path: str, address: str, *, before_ns: int) -> str:
        """The function at a hexadecimal address of a file, as people write it.

        `solver+0x1136` where the file is gone, was stripped, or was written after the run began.
        """
        if path not in self.files:
            self.files[path] = read(path, before_ns=before_ns)
        known = self.files[path]
        try:
            at = int(address, 16)
        except ValueError:
            return f"{os.path.basename(path)}+0x{address}"
        if at not in known and DEBUG_INFO in known:
            known[at] = _from_debug_info(path, at)
        found = known.get(at, "")
        return self._readable(found) if found else f"{os.path.basename(path)}+0x{address}"

    def _readable(self, symbol: str) -> str:
        symbol = VARIANT.sub("", symbol) or symbol
        procedure = MODULE_PROCEDURE.match(symbol)
        if procedure:
            return f"{procedure['module']}::{procedure['procedure']}"
        if symbol.startswith("_Z"):
            return self._demangle(symbol)
        return symbol


class _Demangler:
    """C++ names through the C++ library, which libzmq has brought along."""

    def __init__(self) -> None:
        self._call: Any = None  # Any: a function of C
        try:
            call = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
            self._free = ctypes.CDLL(None)["free"]
        except (OSError, AttributeError):
            return
        call.restype = ctypes.c_void_p
        call.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
        self._call = call
        self._free.argtypes = [ctypes.c_void_p]

    def __call__(self, symbol: str) -> str:
        found = self._call(symbol.encode(), None, None, None) if self._call else None
        if not found:
            return symbol
        text = ctypes.string_at(found).decode("utf-8", "replace")
        self._free(found)
        return text


DEBUG_INFO = -1  # in place of an address: the file has more to tell, which takes long to read


def read(path: str, *, before_ns: int) -> dict[int, str]:
    """The functions of an ELF file by address; {} for a file that is newer or cannot be read.

    Of several names at one address, global ones go before local ones, then the first in the
    alphabet. A file without local names is asked where they are.
    """
    try:
        if os.stat(path).st_mtime_ns > before_ns:
            return {}
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            sections = _sections(data)
            found = _functions(data, sections)
            if not any(kind == SYMTAB for _, kind, _, _, _ in sections):
                found |= _parted(path, data, sections)
            if any(name == ".debug_info" for name, *_ in sections):
                found[DEBUG_INFO] = ""
            return found
    except (OSError, struct.error, IndexError, ValueError):
        return {}


Section = tuple[str, int, int, int, int]  # name, type, place, length, link


def _sections(data: "mmap.mmap | bytes") -> list[Section]:
    if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little end first
        return []
    (at,) = struct.unpack_from("<Q", data, 0x28)
    size, number, strings = struct.unpack_from("<HHH", data, 0x3A)
    raw = [SECTION.unpack_from(data, at + i * size) for i in range(number)]
    names = raw[strings][4] if raw else 0
    return [
        (_text(data, names + name), kind, begin, length, link)
        for name, kind, _, _, begin, length, link, *_ in raw
    ]


def _text(data: "mmap.mmap | bytes", at: int) -> str:
    return data[at : data.find(b"\0", at)].decode()


def _functions(data: "mmap.mmap | bytes", sections: list[Section]) -> dict[int, str]:
    tables = [section for section in sections if section[1] == SYMTAB]
    tables = tables or [section for section in sections if section[1] == DYNSYM]
    best: dict[int, tuple[bool, str]] = {}
    for _, _, begin, length, link in tables:
        names = sections[link][2]
        symbols = data[begin : begin + length // SYMBOL.size * SYMBOL.size]
        for name, info, _, section, address, _ in SYMBOL.iter_unpack(symbols):
            if not section or info & 15 not in (FUNCTION, INDIRECT):
                continue
            candidate = (info >> 4 != GLOBAL, _text(data, names + name))
            if address not in best or candidate < best[address]:
                best[address] = candidate
    return {address: text for address, (_, text) in best.items()}


def _parted(path: str, data: mmap.mmap, sections: list[Section]) -> dict[int, str]:
    """The functions of what was parted from a stripped file; {} where nothing is left of it."""
    found: dict[int, str] = {}
    try:
        for other in _parts(path, data, sections):
            found |= _functions(other, _sections(other))
    except (OSError, EOFError, struct.error, IndexError, ValueError):
        pass
    return found


def _parts(path: str, data: mmap.mmap, sections: list[Section]) -> Iterator[bytes]:
    """What is in it, compressed, and the file that is named by its build id or by itself."""
    folder, places = os.path.dirname(path), []
    for name, kind, begin, length, _ in sections:
        if name == ".gnu_debugdata":
            yield _decompressed(data[begin : begin + length])
        elif kind == NOTE:
            owner, size, what = struct.unpack_from("<III", data, begin)
            build = data[begin + 12 + owner : begin + 12 + owner + size].hex()
            if what == BUILD_ID:
                places.append(f"{DEBUG_FILES}/.build-id/{build[:2]}/{build[2:]}.debug")
        elif name == ".gnu_debuglink":
            beside = os.path.basename(_text(data, begin))
            places += [f"{folder}/{beside}", f"{folder}/.debug/{beside}"]
            places.append(f"{DEBUG_FILES}{folder}/{beside}")
    for place in places:
        if os.path.isfile(place) and not os.path.samefile(place, path):
            with open(place, "rb") as file:
                yield file.read()
            return


def _decompressed(data: bytes) -> bytes:
    try:
        import lzma  # not every Python was built with it
    except ImportError:
        return b""
    try:
        return lzma.LZMADecompressor().decompress(data, LARGEST)
    except lzma.LZMAError:
        return b""


def _from_debug_info(path: str, address: int) -> str:
    """A function that no symbol names, from the file's DWARF through binutils; "" without these."""
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if tool is None:
        return ""
    try:
        done = subprocess.run(
            [tool, "-f", "-e", path, f"{address:#x}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ADDR2LINE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    function, _, place = done.stdout.partition("\n")
    file, _, line = place.strip().partition(" ")[0].rpartition(":")
    if function.strip() not in ("", "??"):
        return function.strip()
    return f"{os.path.basename(file)}:{line}" if line.isdigit() and line != "0" else ""
