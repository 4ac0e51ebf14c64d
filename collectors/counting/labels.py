"""What labelled code calls: numbers and shapes that carry the parameters they come from.

Words of the command line and the size of a communicator are labelled to begin with. What is
computed from them carries their labels on: numbers and texts in types of their own, arrays and
containers in a table beside them, an array with labels for each of its axes. A call path gets the
labels of how often its loops run, of how large its arrays are, and of what it decides by. These
are reasons to look farther, no more: a label says that a parameter may matter, not that it does.
"""

import json
import operator
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import FunctionType

from insitu.collectors.counting import counters
from insitu.collectors.counting.counters import (
    CONSTANT,
    end,
    enter,
    leave,
    resume,
    start,
    suspend,
)

__all__ = [
    "end",
    "enter",
    "leave",
    "resume",
    "start",
    "suspend",
]  # rewritten code finds all it calls here

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "INSITU_LABELS"
SITE = "label:"
KEPT = 20_000  # containers that are remembered, those last looked at
ELEMENTS = 16  # of a list or tuple that are asked for their labels
NONE: frozenset[str] = frozenset()
SIZED = (list, tuple, dict, set, frozenset, range, bytes, bytearray)
STREAMS = (enumerate, zip, map, filter, reversed)
Labels = frozenset[str]


class Int(int):
    """A whole number with labels."""

    labels: Labels


class Real(float):
    """A number with labels."""

    labels: Labels


class Text(str):
    """A text with labels, which its parts keep."""

    labels: Labels

    def split(self, *args: "Any", **keywords: "Any") -> list[str]:
        """As str.split."""
        return [labelled(one, self.labels) for one in str.split(self, *args, **keywords)]

    def partition(self, separator: str) -> tuple[str, str, str]:
        """As str.partition."""
        one, middle, other = str.partition(self, separator)
        return labelled(one, self.labels), middle, labelled(other, self.labels)

    def strip(self, characters: str | None = None) -> str:
        """As str.strip."""
        return labelled(str.strip(self, characters), self.labels)  # type: ignore[no-any-return]

    def __getitem__(self, key: "Any") -> str:
        return labelled(str.__getitem__(self, key), self.labels)  # type: ignore[no-any-return]


section = slice
CARRIERS: "dict[type, type[Any]]" = {int: Int, float: Real, str: Text}


class Known:
    """Labels of objects that cannot carry them: of each axis, and of what they hold."""

    def __init__(self) -> None:
        self._weak: dict[int, tuple[Any, tuple[Labels, ...], Labels]] = {}
        self._strong: OrderedDict[int, tuple[Any, tuple[Labels, ...], Labels]] = OrderedDict()

    def put(self, value: "Any", axes: tuple[Labels, ...], held: Labels) -> None:
        """Remember the labels of an object as long as it lives, or as long as there is room."""
        at = id(value)
        try:
            self._weak[at] = (weakref.ref(value, lambda _: self._weak.pop(at, None)), axes, held)
        except TypeError:
            self._strong[at] = (value, axes, held)
            if len(self._strong) > KEPT:
                self._strong.popitem(last=False)

    def of(self, value: "Any") -> "tuple[tuple[Labels, ...], Labels] | None":
        """Labels of the axes and of what is held; None where there are none."""
        at = id(value)
        found = self._weak.get(at)
        if found is not None:
            return found[1:] if found[0]() is value else None
        found = self._strong.get(at)
        if found is None:
            return None
        self._strong.move_to_end(at)
        return found[1:]


class Sources:
    """The parameter that is the number of ranks; what comprehensions under way run over."""

    def __init__(self) -> None:
        self.ranks = NONE
        self.gathered: list[Labels] = []


known = Known()
sources = Sources()


def begin(arguments: list[str]) -> list[str]:
    """Label the words of the command line as the environment says, counted from the last."""
    said = json.loads(os.environ.pop(VARIABLE))
    sources.ranks = frozenset(said["ranks"])
    words = list(arguments)
    for at, names in said["words"].items():
        if -int(at) <= len(words):
            words[int(at)] = labelled(words[int(at)], frozenset(names))
    return words


def labelled(value: "Any", labels: Labels) -> "Any":
    """A number or text with labels; anything else as it is."""
    kind = CARRIERS.get(type(value))
    if kind is None or not labels:
        return value
    found = kind(value)
    found.labels = labels
    return found


def labels_of(value: "Any") -> Labels:
    """All labels of a value: its own, of its axes, of what it holds."""
    if type(value) in (Int, Real, Text):
        found: Labels = value.labels
        return found
    noted = known.of(value)
    if noted is not None:
        return NONE.union(noted[1], *noted[0])
    if type(value) in (list, tuple):
        return NONE.union(*map(labels_of, value[:ELEMENTS]))
    if type(value) is slice:
        return NONE.union(*map(labels_of, (value.start, value.stop, value.step)))
    return NONE


def size_labels(value: "Any") -> Labels:
    """Labels of how much a value holds."""
    noted = known.of(value)
    return NONE if noted is None else NONE.union(*noted[0])


def mark(labels: Iterable[str]) -> None:
    """The call path that runs may depend on these parameters."""
    for name in labels:
        counters.state.node.add(SITE + name, 1)


def decide(value: "Any") -> "Any":
    """Something is decided by a value; answers it."""
    labels = labels_of(value)
    if labels:
        mark(labels)
    return value


