"""The functions that labelled code calls: values carry the names of parameters they depend on.

Words of the command line and the size of a communicator are labelled at the beginning. Whatever is
computed from them has their labels, too: numbers and strings have types with a field for labels;
for arrays and containers a table beside them holds labels, one set for each axis of an array. A
call path gets the labels of the number of its iterations, of the sizes of its arrays, and of the
values that decide its branches.

A label says that a parameter may matter, not that it does.
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
    CONSTANT_TIME,
    end,
    enter,
    leave,
    resume,
    start,
    suspend,
)

# Rewritten code looks up all its functions in this module.
__all__ = ["end", "enter", "leave", "resume", "start", "suspend"]

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "INSITU_LABELS"
SITE = "label:"
MAX_CONTAINERS = 20_000  # containers whose labels are kept, the most recently used ones
MAX_ITEMS = 16  # items of a list or tuple whose labels are looked up
SIZED = (list, tuple, dict, set, frozenset, range, bytes, bytearray)
STREAMS = (enumerate, zip, map, filter, reversed)

Labels = frozenset[str]
NONE: Labels = frozenset()


class LabelledInt(int):
    """An integer with labels."""

    labels: Labels


class LabelledFloat(float):
    """A floating-point number with labels."""

    labels: Labels


class LabelledStr(str):
    """A string with labels, which its substrings inherit."""

    labels: Labels

    def split(self, *args: "Any", **keywords: "Any") -> list[str]:
        """As str.split."""
        return [with_labels(word, self.labels) for word in str.split(self, *args, **keywords)]

    def partition(self, separator: str) -> tuple[str, str, str]:
        """As str.partition."""
        head, middle, tail = str.partition(self, separator)
        return with_labels(head, self.labels), middle, with_labels(tail, self.labels)

    def strip(self, characters: str | None = None) -> str:
        """As str.strip."""
        return with_labels(str.strip(self, characters), self.labels)  # type: ignore[no-any-return]

    def __getitem__(self, key: "Any") -> str:
        return with_labels(str.__getitem__(self, key), self.labels)  # type: ignore[no-any-return]


section = slice
LABELLED_TYPES: "dict[type, type[Any]]" = {
    int: LabelledInt,
    float: LabelledFloat,
    str: LabelledStr,
}


class LabelTable:
    """Labels of objects that have no field for them: those of each axis, and of the elements."""

    def __init__(self) -> None:
        self._weak: dict[int, tuple[Any, tuple[Labels, ...], Labels]] = {}
        self._strong: OrderedDict[int, tuple[Any, tuple[Labels, ...], Labels]] = OrderedDict()

    def put(self, value: "Any", axes: tuple[Labels, ...], elements: Labels) -> None:
        """Store the labels of an object, as long as it lives or there is room."""
        key = id(value)
        try:
            reference = weakref.ref(value, lambda _: self._weak.pop(key, None))
            self._weak[key] = (reference, axes, elements)
        except TypeError:  # lists and other builtin containers have no weak references
            self._strong[key] = (value, axes, elements)
            if len(self._strong) > MAX_CONTAINERS:
                self._strong.popitem(last=False)

    def get(self, value: "Any") -> "tuple[tuple[Labels, ...], Labels] | None":
        """Labels of the axes and of the elements; None if there are none."""
        key = id(value)
        entry = self._weak.get(key)
        if entry is not None:
            return entry[1:] if entry[0]() is value else None
        entry = self._strong.get(key)
        if entry is None:
            return None
        self._strong.move_to_end(key)
        return entry[1:]


class Sources:
    """Where labels come from."""

    def __init__(self) -> None:
        self.ranks = NONE  # labels of the number of ranks
        # For each comprehension that is being evaluated, the labels of what it iterates over.
        self.comprehensions: list[Labels] = []


label_table = LabelTable()
sources = Sources()


def label_arguments(arguments: list[str]) -> list[str]:
    """Label words of the command line as the environment variable says.

    It is a JSON object: `words` maps positions, counted from the last word, to names of parameters;
    `ranks` lists the parameters that the number of ranks stands for.
    """
    settings = json.loads(os.environ.pop(VARIABLE))
    sources.ranks = frozenset(settings["ranks"])
    words = list(arguments)
    for position, names in settings["words"].items():
        i = int(position)
        if -i <= len(words):
            words[i] = with_labels(words[i], frozenset(names))
    return words


def with_labels(value: "Any", labels: Labels) -> "Any":
    """A number or string with labels; any other value unchanged."""
    kind = LABELLED_TYPES.get(type(value))
    if kind is None or not labels:
        return value
    copy = kind(value)
    copy.labels = labels
    return copy


def labels_of(value: "Any") -> Labels:
    """All labels of a value, its axes and its elements."""
    if type(value) in (LabelledInt, LabelledFloat, LabelledStr):
        labels: Labels = value.labels
        return labels
    entry = label_table.get(value)
    if entry is not None:
        return NONE.union(entry[1], *entry[0])
    if type(value) in (list, tuple):
        return NONE.union(*map(labels_of, value[:MAX_ITEMS]))
    if type(value) is slice:
        return NONE.union(*map(labels_of, (value.start, value.stop, value.step)))
    return NONE


def size_labels(value: "Any") -> Labels:
    """Labels of the number of elements of a value."""
    entry = label_table.get(value)
    return NONE if entry is None else NONE.union(*entry[0])


def mark(labels: Iterable[str]) -> None:
    """Note that the current call path may depend on these parameters."""
    for name in labels:
        counters.state.node.add(SITE + name, 1)


def decide(value: "Any") -> "Any":
    """Mark by a value that decides a branch; return it."""
    labels = labels_of(value)
    if labels:
        mark(labels)
    return value


def iterate(values: "Any") -> "Any":
    """Mark by the values that a loop iterates over; return them."""
    entry = label_table.get(values)
    if entry is not None:
        axes, elements = entry
        mark(axes[0] if axes else elements)
    return values


def begin_comprehension() -> None:
    """Begin a comprehension."""
    sources.comprehensions.append(NONE)


def iterate_comprehension(values: "Any") -> "Any":
    """Mark by the values that a comprehension iterates over; return them."""
    if sources.comprehensions:
        sources.comprehensions[-1] |= size_labels(values)
    return iterate(values)


def end_comprehension(_began: None, values: "Any") -> "Any":
    """Label the result of a comprehension; return it."""
    labels = sources.comprehensions.pop() if sources.comprehensions else NONE
    if labels and len(values):
        label_table.put(values, (labels,), NONE)
    return values


def operate(name: str, *operands: "Any") -> "Any":
    """Apply an operator."""
    return _derive(getattr(operator, name)(*operands), operands, is_work=True)


def get(container: "Any", index: "Any") -> "Any":
    """Return an element or a slice of a container."""
    return _derive(container[index], (container, index), is_work=False)


def attribute(owner: "Any", name: str) -> "Any":
    """Return an attribute that is a size, or the same array in another shape."""
    value = getattr(owner, name)
    if name == "size" and type(owner).__module__.startswith("mpi4py."):
        return with_labels(value, sources.ranks)
    entry = label_table.get(owner)
    if entry is None:
        return value

    axes, _ = entry
    if name == "shape":
        return tuple(with_labels(n, labels) for n, labels in zip(value, axes, strict=False))
    if type(value) is int:
        return with_labels(value, NONE.union(*axes))
    return _derive(value, (owner,), is_work=False)


def call(_site: str, function: "Any", /, *args: "Any", **keywords: "Any") -> "Any":
    """Call a function. If it is not part of the program, label its result."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is not None and code.co_filename in counters.rewritten:
        return function(*args, **keywords)

    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    if type(owner).__module__.startswith("mpi4py."):
        return _call_mpi(function, owner, args, keywords)

    if function is map and args:
        args = (_keep_labels(args[0]), *args[1:])
    if "type" in keywords:  # an option of argparse
        keywords["type"] = _keep_labels(keywords["type"])
    value = function(*args, **keywords)

    inputs = [*args, *keywords.values()]
    if owner is not None and not isinstance(function, type):
        inputs.append(owner)
    if function is len:
        entry = label_table.get(args[0])
        labels = entry[0][0] if entry and entry[0] else labels_of(args[0])
        return with_labels(value, labels)
    return _derive(value, inputs, is_work=name not in CONSTANT_TIME)


