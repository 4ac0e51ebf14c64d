"""What rewritten code calls: counters per call path, written to a file at the end.

The functions here run inside the program, in its innermost loops: they are short rather than fine.
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
# Builtin functions and methods whose work does not grow with the sizes of their arguments.
CONSTANT = frozenset(
    (
        *("abs", "append", "appendleft", "add", "bool", "callable"),
        *("chr", "clear_overloads", "delattr", "discard", "divmod", "enumerate"),
        *("filter", "float", "format", "get", "getattr", "getsizeof"),
        *("hasattr", "hash", "id", "int", "isinstance", "issubclass"),
        *("item", "items", "iter", "keys", "len", "map"),
        *("next", "open", "ord", "perf_counter", "pop", "popitem"),
        *("popleft", "print", "process_time", "range", "reshape", "reversed"),
        *("round", "setattr", "setdefault", "slice", "squeeze", "staticmethod"),
        *("swapaxes", "time", "transpose", "type", "values", "view"),
        *("zip"),
    )
)
COLLECTIVES = frozenset(
    (
        *("allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw"),
        *("barrier", "bcast", "exscan", "gather", "gatherv", "reduce"),
        *("reduce_scatter", "reduce_scatter_block", "scan", "scatter", "scatterv"),
    )
)


class Node:
    """A call path: what was counted there, and the functions called from there."""

    __slots__ = ("children", "counts", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: dict[str, Node] = {}
        self.counts: dict[str, float] = {}

    def child(self, name: str) -> "Node":
        """The call path of a function called from here; direct recursion stays where it is."""
        if name == self.name:
            return self
        found = self.children.get(name)
        if found is None:
            found = self.children[name] = Node(name)
        return found

    def add(self, site: str, amount: float) -> None:
        """Count."""
        self.counts[site] = self.counts.get(site, 0) + amount


class State(threading.local):
    """Where a thread is; other threads than the first begin at a path of their own."""

    def __init__(self) -> None:
        self.node = root if threading.current_thread() is threading.main_thread() else other


root = Node("")
other = root.child("(thread)")
state = State()
rewritten: set[str] = set()  # files whose functions count by themselves


def enter(name: str) -> Node:
    """A function begins; answers what `leave` wants."""
    before: Node = state.node
    node = before.child(name)
    node.add("visits", 1)
    state.node = node
    return before


def leave(before: Node) -> None:
    """The function that began ends."""
    state.node = before


def add(site: str, amount: int) -> None:
    """Count iterations of a loop."""
    state.node.add(site, amount)


def result(site: str, value: "Any") -> "Any":
    """Count the elements of an array or list that an operation made; answers it."""
    if type(value) not in SCALARS:
        size = len(value) if type(value) in CONTAINERS else getattr(value, "size", None)
        if type(size) is int:
            state.node.add(site, size)
    return value


def product(site: str, left: "Any", right: "Any") -> "Any":
    """Multiply matrices, and count the elements of both."""
    state.node.add(site, _size(left) + _size(right))
    return left @ right


def iterate(site: str, values: "Any") -> "Any":
    """Count what a comprehension runs over; answers something that gives the same."""
    if type(values) in CONTAINERS or hasattr(values, "__len__"):
        state.node.add(site, len(values))
        return values
    return _counted(site, values)


def call(site: str, function: "Any", /, *args: "Any", **keywords: "Any") -> "Any":
    """Call it; where it is no function of the program, count the sizes it is given and gives."""
    if type(function) is FunctionType and function.__code__.co_filename in rewritten:
        return function(*args, **keywords)
    code: CodeType | None = getattr(getattr(function, "__func__", None), "__code__", None)
    if code is not None and code.co_filename in rewritten:
        return function(*args, **keywords)
    owner = getattr(function, "__self__", None)
    if type(owner).__module__.startswith("mpi4py."):
        return _message(function, owner, args, keywords)
    value = function(*args, **keywords)
    if getattr(function, "__name__", "") not in CONSTANT:
        amount = _size(value) + sum(map(_size, args)) + sum(map(_size, keywords.values()))
        if not isinstance(function, type) and owner is not None:
            amount += _size(owner)
        if amount:
            state.node.add(site, amount)
    return value


def write(directory: str) -> None:
    """Leave what was counted for whoever asked, as one file of this process."""
    rows: list[tuple[list[str], str, float]] = []
    _collect(root, [], rows)
    name = os.path.join(directory, f"{os.getpid()}.json")
    with open(name + ".part", "w", encoding="utf-8") as file:
        json.dump(rows, file)
    os.rename(name + ".part", name)


def _collect(node: Node, path: list[str], rows: list[tuple[list[str], str, float]]) -> None:
    rows += [(path, site, amount) for site, amount in node.counts.items()]
    for name, child in node.children.items():
        _collect(child, [*path, name], rows)


def _counted(site: str, values: "Iterator[Any]") -> "Iterator[Any]":
    for value in values:
        state.node.add(site, 1)
        yield value


def _size(value: "Any") -> int:
    """How many elements; 0 for what has none."""
    kind = type(value)
    if kind in SCALARS and kind is not str:
        return 0
    if kind in CONTAINERS:
        return len(value)
    if kind.__module__.startswith("mpi4py."):
        return 0  # the size of a communicator is ranks, and handing it on is no work
    size = getattr(value, "size", None)
    return size if type(size) is int else 0


def _message(
    function: "Callable[..., Any]",
    owner: "Any",
    args: "tuple[Any, ...]",
    keywords: "dict[str, Any]",
) -> "Any":
    """An MPI call: its visits, the elements it moves, and the ranks that a collective spans."""
    name = getattr(function, "__name__", "")
    node = state.node.child(f"MPI_{name.capitalize()}")
    node.add("visits", 1)
    parts = [*args, *keywords.values()]
    moved = sum(_size(part[0] if type(part) in (list, tuple) and part else part) for part in parts)
    value = function(*args, **keywords)
    moved += _size(value) if type(value) in CONTAINERS else 0
    if moved:
        node.add("elements", moved)
    if name.lower().lstrip("i") in COLLECTIVES:
        node.add("ranks", owner.Get_size())
    return value
