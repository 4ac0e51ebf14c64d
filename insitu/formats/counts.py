"""Reads the counts of pilot runs: those of insitu, callgrind, gcov and clang."""

import json
import os
import re
import time
from collections.abc import Iterator

from insitu.collectors.function_names import plain_name
from insitu.collectors.symbols import Symbols
from insitu.design.blackbox import Site
from insitu.entities import ARROW
from insitu.errors import UsageError
from insitu.formats.profiles import gcov_counts, proftext_counts

LABEL = "label"
TAINT_ANALYSIS = ("insitu_taint_", "dfsw$", "__dfsw_", "__dfsan", "dfsan_", "__sanitizer")
# Functions of the C library with work proportional to their arguments; it is the caller's.
_WORK_OF_CALLER = re.compile(
    r"_*(w?mem(cpy|move|set|cmp|chr)|str(len|n?cpy|n?cat|n?cmp|n?dup|r?chr|str)|qsort|bsearch)(?![a-z])"
)
_DEEPER = re.compile(r"'\d+\Z")  # suffix of a recursive call
_NUMBERED = re.compile(r"\((\d+)\)(?: (.+))?\Z")


def read_counts(directory: str) -> dict[Site, float]:
    """Return the largest count of all ranks by site, from every file of a pilot run.

    Raises:
        UsageError: a file cannot be read.
    """
    largest: dict[Site, float] = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        reader = READERS.get(os.path.splitext(name)[1])
        if reader is None:
            continue

        totals: dict[Site, float] = {}
        for site, amount in reader(path):
            totals[site] = totals.get(site, 0.0) + amount
        for site, amount in totals.items():
            largest[site] = max(largest.get(site, 0.0), amount)

    return largest


def read_labels(directory: str) -> dict[str, frozenset[str]]:
    """Return the parameters that label each call path in a labelled run, from all ranks.

    Raises:
        UsageError: a file cannot be read.
    """
    labels: dict[str, frozenset[str]] = {}
    for path, site in read_counts(directory):
        kind, _, name = site.partition(":")
        if kind == LABEL:
            labels[path] = labels.get(path, frozenset()) | {name}
    return labels


def _insitu_counts(path: str) -> Iterator[tuple[Site, float]]:
    """Yield the counts of insitu's own counters, rows of `[[frames], site, amount]`."""
    try:
        with open(path, encoding="utf-8") as file:
            for frames, site, amount in json.load(file):
                if frames:
                    yield (ARROW.join(frames), str(site)), float(amount)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: not the counts of a pilot run: {error}") from error


def _callgrind_counts(path: str) -> Iterator[tuple[Site, float]]:
    """Yield the instructions of each function of the program itself, without its callees.

    Only the executable counts, and what the C library copies, fills, compares and sorts for it;
    other libraries, including MPI's polling, do not. The format is described in callgrind's manual:
    a name is given once with a number and then referred to by that number, and the line after
    `calls=` is the cost of the callee.
    """
    objects: dict[str, str] = {}
    functions: dict[str, str] = {}
    program, current_object, function, callee, is_callee = "", "", "", "", False

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in map(str.rstrip, file):
                key, equals, value = line.partition("=")
                if line.startswith("cmd: "):
                    program = os.path.basename(line.split()[1])
                elif equals and key == "ob":
                    current_object = _resolve_name(value, objects)
                elif equals and key == "fn":
                    function = plain_name(_DEEPER.sub("", _resolve_name(value, functions)))
                elif equals and key == "calls":
                    is_callee = True
                elif equals and key in ("cob", "cfn", "cfi", "cfl", "fl", "fi", "fe"):
                    if key == "cfn":
                        callee = _resolve_name(value, functions)
                    elif key == "cob":
                        _resolve_name(value, objects)
                elif line[:1].isdigit() or line[:1] in "+-*":
                    words = line.split()
                    is_own = os.path.basename(
                        current_object
                    ) == program and not function.startswith("0x")
                    if is_own and len(words) > 1 and words[1].isdigit():
                        if not is_callee:
                            yield (function, "instructions"), float(words[1])
                        elif _WORK_OF_CALLER.match(callee):
                            yield (function, f"library:{callee}"), float(words[1])
                    is_callee = False
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _resolve_name(text: str, names: dict[str, str]) -> str:
    """Return the name: `(3) main` defines number 3, `(3)` refers to it."""
    fields = _NUMBERED.match(text)
    if fields is None:
        return text
    number, name = fields.groups()
    if name:
        names[number] = name
    return names.get(number, number)


def _taint_labels(path: str) -> Iterator[tuple[Site, float]]:
    """Yield the parameters that label branches of each function, as insitu_taint.c writes them.

    The first line has the labels, `BIT:INDEX:NAME` each; then there is a line per branch.
    """
    symbols = Symbols()
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            labels = [word.split(":", 2) for word in next(file, "").split()]
            names = {int(bit): name for bit, _, name in labels}
            for line in file:
                mask, *frames = line.rstrip("\n").split("\t")
                function = next(filter(None, (_program_function(symbols, f) for f in frames)), "")
                for bit, name in names.items():
                    if int(mask) & bit and function:
                        yield (function, f"{LABEL}:{name}"), 1.0
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not the labels of a pilot run: {error}") from error


def _program_function(symbols: Symbols, frame: str) -> str:
    """The function of a frame, `ADDRESS OBJECT`; "" if it belongs to the taint analysis."""
    address, _, file = frame.partition(" ")
    name = symbols.name(file, address, before_ns=time.time_ns())
    return "" if name.startswith(TAINT_ANALYSIS) else name


READERS = {
    ".json": _insitu_counts,
    ".taint": _taint_labels,
    ".callgrind": _callgrind_counts,
    ".gcov": gcov_counts,
    ".proftext": proftext_counts,
}