def _keep_labels(kind: "Any") -> "Callable[[Any], Any]":
    """A constructor like int, float or str that keeps labels, for a library to call."""
    if kind not in (int, float, str):
        return kind  # type: ignore[no-any-return]

    def construct(value: "Any") -> "Any":
        return with_labels(kind(value), labels_of(value))

    construct.__name__ = kind.__name__
    return construct


def _derive(value: "Any", inputs: "Iterable[Any]", *, is_work: bool) -> "Any":
    """Label a value that was computed from inputs.

    An axis with the same length as an axis or a number among the inputs has the labels of that one.
    An axis with another length has all labels, unless its length is 1.
    """
    all_labels = NONE.union(*map(labels_of, inputs))
    if not all_labels or type(value) is FunctionType:
        return value

    if type(value) in LABELLED_TYPES:
        if is_work:
            mark(NONE.union(*map(size_labels, inputs)))
        return with_labels(value, all_labels)

    shape = getattr(value, "shape", None)
    if type(shape) is not tuple:
        if type(value) in STREAMS:
            axis = NONE.union(*map(size_labels, inputs))
            label_table.put(value, (axis,), all_labels)
            return value
        if type(value) not in SIZED:
            return value
        shape = (len(value),)
    if shape and not shape[0]:
        return value  # an empty container may be a shared object

    labels_by_length: dict[int, Labels] = {}
    for source in inputs:
        for length, labels in _lengths(source):
            labels_by_length[length] = labels_by_length.get(length, NONE) | labels

    axes = tuple(labels_by_length.get(n, all_labels if n > 1 else NONE) for n in shape)
    label_table.put(value, axes, all_labels)
    if is_work:
        mark(NONE.union(*axes, *map(size_labels, inputs)))
    return value


def _lengths(value: "Any") -> "Iterable[tuple[int, Labels]]":
    """Numbers and lengths of axes in a value, with their labels."""
    if isinstance(value, int):
        yield int(value), labels_of(value)
        return

    entry = label_table.get(value)
    shape = getattr(value, "shape", None)
    if type(shape) is tuple:
        yield from zip(shape, entry[0] if entry else (NONE,) * len(shape), strict=False)
    elif entry is not None and type(value) in SIZED:
        yield len(value), NONE.union(*entry[0])
    elif type(value) in (list, tuple):
        for item in value[:MAX_ITEMS]:
            yield from _lengths(item)


def _call_mpi(
    function: "Callable[..., Any]",
    owner: "Any",
    args: "tuple[Any, ...]",
    keywords: "dict[str, Any]",
) -> "Any":
    """Call MPI; mark by the sizes that are moved and by the ranks of a collective."""
    name = getattr(function, "__name__", "")
    value = function(*args, **keywords)
    if name == "Get_size":
        return with_labels(value, sources.ranks)

    labels = NONE.union(*map(size_labels, args))
    if name.lower().lstrip("i") in counters.COLLECTIVES:
        labels |= sources.ranks
    for label in labels:
        counters.state.node.child(f"MPI_{name.capitalize()}").add(SITE + label, 1)
    return _derive(value, args, is_work=False)
