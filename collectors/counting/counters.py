"""The functions that rewritten code calls: counters per call path, written to a file at the end.

They run in the innermost loops of the program, so they are written for speed.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "INSITU_COUNTS"
SCALARS = frozenset({int, float, bool, str, complex, type(None)})
CONTAINERS = frozenset({list, tuple, dict, set, frozenset, str, bytes, bytearray, range})
# Functions and methods whose work does not grow with the sizes of their arguments.
CONSTANT_TIME = frozenset(
    [
        "abs",
        "append",
        "appendleft",
        "add",
        "bool",
        "callable",
        "chr",
        "clear_overloads",
        "delattr",
        "discard",
        "divmod",
        "enumerate",
        "filter",
        "float",
        "format",
        "get",
        "getattr",
        "getsizeof",
        "hasattr",
        "hash",
        "id",
        "int",
        "isinstance",
        "issubclass",
        "item",
        "items",
        "iter",
        "keys",
        "len",
        "map",
        "next",
        "open",
        "ord",
        "perf_counter",
        "pop",
        "popitem",
        "popleft",
        "print",
        "process_time",
        "range",
        "reshape",
        "reversed",
        "round",
        "setattr",
        "setdefault",
        "slice",
        "squeeze",
        "staticmethod",
        "swapaxes",
        "time",
        "transpose",
        "type",
        "values",
        "view",
    ]
)
COLLECTIVES = frozenset(
    [
        "allgather",
        "allgatherv",
        "allreduce",
        "alltoall",
        "alltoallv",
        "alltoallw",
        "barrier",
        "bcast",
        "exscan",
        "gather",
        "gatherv",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_block",
        "scan",
        "scatter",
        "scatterv",
    ]
)


class PathNode:
    """A call path: its counts, and the call paths below it."""

    __slots__ = ("callees", "children", "counts", "name", "parent")

    def __init__(self, name: str, parent: "PathNode | None" = None) -> None:
        self.name, self.parent = name, parent
        self.children: dict[str, PathNode] = {}
        self.callees: dict[str, PathNode] = {}  # children, and ancestors that recursion leads to
        self.counts: dict[str, float] = {}

    def child(self, name: str) -> "PathNode":
        """The call path of a function called from here. Recursion leads back to where it began."""
        node = self.callees.get(name)
        if node is None:
            node = self._ancestor(name)
            if node is None:
                node = self.children[name] = PathNode(name, self)
            self.callees[name] = node
        return node

    def _ancestor(self, name: str) -> "PathNode | None":
        """The nearest call path with this name, from here upwards."""
        node: PathNode | None = self
        while node is not None and node.name != name:
            node = node.parent
        return node

    def add(self, site: str, amount: float) -> None:
        """Add to the count of a site, a line of the program or a kind of count."""
        self.counts[site] = self.counts.get(site, 0) + amount


class ThreadState(threading.local):
    """The call path that a thread executes. Other threads than the first have their own root."""

    def __init__(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        self.node = root if is_main else thread_root


root = PathNode("")
thread_root = root.child("(thread)")
state = ThreadState()
rewritten: set[str] = set()  # files whose functions count for themselves


def enter(name: str) -> PathNode:
    """Begin a function; return the caller's path, which `leave` takes."""
    caller: PathNode = state.node
    node = caller.child(name)
    node.add("visits", 1)
    state.node = node
    return caller


def leave(caller: PathNode) -> None:
    """End a function."""
    state.node = caller


class GeneratorState:
    """A running generator: its call path, and that of its caller, None while it is suspended."""

    __slots__ = ("caller", "name", "node")

    def __init__(self, name: str) -> None:
        self.name = name
        self.resume()

    def resume(self) -> None:
        """Continue the generator for its current caller."""
        self.caller: PathNode | None = state.node
        self.node = state.node = state.node.child(self.name)

    def suspend(self) -> None:
        """Continue the caller."""
        if self.caller is not None:
            state.node, self.caller = self.caller, None


def start(name: str) -> GeneratorState:
    """Begin a generator; return the state that the next four functions take."""
    generator = GeneratorState(name)
    generator.node.add("visits", 1)
    return generator


def suspend(generator: GeneratorState, value: "Any") -> "Any":
    """Suspend a generator that yields a value; return the value."""
    generator.suspend()
    return value


def resume(generator: GeneratorState, value: "Any") -> "Any":
    """Resume a generator that is sent a value; return the value."""
    generator.resume()
    return value


def end(generator: GeneratorState) -> None:
    """End a generator, or close it while it is suspended."""
    generator.suspend()


