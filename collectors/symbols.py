"""What functions of compiled code are called, from the symbol tables of the files they were loaded
from.

Only the agent and `insitu ingest` look: in the rank a function is an address.
"""

import ctypes
import mmap
import os
import re
import struct
from typing import Any

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMTAB, DYNSYM = 2, 11  # types of sections
FUNCTION, INDIRECT = 2, 10  # types of symbols
GLOBAL = 1  # binding of symbols
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
        try:
            found = self.files[path].get(int(address, 16), "")
        except ValueError:
            found = ""
        if not found:
            return f"{os.path.basename(path)}+0x{address}"
        return self._readable(found)

    def _readable(self, symbol: str) -> str:
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


def read(path: str, *, before_ns: int) -> dict[int, str]:
    """The functions of an ELF file by address; {} for a file that is newer or cannot be read.

    Of several names at one address, global ones go before local ones, then the first in the
    alphabet.
    """
    try:
        if os.stat(path).st_mtime_ns > before_ns:
            return {}
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _functions(data)
    except (OSError, struct.error, IndexError, ValueError):
        return {}


def _functions(data: mmap.mmap) -> dict[int, str]:
    if data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little end first
        return {}
    (at,) = struct.unpack_from("<Q", data, 0x28)
    size, number = struct.unpack_from("<HH", data, 0x3A)
    sections = [SECTION.unpack_from(data, at + i * size) for i in range(number)]
    tables = [section for section in sections if section[1] == SYMTAB]
    tables = tables or [section for section in sections if section[1] == DYNSYM]
    best: dict[int, tuple[bool, str]] = {}
    for _, _, _, _, begin, length, link, _, _, _ in tables:
        names = sections[link][4]
        symbols = data[begin : begin + length // SYMBOL.size * SYMBOL.size]
        for name, info, _, section, address, _ in SYMBOL.iter_unpack(symbols):
            if not section or info & 15 not in (FUNCTION, INDIRECT):
                continue
            text = data[names + name : data.find(b"\0", names + name)].decode()
            candidate = (info >> 4 != GLOBAL, text)
            if address not in best or candidate < best[address]:
                best[address] = candidate
    return {address: text for address, (_, text) in best.items()}
