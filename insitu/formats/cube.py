"""Imports measurements of Score-P: CUBE4 files, read by pycubexr.

A file is one run. Its parameters are part of the name of its directory or its own, as Extra-P has
it: `heat.p16.n256.r2/profile.cubex`. Without `p`, the number of ranks in the file is used. Values
of the threads of a rank are added up.
"""

import os
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

from insitu.entities import ARROW, BYTES_RECEIVED, BYTES_SENT, RANKS, TIME, TIME_EXCLUSIVE, VISITS
from insitu.errors import UsageError
from insitu.extras import install_command
from insitu.formats.reading import FILE, Row, make_unique, parse_file_name

UNITS = {"sec": "s", "bytes": "B", "occ": "1"}
OWN = {
    "visits": VISITS.name,
    "bytes_sent": BYTES_SENT.name,
    "bytes_received": BYTES_RECEIVED.name,
}
# What pycubexr raises for a damaged file. A MemoryError is for `limit_memory`.
BROKEN = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    SyntaxError,  # of XML
    RecursionError,
    tarfile.TarError,
    zlib.error,
    struct.error,
)


class Cube:
    """One file, or a directory of directories with a file per run."""

    name = "cube"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        try:
            from pycubexr import CubexParser
            from pycubexr.utils.exceptions import CorruptIndexError, MissingMetricError
        except ImportError as error:
            raise UsageError(
                f"{file}: Score-P's files need pycubexr ({error}); {install_command('import')}"
            ) from error

        for path in _files(file):
            try:
                with CubexParser(path) as parsed:
                    yield from _file_rows(path, parsed, MissingMetricError)
            except (*BROKEN, CorruptIndexError) as error:
                raise UsageError(
                    f"{path}: cannot be read as CUBE4 ({type(error).__name__}); the file may be"
                    " incomplete"
                ) from error


def _files(path: str) -> Sequence[str]:
    if not os.path.isdir(path):
        return [path]
    files = []
    for folder, _, names in os.walk(path):
        for name in names:
            if name.endswith(".cubex") and not name.startswith("."):
                files.append(os.path.join(folder, name))
    if not files:
        raise UsageError(f"{path}: there is no .cubex file in it")
    return sorted(files)


def _file_rows(
    file: str, parsed: Any, missing: type[Exception]
) -> Iterator[Row]:  # Any: pycubexr has no types
    params, repetition = parse_file_name(file)
    ranks = _ranks(parsed.get_locations())
    size = max(ranks) + 1
    callpaths = _callpaths(parsed)
    parameters = {RANKS: float(size)} | params

    for metric in parsed.all_metrics():
        try:
            values = parsed.get_metric_values(metric, cache=False)
        except missing:
            continue
        unit = UNITS.get(metric.units, metric.units or "1")
        is_time = metric.name == "time"
        kinds = ((TIME.name, True), (TIME_EXCLUSIVE.name, False)) if is_time else (("", False),)
        for cnode in parsed.all_cnodes():
            for name, is_inclusive in kinds:
                of_locations = values.cnode_values(
                    cnode,
                    convert_to_inclusive=is_inclusive,
                    convert_to_exclusive=not is_inclusive,
                )
                if not all(isinstance(value, Real) for value in of_locations[:1]):
                    break  # a metric of minima or of distributions
                totals = [0.0] * size
                for rank, value in zip(ranks, of_locations, strict=True):
                    totals[rank] += float(value)
                row: dict[str, Any] = {
                    "callpath": callpaths[cnode.id],
                    "metric": name or OWN.get(metric.name, metric.name),
                    "unit": unit,
                    "params": parameters,
                    "ranks": totals,
                }
                row |= {FILE: file} if repetition is None else {"repetition": repetition}
                yield row


def _ranks(locations: Sequence[Any]) -> list[int]:
    """Return the rank of each location; location 0 is the first thread of a process."""
    ranks: list[int] = []
    current = -1
    for location in locations:
        current += int(location.rank) == 0 or current < 0
        ranks.append(current)
    return ranks


def _callpaths(parsed: Any) -> dict[int, str]:
    """Return the call path of each node of the call tree; duplicates get a number."""
    names: dict[int, str] = {}
    used: set[str] = set()

    def walk(node: Any, before: str) -> None:
        frame = node.region.name.replace(ARROW, "→").strip() or "?"
        path = f"{before}{ARROW}{frame}" if before else frame
        names[node.id] = unique = make_unique(path, used)
        used.add(unique)
        for child in node.get_children():
            walk(child, unique)

    for root in parsed.get_root_cnodes():
        walk(root, "")
    return names