def iterate(values: "Any") -> "Any":
    """A loop over values begins; answers them."""
    noted = known.of(values)
    if noted is not None:
        mark(noted[0][0] if noted[0] else noted[1])
    return values


def gathering() -> None:
    """A comprehension begins."""
    sources.gathered.append(NONE)


def over(values: "Any") -> "Any":
    """A comprehension runs over values; answers them."""
    if sources.gathered:
        sources.gathered[-1] |= size_labels(values)
    return iterate(values)


def gather(_began: None, values: "Any") -> "Any":
    """A comprehension made these values; answers them."""
    labels = sources.gathered.pop() if sources.gathered else NONE
    if labels and len(values):
        known.put(values, (labels,), NONE)
    return values


def operate(name: str, *operands: "Any") -> "Any":
    """Do what an operator does."""
    return _of_parts(getattr(operator, name)(*operands), operands, is_work=True)


def get(container: "Any", index: "Any") -> "Any":
    """An element or a part of a container."""
    return _of_parts(container[index], (container, index), is_work=False)


def attribute(owner: "Any", name: str) -> "Any":
    """An attribute that tells a size, or gives an array in another shape."""
    value = getattr(owner, name)
    if name == "size" and type(owner).__module__.startswith("mpi4py."):
        return labelled(value, sources.ranks)
    noted = known.of(owner)
    if noted is None:
        return value
    if name == "shape":
        return tuple(labelled(one, of) for one, of in zip(value, noted[0], strict=False))
    if type(value) is int:
        return labelled(value, NONE.union(*noted[0]))
    return _of_parts(value, (owner,), is_work=False)


def call(_site: str, function: "Any", /, *args: "Any", **keywords: "Any") -> "Any":
    """Call it; where it is no function of the program, what it answers gets labels."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is not None and code.co_filename in counters.rewritten:
        return function(*args, **keywords)
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    if type(owner).__module__.startswith("mpi4py."):
        return _message(function, owner, args, keywords)
    if function is map and args:
        args = (_carrying(args[0]), *args[1:])
    if "type" in keywords:  # as argparse has it
        keywords["type"] = _carrying(keywords["type"])
    value = function(*args, **keywords)
    parts = [*args, *keywords.values()]
    if owner is not None and not isinstance(function, type):
        parts.append(owner)
    if function is len:
        noted = known.of(args[0])
        return labelled(value, noted[0][0] if noted and noted[0] else labels_of(args[0]))
    return _of_parts(value, parts, is_work=name not in CONSTANT)


def _carrying(kind: "Any") -> "Callable[[Any], Any]":
    """A constructor that keeps labels, for a library to call."""
    if kind not in (int, float, str):
        return kind  # type: ignore[no-any-return]

    def construct(value: "Any") -> "Any":
        return labelled(kind(value), labels_of(value))

    construct.__name__ = kind.__name__
    return construct


def _of_parts(value: "Any", parts: "Iterable[Any]", *, is_work: bool) -> "Any":
    """A value with the labels of what it was made of.

    An axis that is as long as a number or an axis among the parts has that one's labels; one of
    another length has all, but for a length of 1.
    """
    everything = NONE.union(*map(labels_of, parts))
    if not everything or type(value) is FunctionType:
        return value
    if type(value) in CARRIERS:
        if is_work:
            mark(NONE.union(*map(size_labels, parts)))
        return labelled(value, everything)
    shape = getattr(value, "shape", None)
    if type(shape) is not tuple:
        if type(value) in SIZED:
            shape = (len(value),)
        elif type(value) in STREAMS:
            known.put(value, (NONE.union(*map(size_labels, parts)),), everything)
            return value
        else:
            return value
    if shape and not shape[0]:
        return value  # an empty container may be shared
    lengths: dict[int, Labels] = {}
    for part in parts:
        for length, labels in _lengths(part):
            lengths[length] = lengths.get(length, NONE) | labels
    axes = tuple(lengths.get(one, everything if one > 1 else NONE) for one in shape)
    known.put(value, axes, everything)
    if is_work:
        mark(NONE.union(*axes, *map(size_labels, parts)))
    return value


def _lengths(part: "Any") -> "Iterable[tuple[int, Labels]]":
    """Numbers and lengths of axes with their labels."""
    if isinstance(part, int):
        yield int(part), labels_of(part)
        return
    noted = known.of(part)
    shape = getattr(part, "shape", None)
    if type(shape) is tuple:
        yield from zip(shape, noted[0] if noted else (NONE,) * len(shape), strict=False)
    elif noted is not None and type(part) in SIZED:
        yield len(part), NONE.union(*noted[0])
    elif type(part) in (list, tuple):
        for one in part[:ELEMENTS]:
            yield from _lengths(one)


def _message(
    function: "Callable[..., Any]",
    owner: "Any",
    args: "tuple[Any, ...]",
    keywords: "dict[str, Any]",
) -> "Any":
    """An MPI call: the sizes it moves, and the ranks that a collective spans."""
    name = getattr(function, "__name__", "")
    value = function(*args, **keywords)
    if name == "Get_size":
        return labelled(value, sources.ranks)
    labels = NONE.union(*map(size_labels, args))
    if name.lower().lstrip("i") in counters.COLLECTIVES:
        labels |= sources.ranks
    for one in labels:
        counters.state.node.child(f"MPI_{name.capitalize()}").add(SITE + one, 1)
    return _of_parts(value, args, is_work=False)
