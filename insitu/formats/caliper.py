"""Measurements of Caliper: .cali files, read by caliper-reader, and its json-split.

A file is one run. Its number of ranks is what Caliper kept as mpi.world.size or jobsize, else how
many ranks have values; numbers that Adiak kept (problem_size, iterations) are no parameters, since
many of them are results: name parameters in the file, as in `heat.p16.n256.cali`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from insitu.entities import ARROW, RANKS, TIME, TIME_EXCLUSIVE, VISITS
from insitu.errors import UsageError
from insitu.formats.jsonl import MAX_RANKS
from insitu.formats.reading import Row, load_json, parse_file_name

RANK = "mpi.rank"
SIZES = ("mpi.world.size", "jobsize")
NESTED = ("path", "region", "function", "annotation")  # which attribute names the call path
NANOSECONDS = "time.duration.ns"
OWN = {
    "inclusive#sum#time.duration": (TIME.name, "s"),
    "sum#inclusive#time.duration": (TIME.name, "s"),
    "avg#inclusive#sum#time.duration": (TIME.name, "s"),
    "time (inc)": (TIME.name, "s"),
    "sum#time.duration": (TIME_EXCLUSIVE.name, "s"),
    "avg#sum#time.duration": (TIME_EXCLUSIVE.name, "s"),
    "time": (TIME_EXCLUSIVE.name, "s"),
    "count": (VISITS.name, "1"),
    "sum#count": (VISITS.name, "1"),
}
# What caliper-reader raises at lines that are no records.
BROKEN = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError)
Values = dict[tuple[str, str, str], dict[int, float]]


class Caliper:
    """A .cali file."""

    name = "caliper"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        try:
            import caliperreader
            from caliperreader.readererror import ReaderError
        except ImportError as error:
            raise UsageError(
                f"{file}: Caliper's files need caliper-reader ({error});"
                " pip install 'insitu[import]'"
            ) from error
        try:
            records, globals_ = caliperreader.read_caliper_contents(file)
        except (*BROKEN, OSError, ReaderError) as error:
            raise UsageError(
                f"{file}: cannot be read as a .cali file: {type(error).__name__}: {error!s:.100}"
            ) from error
        yield from _rows(records, globals_, file)


class CaliperJson:
    """Caliper's json-split: columns, data, nodes."""

    name = "caliper-json"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        data = load_json(file)
        try:
            records = list(_records(data))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise UsageError(f"{file}: not as Caliper's json-split is: {error!r}") from error
        yield from _rows(records, data, file)


def _records(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Each row of data with the names of its columns; references to nodes as lists of labels."""
    nodes, columns = data["nodes"], data["columns"]
    are_values = [one.get("is_value", False) for one in data["column_metadata"]]

    def frames(index: int | None) -> list[str]:
        names: list[str] = []
        while index is not None and len(names) <= len(nodes):
            names.append(str(nodes[index]["label"]))
            index = nodes[index].get("parent")
        return names[::-1]

    for row in data["data"]:
        yield {
            name: value if is_value else frames(value)
            for name, value, is_value in zip(columns, row, are_values, strict=True)
            if value is not None
        }


def _rows(
    records: Iterable[Mapping[str, Any]], said: Mapping[str, Any], file: str
) -> Iterator[Row]:
    values: Values = {}
    nested: set[str] = set()
    for record in records:
        lists = (value for value in record.values() if isinstance(value, list))
        frames = next((record[name] for name in NESTED if name in record), next(lists, None))
        if not frames:
            continue  # time outside of every region
        parts = frames if isinstance(frames, list) else [frames]
        path = ARROW.join(str(part).replace(ARROW, "→").strip() or "?" for part in parts)
        nested.add(path)
        rank = _whole(record.get(RANK, 0), RANK, file)
        for name, text in record.items():
            amount = _amount(text)
            if amount is None or name == RANK:
                continue
            amount *= 1e-9 if name.endswith(NANOSECONDS) else 1.0
            told = name.removesuffix(".ns")
            metric, unit = OWN.get(told, (told, "s" if told.endswith("time.duration") else "1"))
            here = values.setdefault((path, metric, unit), {})
            here[rank] = here.get(rank, 0.0) + amount
    seen = {rank for ranks in values.values() for rank in ranks}
    sizes = [_whole(said[name], name, file) for name in SIZES if name in said]
    size = sizes[0] if sizes else max(seen, default=0) + 1
    params, repetition = parse_file_name(file)
    for (path, metric, unit), ranks in values.items():
        row: dict[str, Any] = {
            "callpath": path,
            "metric": metric,
            "unit": unit,
            "params": {RANKS: float(size)} | params,
        }
        if repetition is not None:
            row["repetition"] = repetition
        if len(seen) > 1:
            yield row | {"ranks": [ranks.get(rank) for rank in range(max(seen) + 1)]}
        else:
            yield row | {"value": ranks[min(seen)]}


def _whole(value: object, name: str, file: str) -> int:
    """A rank or a number of ranks.

    Raises:
        UsageError: it is none.
    """
    number = _amount(value)
    if number is None or not 0 <= number <= MAX_RANKS:
        raise UsageError(f"{file}: {name} is {value!r:.40}, which is no rank and no number of them")
    return int(number)


def _amount(value: object) -> float | None:
    """A number, also one that is written as text; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
