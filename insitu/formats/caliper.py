"""Imports measurements of Caliper: .cali files, read by caliper-reader, and its json-split.

A file is one run. Its number of ranks is mpi.world.size or jobsize if Caliper recorded them,
otherwise the number of ranks with values. Numbers that Adiak recorded (problem_size, iterations)
are not parameters, since many of them are results: put parameters into the name of the file, as in
`heat.p16.n256.cali`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from insitu.entities import ARROW, RANKS, TIME, TIME_EXCLUSIVE, VISITS
from insitu.errors import UsageError
from insitu.extras import install_command
from insitu.formats.reading import FILE, Row, load_json, parse_file_name
from insitu.formats.run_records import MAX_RANKS

RANK = "mpi.rank"
SIZES = ("mpi.world.size", "jobsize")
CALL_PATHS = ("path", "region", "function", "annotation")  # attributes with the call path
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
OVER_RANKS = ("min", "max", "sum")  # beside the mean of all ranks, which takes their place
# What caliper-reader raises for lines that are not records.
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
                f" {install_command('import')}"
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
            raise UsageError(f"{file}: not Caliper's json-split: {error!r}") from error
        yield from _rows(records, data, file)


def _records(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each row by the names of its columns; node references become lists of labels."""
    nodes, columns = data["nodes"], data["columns"]
    are_values = [column.get("is_value", False) for column in data["column_metadata"]]

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
    records: Iterable[Mapping[str, Any]], metadata: Mapping[str, Any], file: str
) -> Iterator[Row]:
    values: Values = {}
    for record in records:
        lists = (value for value in record.values() if isinstance(value, list))
        frames = next((record[name] for name in CALL_PATHS if name in record), next(lists, None))
        if not frames:
            continue  # time outside all regions
        names = frames if isinstance(frames, list) else [frames]
        path = ARROW.join(str(name).replace(ARROW, "→").strip() or "?" for name in names)
        rank = _parse_count(record.get(RANK, 0), RANK, file)
        for name, text in record.items():
            amount = _parse_number(text)
            if amount is None or name == RANK:
                continue
            amount *= 1e-9 if name.endswith(NANOSECONDS) else 1.0
            base = name.removesuffix(".ns")
            metric, unit = _metric_of(base)
            of_ranks = values.setdefault((path, metric, unit), {})
            of_ranks[rank] = of_ranks.get(rank, 0.0) + amount

    seen = set().union(*values.values())
    sizes = [_parse_count(metadata[name], name, file) for name in SIZES if name in metadata]
    size = sizes[0] if sizes else max(seen, default=0) + 1

    params, repetition = parse_file_name(file)

    for (path, metric, unit), ranks in values.items():
        row: dict[str, Any] = {
            "callpath": path,
            "metric": metric,
            "unit": unit,
            "params": {RANKS: float(size)} | params,
        }
        row |= {FILE: file} if repetition is None else {"repetition": repetition}
        if len(seen) > 1:
            yield row | {"ranks": [ranks.get(rank) for rank in range(max(seen) + 1)]}
        else:
            yield row | {"value": ranks[min(seen)]}


def _metric_of(name: str) -> tuple[str, str]:
    """The metric and the unit of an attribute: `max#inclusive#sum#time.duration` is `time_max`."""
    if name in OWN:
        return OWN[name]
    statistic, _, rest = name.partition("#")
    if statistic in OVER_RANKS and rest in OWN:
        metric, unit = OWN[rest]
        return f"{metric}_{statistic}", unit
    return name, "s" if name.endswith("time.duration") else "1"


def _parse_count(value: object, name: str, file: str) -> int:
    """Return a rank or a number of ranks.

    Raises:
        UsageError: the value is neither.
    """
    number = _parse_number(value)
    if number is None or not 0 <= number <= MAX_RANKS:
        raise UsageError(
            f"{file}: {name} is {value!r:.40}, which is not a rank or a number of ranks"
        )
    return int(number)


def _parse_number(value: object) -> float | None:
    """Return a finite number, also from text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
