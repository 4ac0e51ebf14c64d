"""Names of compiled functions as people write them: short, and different within a file.

A name depends on nothing but the file, so that it is the same in all runs of a program.
"""

import ctypes
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from insitu.collectors.cpp_names import FORMS, called_function, identifiers, short_forms
from insitu.collectors.elf import FunctionTable

# Suffixes that compilers append for clones and outlined parts of functions, and inner functions.
VARIANT = re.compile(r"(\.(isra|constprop|part|cold|lto_priv|localalias|dfsan|\d+))+\Z")
INNER = re.compile(r"\.\d+(?=\.\D|\Z)")  # the number of an inner function, behind its name
# The functions into which compilers turn parallel regions: GCC, LLVM from 16 on, LLVM before.
OUTLINED = re.compile(
    r"(?P<function>.*?)(\._omp_fn|\.omp_outlined\.?)(_debug__)?"
    r"(\.(?P<number>\d+))?(\.\D.*)?\Z"
)
# Procedures of Fortran modules: of gfortran, of LLVM's compiler, of Intel's.
MODULE_PROCEDURES = (
    re.compile(r"__(?P<module>\w+?)_MOD_(?P<procedure>\w+)\Z"),
    re.compile(r"_QM(?P<module>[a-z0-9_]+)P(?P<procedure>[a-z0-9_]+)\Z"),
    re.compile(r"(?P<module>[a-z]\w*?)_mp_(?P<procedure>\w+?)_\Z"),
)
SOURCE = re.compile(r" \([^()]*\)\Z")  # of a local function, which distinguishes it
MAX_RIVALS = 2000  # symbols that may have the same short name; with more, the name stays long


class FunctionNames:
    """The names of the functions of a file."""

    def __init__(self, table: FunctionTable) -> None:
        self._table = table
        self._plain: dict[str, set[tuple[str, str]]] = {}  # symbol and source, by plain name
        self._lines = ""  # the plain names, one a line
        self._names: dict[tuple[str, int], str] = {}  # by symbol and address

    def name(self, symbol: str, address: int = -1) -> str:
        """The name of the function with this symbol, at this address if it is known."""
        if (symbol, address) not in self._names:
            self._names[symbol, address] = self._find_name(symbol, address)
        return self._names[symbol, address]

    def _find_name(self, symbol: str, address: int) -> str:
        outlined = OUTLINED.match(symbol)
        if outlined:
            function = self.name(outlined["function"]) if outlined["function"] else ""
            return f"{function} (parallel {int(outlined['number'] or 0) + 1})".lstrip()
        plain = VARIANT.sub("", symbol) or symbol
        for pattern in MODULE_PROCEDURES:
            procedure = pattern.match(plain)
            if procedure:
                return f"{procedure['module']}::{procedure['procedure']}"

        if plain.startswith("_Z"):
            name = self._cpp_name(plain)
            name = called_function(name) or name
            return name + self._distinction(plain, symbol, address, shown=name)
        external = plain.removesuffix("_")
        is_free = external not in self._namesakes() and not external.endswith("_")
        if self._table.uses_fortran and external and is_free:
            return external  # Fortran's procedures outside of modules
        return plain + self._distinction(plain, symbol, address, shown=plain)

    def find(self, name: str) -> list[int]:
        """The addresses of the function that has, or had in earlier versions, this name."""
        words = identifiers(name)
        without_source = SOURCE.sub("", name)
        addresses = []
        for address, symbol in self._table.names.items():
            if not words or words[-1] not in symbol:
                continue
            plain = VARIANT.sub("", symbol) or symbol
            forms: tuple[str, ...] = (self.name(symbol, address),)
            if plain.startswith("_Z"):
                forms = _forms(demangle(plain))
            if name in forms or without_source in forms:
                addresses.append(address)
        # A part of a function (`main.cold`) may begin in a header; the function itself comes first.
        return sorted(addresses, key=lambda at: VARIANT.search(self._table.names[at]) is not None)

    def _cpp_name(self, symbol: str) -> str:
        """The shortest form that no other function of the file has."""
        full = demangle(symbol)
        forms = _forms(full)
        words = identifiers(forms[0])[-2:]
        if not words or not all(word in symbol for word in words):
            return forms[1]  # it is abbreviated in the symbol, as names of the standard library
        rivals = [plain for plain in self._names_with(words[-1]) if words[0] in plain]
        if len(rivals) > MAX_RIVALS:
            return forms[1]
        others = [_forms(other) for other in {demangle(rival) for rival in rivals} - {full}]
        for level in range(FORMS):
            if all(other[level] != forms[level] for other in others):
                return forms[level]
        return full

    def _names_with(self, word: str) -> list[str]:
        """The plain names that contain a word.

        A search in one text takes a tenth of the time of one in each of the names of a large
        library, of which a profile has thousands.
        """
        if not self._lines:
            self._lines = "\n".join(("", *self._namesakes(), ""))
        names = []
        at = self._lines.find(word)
        while at >= 0:
            end = self._lines.index("\n", at)
            names.append(self._lines[self._lines.rindex("\n", 0, at) + 1 : end])
            at = self._lines.find(word, end)
        return names

    def _distinction(self, plain: str, symbol: str, address: int, *, shown: str) -> str:
        """What distinguishes functions of the same name: " (solver.c)".

        These are local to their source files, or inner functions of one file.
        """
        same = self._namesakes().get(plain, set())
        source = self._table.sources.get(address, "")
        # A variant belongs to the function of its source file, else to the global one.
        sources = {other for name, other in same if name == plain} or {other for _, other in same}
        if len(sources) > 1:
            return f" ({source})" if source in sources - {""} and source not in shown else ""
        numbers = {number[0] for name, _ in same if (number := INNER.match(name, len(plain)))}
        number = INNER.match(symbol, len(plain))
        return number[0] if number and len(numbers) > 1 else ""

    def _namesakes(self) -> dict[str, set[tuple[str, str]]]:
        """The symbols of the file with their sources, by their names without variants."""
        if not self._plain:
            for address, symbol in self._table.names.items():
                if OUTLINED.match(symbol):
                    continue  # a part of a function
                plain = VARIANT.sub("", symbol) or symbol
                source = self._table.sources.get(address, "")
                self._plain.setdefault(plain, set()).add((symbol, source))
        return self._plain


@cache
def _demangler() -> Callable[[bytes], bytes | None]:
    """The function of the C++ runtime, which libzmq has loaded, and which C++ programs need."""
    try:
        function = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        free = ctypes.CDLL(None)["free"]
    except (OSError, AttributeError):
        return lambda symbol: None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    free.argtypes = [ctypes.c_void_p]

    def call(symbol: bytes) -> bytes | None:
        pointer: Any = function(symbol, None, None, None)
        if not pointer:
            return None
        text = ctypes.string_at(pointer)
        free(pointer)
        return text

    return call


@cache
def demangle(symbol: str) -> str:
    """A name of C++ as the compiler would write it; other names as they are."""
    text = _demangler()(symbol.encode()) if symbol.startswith("_Z") else None
    return symbol if text is None else text.decode("utf-8", "replace")


@cache
def plain_name(symbol: str) -> str:
    """The name of a symbol or of a demangled one, without the types of its arguments."""
    return _forms(demangle(symbol))[0]


@cache
def _forms(full: str) -> tuple[str, str, str]:
    return short_forms(full)
