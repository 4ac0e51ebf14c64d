"""Names of compiled functions: a rank records an address and a file, readers need a name.

Only the agent and `insitu ingest` resolve names; lines are resolved when they are shown.
"""

import bisect
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Sequence

from insitu.collectors.elf import FunctionTable, read_functions
from insitu.collectors.function_names import FunctionNames, demangle, plain_name
from insitu.collectors.table import COMPILED, DEVICE, OPENMP, REGION, STACK, Row
from insitu.entities import is_allocator

# The functions by which programs mark regions for other tools.
ANNOTATING = re.compile(
    r"Kokkos::((Tools|Profiling)::|parallel_(for|reduce|scan)\b"
    r"|Impl::(ParallelReduceAdaptor|ViewValueFunctor)<)|nvtx|__itt_|petsclog(event|stage)\w+\Z"
)
# What nvcc puts between a function and the kernel that it launches, and the functions that launch
# kernels and copies in a runtime of CUDA that is linked into the program.
LAUNCHING = re.compile(r"libcudart_static_|__device_stub_|cuda(Launch|Memcpy|Memset|GraphLaunch)")
MODULE = re.compile(
    r"(.+?)(-[0-9a-f]{8}\b|\.cpython-|\.abi3\b|\.so\b)"
)  # and what follows its name
TYPE = "_ZTS"  # begins symbols of types; native/kokkos.c writes it before what may be a type
ADDRESS = re.compile(r"0x[0-9a-f]+")  # the line before the functions at an address
CALL = re.compile(  # a line of a disassembly, of x86-64 or aarch64
    r"\s*(?P<address>[0-9a-f]+):\s.*\b(call|callq|bl)\s.*<(?P<callee>[^>@+]+)[^>]*>"
)
FORTRAN_ENDING = re.compile(r"(_f08(ts)?)?_*\Z")
C_VARIANT = re.compile(r"\A__(?=\w+_(chk|2)\Z)|(64)?(_chk|_2)?\Z")
IN_LIBRARY = re.compile(r"/include/c\+\+/")
LARGEST_FUNCTION = 1 << 20  # bytes, of the last one in a file
MAX_INLINED = 3  # functions that are named for the same calls
TOOL_S = 10.0  # a name may be missing, but the agent must not hang


class Symbols:
    """Function names by file and address; each file is read once."""

    def __init__(self) -> None:
        self.files: dict[str, FunctionTable] = {}
        self._names: dict[str, FunctionNames] = {}  # likewise

    def row_name(self, row: Row, *, before_ns: int, is_python: bool) -> str:
        """The name of a row of a table as people write it; `before_ns` as for `name`.

        In a Python program, functions of stripped extension modules are one function, which has the
        name of the module: `(_multiarray_umath)`.
        """
        if row.kind in (COMPILED, STACK):
            name = self.name(row.file, row.name, before_ns=before_ns)
            module = MODULE.match(os.path.basename(row.file))
            is_unnamed = name.startswith(f"{os.path.basename(row.file)}+0x")
            return f"({module[1]})" if is_python and is_unnamed and module else name
        if row.kind == OPENMP:
            return self.parallel_name(row.file, row.name, before_ns=before_ns)
        if row.kind == REGION:
            return self.region_name(row.name)
        return plain_name(row.name) if row.kind == DEVICE else row.name

    def name(self, path: str, address: str, *, before_ns: int) -> str:
        """The name of the function at a hexadecimal address of a file.

        `solver+0x1136` if the file is gone, was stripped, or was modified after `before_ns`. The
        address may be followed by a name for functions without a symbol, as in `1136 main`.
        """
        address, _, hint = address.partition(" ")
        functions = self._read(path, before_ns)
        fallback = hint or f"{os.path.basename(path)}+0x{address}"
        try:
            number = int(address, 16)
        except ValueError:
            return fallback

        if number not in functions.names and functions.debug_path:
            functions.names[number] = _name_from_debug_info(functions.debug_path, number)
        symbol = functions.names.get(number, "")
        if symbol.startswith(".omp_outlined.") and functions.debug_path:
            location = _location(functions.debug_path, number)
            if location:
                return f"(parallel {location})"
        return self._names[path].name(symbol, number) if symbol else fallback

    def parallel_name(self, path: str, address: str, *, before_ns: int) -> str:
        """The name of a parallel region of OpenMP.

        The address is that of its outlined function, or the return address of the call that begins
        the region, followed by the word `parallel`.
        """
        address, _, is_call = address.partition(" ")
        if not is_call:
            return self.name(path, address, before_ns=before_ns)
        debug_path = self._read(path, before_ns).debug_path
        # The call is before the address to which it returns.
        location = _location(debug_path, int(address, 16) - 1) if debug_path else ""
        return f"(parallel {location or '+0x' + address})"

    def _read(self, path: str, before_ns: int) -> FunctionTable:
        if path not in self.files:
            self.files[path] = read_functions(path, before_ns=before_ns)
            self._names[path] = FunctionNames(self.files[path])
        return self.files[path]

    def region_name(self, name: str) -> str:
        """The name of a region as people write it.

        Kokkos names a kernel that has no name by the encoded type of its function.
        """
        if not name.startswith(TYPE):
            return name
        return demangle(name).removeprefix("typeinfo name for ").removeprefix(TYPE)


def is_annotating(name: str) -> bool:
    """Whether a function, with its readable name, marks regions for other tools."""
    depth, start = 0, 0  # nesting of brackets, the position behind the type of its result
    for at, letter in enumerate(name):
        if letter in "<{[(":
            if letter == "(" and not depth:
                break  # the arguments
            depth += 1
        elif letter in ">}])":
            depth -= 1
        elif letter == " " and not depth:
            start = at + 1
    return ANNOTATING.match(name, start) is not None


