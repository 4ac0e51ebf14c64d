"""Measurements of Score-P: its CUBE4 files, read by pycubexr.

A file is one run. Its parameters stand in the name of its directory or of itself, as Extra-P has
it: `heat.p16.n256.r2/profile.cubex`; without `p` the run has as many ranks as the file. Values of
the threads of a rank are added up.
"""

import os
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from insitu.entities import ARROW, BYTES_RECEIVED, BYTES_SENT, RANKS, TIME, TIME_EXCLUSIVE, VISITS
from insitu.errors import UsageError
from insitu.formats.reading import Row, make_unique, parse_file_name

UNITS = {"sec": "s", "bytes": "B", "occ": "1"}
OWN = {
    "visits": VISITS.name,
    "bytes_sent": BYTES_SENT.name,
    "bytes_received": BYTES_RECEIVED.name,
}
# What pycubexr raises at a damaged file, from its archive to its numbers.
BROKEN = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    SyntaxError,  # of XML
    MemoryError,
    RecursionError,
    tarfile.TarError,
    zlib.error,
    struct.error,
)


class Cube:
    """One file, or a directory that holds a directory with a file per run."""

    name = "cube"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        try:
            from pycubexr import CubexParser
            from pycubexr.utils.exceptions import CorruptIndexError, MissingMetricError
        except ImportError as error:
            raise UsageError(
                f"{file}: Score-P's files need pycubexr ({error}); pip install 'insitu[import]'"
            ) from error
        for path in _files(file):
            params, repetition = parse_file_name(path)
            try:
                with CubexParser(path) as parsed:
                    yield from _of_file(parsed, params, repetition, MissingMetricError)
            except (*BROKEN, CorruptIndexError) as error:
                raise UsageError(
                    f"{path}: cannot be read as CUBE4 ({type(error).__name__}); is it all that"
                    " Score-P wrote?"
                ) from error


def _files(path: str) -> Sequence[str]:
    if not os.path.isdir(path):
        return [path]
    found = sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.endswith(".cubex") and not name.startswith(".")
    )
    if not found:
        raise UsageError(f"{path}: no file in it ends in .cubex")
    return found


def _of_file(
    parsed: Any, params: Mapping[str, float], repetition: int | None, missing: type[Exception]
) -> Iterator[Row]:  # Any: pycubexr has no types
    ranks = _ranks(parsed.get_locations())
    size = max(ranks) + 1
    callpaths = _callpaths(parsed)
    said = {RANKS: float(size)} | dict(params)
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
                found = values.cnode_values(
                    cnode,
                    convert_to_inclusive=is_inclusive,
                    convert_to_exclusive=not is_inclusive,
                )
                if not all(isinstance(value, Real) for value in found[:1]):
                    break  # a metric of minima or of distributions
                totals = [0.0] * size
                for rank, value in zip(ranks, found, strict=True):
                    totals[rank] += float(value)
                row: dict[str, Any] = {
                    "callpath": callpaths[cnode.id],
                    "metric": name or OWN.get(metric.name, metric.name),
                    "unit": unit,
                    "params": said,
                    "ranks": totals,
                }
                if repetition is not None:
                    row["repetition"] = repetition
                yield row


def _ranks(locations: Sequence[Any]) -> list[int]:
    """The rank of each location: a location numbered 0 is the first thread of a process."""
    ranks: list[int] = []
    current = -1
    for one in locations:
        current += int(one.rank) == 0 or current < 0
        ranks.append(current)
    return ranks


def _callpaths(parsed: Any) -> dict[int, str]:
    """The call path of each node of the call tree; two of the same name get a number."""
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
