"""What counted pilot runs leave: insitu's own counters, callgrind's, gcov's and clang's."""

import json
import os
import re
from collections.abc import Iterator

from insitu.design.blackbox import Site
from insitu.entities import ARROW
from insitu.errors import UsageError
from insitu.formats.profiles import gcov_counts, proftext_counts

LABEL = "label"
# What works on as much as it is given, in the C library: what it costs is of who calls it.
_WORKING = re.compile(
    r"_*(w?mem(cpy|move|set|cmp|chr)|str(len|n?cpy|n?cat|n?cmp|n?dup|r?chr|str)|qsort|bsearch)(?![a-z])"
)
_DEEPER = re.compile(r"'\d+\Z")  # behind a function that was called within itself
_NAMED = re.compile(r"\((\d+)\)(?: (.+))?\Z")


def read_counts(directory: str) -> dict[Site, float]:
    """The greatest count of all ranks by site, from every file of a pilot run.

    Raises:
        UsageError: a file cannot be read.
    """
    found: dict[Site, float] = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        reader = READERS.get(os.path.splitext(name)[1])
        if reader is None:
            continue
        rows = reader(path)
        totals: dict[Site, float] = {}
        for site, amount in rows:
            totals[site] = totals.get(site, 0.0) + amount
        for site, amount in totals.items():
            found[site] = max(found.get(site, 0.0), amount)
    return found


def read_labels(directory: str) -> dict[str, frozenset[str]]:
    """The parameters that a labelled run names, by call path: of all ranks.

    Raises:
        UsageError: a file cannot be read.
    """
    found: dict[str, frozenset[str]] = {}
    for path, site in read_counts(directory):
        kind, _, name = site.partition(":")
        if kind == LABEL:
            found[path] = found.get(path, frozenset()) | {name}
    return found


def _own(path: str) -> Iterator[tuple[Site, float]]:
    """Rows of `[[frames], site, amount]`."""
    try:
        with open(path, encoding="utf-8") as file:
            for frames, site, amount in json.load(file):
                if frames:
                    yield (ARROW.join(frames), str(site)), float(amount)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: no counts of a pilot run: {error}") from error


def _callgrind(path: str) -> Iterator[tuple[Site, float]]:
    """Instructions of each function of the program itself, without what it calls.

    Only the object that was started counts, and what it has the C library copy, fill, compare and
    sort; other libraries, MPI's polling among them, do not. The format is that of callgrind's
    manual: names are given once and then called by their number, and the line after `calls=` is the
    cost of the callee.
    """
    objects: dict[str, str] = {}
    functions: dict[str, str] = {}
    program, here, function, callee, is_callee = "", "", "", "", False
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in map(str.rstrip, file):
                key, equals, value = line.partition("=")
                if line.startswith("cmd: "):
                    program = os.path.basename(line.split()[1])
                elif equals and key == "ob":
                    here = _name(value, objects)
                elif equals and key == "fn":
                    function = _DEEPER.sub("", _name(value, functions))
                elif equals and key == "calls":
                    is_callee = True
                elif equals and key in ("cob", "cfn", "cfi", "cfl", "fl", "fi", "fe"):
                    if key == "cfn":
                        callee = _name(value, functions)
                    elif key == "cob":
                        _name(value, objects)
                elif line[:1].isdigit() or line[:1] in "+-*":
                    parts = line.split()
                    is_own = os.path.basename(here) == program and not function.startswith("0x")
                    if is_own and len(parts) > 1 and parts[1].isdigit():
                        if not is_callee:
                            yield (function, "instructions"), float(parts[1])
                        elif _WORKING.match(callee):
                            yield (function, f"library:{callee}"), float(parts[1])
                    is_callee = False
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _name(text: str, known: dict[str, str]) -> str:
    """`(3) main` gives number 3 its name, `(3)` calls it by it."""
    found = _NAMED.match(text)
    if found is None:
        return text
    number, name = found.groups()
    if name:
        known[number] = name
    return known.get(number, number)


READERS = {
    ".json": _own,
    ".callgrind": _callgrind,
    ".gcov": gcov_counts,
    ".proftext": proftext_counts,
}
