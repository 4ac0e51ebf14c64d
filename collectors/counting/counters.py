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

    __slots__ = ("callees", "children", "counts", "name", "parent")

    def __init__(self, name: str, parent: "Node | None" = None) -> None:
        self.name, self.parent = name, parent
        self.children: dict[str, Node] = {}
        self.callees: dict[str, Node] = {}  # children, and where recursion leads back to
        self.counts: dict[str, float] = {}

    def child(self, name: str) -> "Node":
        """The call path of a function called from here; recursion goes back to where it began."""
        found = self.callees.get(name)
        if found is None:
            found = self._again(name)
            if found is None:
                found = self.children[name] = Node(name, self)
            self.callees[name] = found
        return found

    def _again(self, name: str) -> "Node | None":
        """The nearest call path of that name from here up."""
        at: Node | None = self
        while at is not None and at.name != name:
            at = at.parent
        return at

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


class Asked:
    """A generator that began: where it was asked from, None while it waits; its call path."""

    __slots__ = ("before", "name", "node")

    def __init__(self, name: str) -> None:
        self.name = name
        self.resume()

    def resume(self) -> None:
        """It goes on, for whoever asks now."""
        self.before: Node | None = state.node
        self.node = state.node = state.node.child(self.name)

    def suspend(self) -> None:
        """Whoever asked goes on."""
        if self.before is not None:
            state.node, self.before = self.before, None


def start(name: str) -> Asked:
    """A generator is asked for the first time; answers what `suspend`, `resume`, `end` want."""
    asked = Asked(name)
    asked.node.add("visits", 1)
    return asked


def suspend(asked: Asked, value: "Any") -> "Any":
    """It gives a value, which is answered."""
    asked.suspend()
    return value


def resume(asked: Asked, value: "Any") -> "Any":
    """It is asked again, and sent a value, which is answered."""
    asked.resume()
    return value


def end(asked: Asked) -> None:
    """It ends, or is closed while it waits."""
    asked.suspend()


def add_to(asked: Asked, site: str, amount: int) -> None:
    """Count iterations of a loop of a generator."""
    asked.node.add(site, amount)


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
    """Multiply matrices, and count elements: of the first times the columns of the second."""
    columns = right.shape[-1] if len(getattr(right, "shape", ())) > 1 else 1
    state.node.add(site, _size(left) * columns)
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


def _whole_size(value: "Any") -> int:
    """How many elements, those of its parts included."""
    return _size(value) + (sum(map(_size, value)) if type(value) in (list, tuple) else 0)


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
    if name[:1].isupper():  # buffers, each alone or first of its description
        moved = sum(_size(p[0] if type(p) in (list, tuple) and p else p) for p in parts)
    else:
        moved = sum(map(_whole_size, parts))
    value = function(*args, **keywords)
    moved += _whole_size(value) if type(value) in CONTAINERS else 0
    if moved:
        node.add("elements", moved)
    if name.lower().lstrip("i") in COLLECTIVES:
        node.add("ranks", owner.Get_size())
    return value