def add_to(generator: GeneratorState, site: str, amount: int) -> None:
    """Count iterations of a loop in a generator."""
    generator.node.add(site, amount)


def add(site: str, amount: int) -> None:
    """Count iterations of a loop."""
    state.node.add(site, amount)


def result(site: str, value: "Any") -> "Any":
    """Count the elements of an array or a container; return it."""
    if type(value) not in SCALARS:
        size = len(value) if type(value) in CONTAINERS else getattr(value, "size", None)
        if type(size) is int:
            state.node.add(site, size)
    return value


def product(site: str, left: "Any", right: "Any") -> "Any":
    """Multiply two matrices and count their multiplications."""
    columns = right.shape[-1] if len(getattr(right, "shape", ())) > 1 else 1
    state.node.add(site, _size(left) * columns)
    return left @ right


def iterate(site: str, values: "Any") -> "Any":
    """Count the elements that a comprehension iterates over; return an equal iterable."""
    if type(values) in CONTAINERS or hasattr(values, "__len__"):
        state.node.add(site, len(values))
        return values
    return _count_elements(site, values)


def call(site: str, function: "Any", /, *args: "Any", **keywords: "Any") -> "Any":
    """Call a function. If it is not part of the program, count the sizes of what it processes."""
    if type(function) is FunctionType and function.__code__.co_filename in rewritten:
        return function(*args, **keywords)
    code: CodeType | None = getattr(getattr(function, "__func__", None), "__code__", None)
    if code is not None and code.co_filename in rewritten:
        return function(*args, **keywords)

    owner = getattr(function, "__self__", None)
    if type(owner).__module__.startswith("mpi4py."):
        return _call_mpi(function, owner, args, keywords)

    value = function(*args, **keywords)
    if getattr(function, "__name__", "") not in CONSTANT_TIME:
        amount = _size(value) + sum(map(_size, args)) + sum(map(_size, keywords.values()))
        if not isinstance(function, type) and owner is not None:
            amount += _size(owner)
        if amount:
            state.node.add(site, amount)
    return value


def write_counts(directory: str) -> None:
    """Write the counts of this process as one file, a row per call path and site."""
    rows: list[tuple[list[str], str, float]] = []
    _collect(root, [], rows)
    name = os.path.join(directory, f"{os.getpid()}.json")
    with open(name + ".part", "w", encoding="utf-8") as file:
        json.dump(rows, file)
    os.rename(name + ".part", name)  # readers never see an incomplete file


def _collect(node: PathNode, path: list[str], rows: list[tuple[list[str], str, float]]) -> None:
    rows += [(path, site, amount) for site, amount in node.counts.items()]
    for name, child in node.children.items():
        _collect(child, [*path, name], rows)


def _count_elements(site: str, values: "Iterator[Any]") -> "Iterator[Any]":
    for value in values:
        state.node.add(site, 1)
        yield value


def _size(value: "Any") -> int:
    """The number of elements; 0 for a value without elements."""
    kind = type(value)
    if kind in SCALARS and kind is not str:
        return 0
    if kind in CONTAINERS:
        return len(value)
    if kind.__module__.startswith("mpi4py."):
        return 0  # the size of a communicator is its ranks, and passing it on is no work
    size = getattr(value, "size", None)
    return size if type(size) is int else 0


def _nested_size(value: "Any") -> int:
    """The number of elements, including those of the items of a list or tuple."""
    return _size(value) + (sum(map(_size, value)) if type(value) in (list, tuple) else 0)


def _call_mpi(
    function: "Callable[..., Any]",
    owner: "Any",
    args: "tuple[Any, ...]",
    keywords: "dict[str, Any]",
) -> "Any":
    """Call MPI; count visits, the elements that are moved, and the ranks of a collective."""
    name = getattr(function, "__name__", "")
    node = state.node.child(f"MPI_{name.capitalize()}")
    node.add("visits", 1)

    elements = 0
    is_buffer_call = name[:1].isupper()  # mpi4py sends buffers with Send, objects with send
    for value in [*args, *keywords.values()]:
        if is_buffer_call:  # a buffer, or a list that describes one and begins with it
            is_description = type(value) in (list, tuple) and value
            elements += _size(value[0] if is_description else value)
        else:
            elements += _nested_size(value)

    value = function(*args, **keywords)
    elements += _nested_size(value) if type(value) in CONTAINERS else 0
    if elements:
        node.add("elements", elements)
    if name.lower().lstrip("i") in COLLECTIVES:
        node.add("ranks", owner.Get_size())
    return value