def is_launching(name: str) -> bool:
    """Whether a function only passes on what its caller launches on a GPU."""
    return LAUNCHING.match(name) is not None


def find_lines(path: str, names: Collection[str], *, before_ns: int) -> dict[str, tuple[str, int]]:
    """Where functions of a file are defined, by name: source file and line.

    A function is missing if the file has no debug information about it, if it was modified after
    `before_ns`, or without binutils or LLVM.
    """
    table = read_functions(path, before_ns=before_ns)
    if not table.debug_path:
        return {}
    functions = FunctionNames(table)
    addresses: dict[str, int] = {}
    for name in names:
        found = functions.find(name)
        if found:
            addresses[name] = found[0]
    if not addresses:
        return {}

    lines = {}
    for name, frames in zip(
        addresses, _run_addr2line(table.debug_path, list(addresses.values())), strict=False
    ):
        file, _, line = frames[-1][1].rpartition(":")
        if line.isdigit() and line != "0":
            lines[name] = (file, int(line))
    return lines


def find_inlined(
    path: str, name: str, callees: Collection[str], *, before_ns: int
) -> list[tuple[str, str, int]]:
    """The functions that the compiler inlined into another one and that alone make some calls.

    Args:
        path: the file with the code.
        name: the function into which it was inlined, as `Symbols` names it.
        callees: the functions that are called.
        before_ns: as for `find_lines`.

    Returns:
        The name, source file, and the line of the first call of each, in the order of their lines.
        Functions that allocate for others are passed over.
        Empty if the function itself makes such calls, if more than MAX_INLINED do, or without debug
        information or binutils.
    """
    table = read_functions(path, before_ns=before_ns)
    if not table.debug_path:
        return []
    functions = FunctionNames(table)
    wanted = {callee.lower() for callee in callees}
    starts = sorted(table.names)
    first_calls: dict[str, tuple[int, str]] = {}
    for start in functions.find(name):
        following = bisect.bisect_right(starts, start)
        end = starts[following] if following < len(starts) else start + LARGEST_FUNCTION
        calls = [at for at, callee in _find_calls(path, start, end) if callee in wanted]
        for frames in _run_addr2line(table.debug_path, calls) if calls else []:
            inlined = [
                (function, source)
                for function, source in frames[:-1]
                if not IN_LIBRARY.search(source) and not is_allocator(functions.name(function))
            ]
            if not inlined:
                return []
            caller, location = inlined[0]
            file, _, line = location.rpartition(":")
            if not line.isdigit() or line == "0":
                return []
            call = int(line), file
            first_calls[caller] = min(first_calls.get(caller, call), call)
    if len(first_calls) > MAX_INLINED:
        return []
    ordered = sorted(first_calls, key=lambda caller: first_calls[caller])
    return [(functions.name(caller), *first_calls[caller][::-1]) for caller in ordered]


def _find_calls(path: str, start: int, end: int) -> list[tuple[int, str]]:
    """The calls of named functions in a range of code: the address of each, and whom it calls.

    Names are those of C, also where Fortran calls its binding: `mpi_send` for `mpi_send_`, and
    `fprintf` for `__fprintf_chk`.
    """
    tool = shutil.which("objdump") or shutil.which("llvm-objdump")
    if tool is None:
        return []
    words = [tool, "-d", f"--start-address={start:#x}", f"--stop-address={end:#x}", path]
    calls = []
    for line in _run_tool(words, "").splitlines():
        call = CALL.match(line)
        if call:
            callee = C_VARIANT.sub("", FORTRAN_ENDING.sub("", call["callee"].lower()))
            calls.append((int(call["address"], 16), callee.replace("pmpi_", "mpi_", 1)))
    return calls


def _name_from_debug_info(path: str, address: int) -> str:
    """The function at an address according to the file's DWARF; "" without binutils or LLVM.

    A function without a name is given as FILE:LINE.
    """
    for frames in _run_addr2line(path, [address]):
        function, location = frames[-1]
        return function if function not in ("", "??") else _shorten(location)
    return ""


def _location(path: str, address: int) -> str:
    """FILE:LINE of an instruction; "" if it is unknown."""
    for frames in _run_addr2line(path, [address]):
        return _shorten(frames[0][1])
    return ""


def _shorten(location: str) -> str:
    """FILE:LINE without its directory; "" if it is unknown."""
    file, _, line = location.rpartition(":")
    return f"{os.path.basename(file)}:{line}" if line.isdigit() and line != "0" else ""


def _run_addr2line(path: str, addresses: Sequence[int]) -> list[list[tuple[str, str]]]:
    """The functions at each address and their FILE:LINE; none without binutils or LLVM.

    The first function is the innermost of those that the compiler inlined there, the last one is
    the function that has the address. A function may begin with the code of another one.
    """
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if tool is None:
        return []
    text = "".join(f"{address:#x}\n" for address in addresses)
    found: list[list[tuple[str, str]]] = []
    lines = iter(_run_tool([tool, "-a", "-i", "-f", "-e", path], text).splitlines())
    for line in lines:
        is_next = ADDRESS.fullmatch(line) is not None
        if is_next:
            found.append([])
        function = next(lines, "") if is_next else line
        location = next(lines, "").strip().partition(" ")[0]
        if found:
            found[-1].append((function.strip(), location))
    return found


def _run_tool(words: Sequence[str], text: str) -> str:
    """What a tool of binutils prints, "" if it fails or takes too long."""
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOOL_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
