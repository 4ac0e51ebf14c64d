"""Counters that compilers insert into programs: gcov's JSON, and clang's profile as text."""

import json
from collections.abc import Iterator

from insitu.collectors.function_names import plain_name
from insitu.design.blackbox import Site
from insitu.errors import UsageError


def gcov_counts(path: str) -> Iterator[tuple[Site, float]]:
    """Yield how often each line of each function ran, from `gcov --json-format --stdout`.

    Any line may be the main loop, so each has `loop:LINE`, its count, and `entries:LINE`, the
    number of calls of its function.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            for text in filter(str.strip, file):
                for source in json.loads(text)["files"]:
                    yield from _source(source)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path}: not a file of `gcov --json-format` of gcc 9 or newer"
            f" ({type(error).__name__}: {error})"
        ) from error


def _source(source: dict[str, list[dict[str, object]]]) -> Iterator[tuple[Site, float]]:
    """Yield the counts of one source file."""
    names: dict[object, str] = {}
    visits: dict[str, float] = {}
    for function in source["functions"]:
        name = plain_name(str(function.get("demangled_name") or function["name"]))
        names[function["name"]] = name
        visits[name] = visits.get(name, 0.0) + float(str(function["execution_count"]))

    counts: dict[Site, float] = {}
    for line in source["lines"]:
        owner = names.get(line.get("function_name"))
        if owner is not None:
            site = (owner, f"loop:{line['line_number']}")
            counts[site] = counts.get(site, 0.0) + float(str(line["count"]))

    for name, count in visits.items():
        yield (name, "visits"), count

    for (name, kind), count in counts.items():
        yield (name, kind), count
        yield (name, "entries:" + kind.partition(":")[2]), visits[name]


def proftext_counts(path: str) -> Iterator[tuple[Site, float]]:
    """Yield how often each region of each function ran, from `llvm-profdata merge -text`.

    The first counter of a function is its number of calls. Any other one may be the main loop, as
    in `gcov_counts`.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip() and line[:1] not in "#:"]
        at = 0
        while at < len(lines):
            name, count = plain_name(_without_file(lines[at])), int(lines[at + 2])
            values = [float(int(word)) for word in lines[at + 3 : at + 3 + count]]
            if len(values) != count:
                raise ValueError(f"{name} has {len(values)} of {count} counters")
            yield (name, "visits"), values[0] if values else 0.0
            for number, value in enumerate(values[1:], start=1):
                yield (name, f"region:{number}"), value
                yield (name, f"entries:{number}"), values[0]
            at += 3 + count
            at = _skip_value_profile(lines, at)
    except (OSError, ValueError, IndexError) as error:
        raise UsageError(f"{path}: not a file of `llvm-profdata merge -text` ({error})") from error


def _skip_value_profile(lines: list[str], at: int) -> int:
    """Skip the value profile that may follow the counters: kinds, sites, and `value:count`."""
    is_end = at >= len(lines) or not lines[at].isdigit()
    if is_end:
        return at
    while at < len(lines) and (lines[at].isdigit() or _is_value(lines[at])):
        at += 1
    return at


def _is_value(line: str) -> bool:
    value, _, count = line.rpartition(":")
    return bool(value) and count.isdigit()


def _without_file(name: str) -> str:
    """Remove the file name before a static function: `app.c:sweep`, or `app.c;sweep`."""
    for separator in (";", ":"):
        head, match, tail = name.rpartition(separator)
        if match and "." in head and tail:
            return tail
    return name
