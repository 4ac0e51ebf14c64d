"""Measurements as JSON Lines, one line per run, call path and metric; also Extra-P's own lines.

    {"callpath": "main->solve", "metric": "time", "unit": "s", "params": {"p": 64}, "repetition": 0,
     "ranks": [one value per rank, null where there is none]}      or "value": x instead of "ranks"

Lines with the same parameters and repetition form a run. Without `p`, the length of `ranks` is the
number of ranks. `value` applies to every rank; a list of values has one per repetition, as in
Extra-P. Values of insitu's own metrics may have another unit, as `us` of times. Without
`repetition`, lines with the same run, call path and metric are repetitions, in order. A line with
`run` describes a run besides its values; see run_records.py.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from insitu.entities import METRICS, RANKS, TIME, CallPath, Metric, RunKey, RunRecord
from insitu.formats.base import BadLine, ImportedRuns
from insitu.formats.reading import FILE
from insitu.formats.run_records import MAX_RANKS, RunDescription, describe_run, parse_run
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, FloatArray, RunTable
from insitu.units import base_unit

MAX_REPETITION = 1_000_000
MAX_VALUES = 2**24  # of a run, 128 MiB, if its lines have far fewer
MAX_GAPS = 16  # a larger run may have this many times the values in its lines
OWN_METRICS = {metric.name: metric for metric in METRICS}
Parameters = tuple[tuple[str, float], ...]


@dataclass(slots=True)
class MeasuredEntry:
    """A value of a run, or a value per rank, and the number of its line."""

    line: int
    values: FloatArray  # one per rank, or a single one for all of them
    is_vector: bool


@dataclass(slots=True)
class Collection:
    """What was read so far."""

    runs: dict[tuple[Parameters, int], dict[tuple[CallPath, str], MeasuredEntry]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    metrics: dict[str, Metric] = field(default_factory=dict)
    ranks: dict[tuple[Parameters, int], MeasuredEntry] = field(
        default_factory=dict
    )  # first vector of a run
    next_repetition: dict[tuple[Parameters, CallPath, str], int] = field(default_factory=dict)
    files: dict[tuple[Parameters, str], int] = field(default_factory=dict)  # their repetitions
    descriptions: dict[tuple[Parameters, int], RunDescription] = field(default_factory=dict)


class JsonLines:
    """Extra-P's JSON Lines with every rank's value."""

    name = "jsonl"
    suffix = ".jsonl"

    def read(self, lines: Iterable[bytes]) -> ImportedRuns:
        """Read all valid lines; each invalid line is reported with its number."""
        collection = Collection()
        bad: list[BadLine] = []
        count = 0
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            count += 1
            try:
                _add_row(collection, number, _parse_line(line))
            except ValueError as error:
                bad.append(BadLine(number, str(error)))
        return _finish(collection, bad, count)

    def take(self, rows: Iterable[Mapping[str, Any]]) -> ImportedRuns:  # Any: JSON
        """Read rows that are parsed already, counted from 1.

        Files with the same parameters that do not say which repetition they are follow each other.
        """
        collection = Collection()
        bad: list[BadLine] = []
        count = 0
        for count, row in enumerate(rows, start=1):
            try:
                _add_row(collection, count, _with_repetition(collection, row))
            except ValueError as error:
                bad.append(BadLine(count, str(error)))
        return _finish(collection, bad, count)

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter: the values of all ranks; models are not part of this format."""
        for key, table in experiment.runs:
            _write_values(key, table, out)

    def write_archive(
        self, records: Sequence[RunRecord], load_table: Callable[[str], RunTable], out: BinaryIO
    ) -> None:
        """See ArchiveExporter: before the values of each run, a line that describes it."""
        for record in records:
            table = load_table(record.id)
            out.write(json.dumps(describe_run(record, table)).encode() + b"\n")
            _write_values(record.key, table, out)


def _write_values(key: RunKey, table: RunTable, out: BinaryIO) -> None:
    params = {name: _short(value) for name, value in key.parameters}
    for metric in table.metrics:
        for row, callpath in zip(table.values[metric.name], table.callpaths, strict=True):
            if np.isnan(row).all():
                continue
            line = {
                "callpath": str(callpath),
                "metric": metric.name,
                "unit": metric.unit,
                "params": params,
                "repetition": key.repetition,
            }
            if row.size == 1 and key.size != 1:
                line["value"] = row.item()  # one value for all ranks, as other tools have it
            else:
                line["ranks"] = [None if math.isnan(value) else value for value in row.tolist()]
            out.write(json.dumps(line, allow_nan=False).encode() + b"\n")


def _finish(collection: Collection, bad: list[BadLine], count: int) -> ImportedRuns:
    runs = []
    records = {}
    for run in dict.fromkeys((*collection.descriptions, *collection.runs)):
        try:
            key, table = _build_run(*run, collection)
        except ValueError as error:
            lines = [entry.line for entry in collection.runs[run].values()]
            bad.append(BadLine(min(lines, default=0), str(error)))
            continue
        runs.append((key, table))
        if run in collection.descriptions:
            records[key] = collection.descriptions[run].record
    files = {
        RunKey.of(dict(parameters), repetition): file
        for (parameters, file), repetition in collection.files.items()
    }
    return ImportedRuns(tuple(runs), tuple(bad), count, records, files)


def _parse_line(line: bytes) -> Mapping[str, Any]:
    try:
        data = json.loads(line.decode("utf-8-sig"), parse_constant=_not_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} in column {error.colno}") from None
    if not isinstance(data, dict):
        raise ValueError('not a JSON object, as in {"callpath": "main", "metric": "time", ...}')
    return data


def _with_repetition(collection: Collection, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with its repetition, where it is of a file without one."""
    if FILE not in row:
        return row
    parameters = _parse_parameters(row.get("params"))
    file = str(row[FILE])
    if (parameters, file) not in collection.files:
        earlier = [known for known, _ in collection.files if known == parameters]
        collection.files[parameters, file] = len(earlier)
    return {**row, "repetition": collection.files[parameters, file]}


def _add_row(collection: Collection, number: int, data: Mapping[str, Any]) -> None:
    """Add one line to its run; a line that is refused changes nothing.

    Raises:
        ValueError: the line is refused; the text contains the reason.
    """
    if "run" in data:
        description = parse_run(data)
        key = description.record.key
        if (key.parameters, key.repetition) in collection.descriptions:
            raise ValueError("describes a run that an earlier line describes")
        collection.descriptions[key.parameters, key.repetition] = description
        for known in description.metrics:
            collection.metrics.setdefault(known.name, known)
        return

    callpath = _parse_callpath(data.get("callpath", "main"))
    metric, scale = _parse_metric(data, collection.metrics)
    parameters = _parse_parameters(data.get("params"))
    repetition = _parse_repetition(data)
    series = (callpath, metric.name)
    entries = list(_parse_entries(number, data, scale))
    if metric.name == TIME.name and any(np.any(entry.values < 0) for entry in entries):
        raise ValueError("holds a time below 0; leave out the line, or write null for a rank")
    if len(entries) > 1 and repetition is not None:
        raise ValueError('a list as "value" is one value per repetition: leave out "repetition"')
    if repetition is None:
        # Lines are never removed, so the search goes on where the last one ended.
        repetition = collection.next_repetition.get((parameters, *series), 0)
        while series in collection.runs.get((parameters, repetition), {}):
            repetition += 1
        collection.next_repetition[parameters, *series] = repetition

    for offset, entry in enumerate(entries):
        _check_consistent(collection, (parameters, repetition + offset), series, entry)

    collection.metrics[metric.name] = metric

    for offset, entry in enumerate(entries):
        run = (parameters, repetition + offset)
        collection.runs[run][series] = entry
        if entry.is_vector:
            collection.ranks.setdefault(run, entry)


def _check_consistent(
    collection: Collection,
    run: tuple[Parameters, int],
    series: tuple[CallPath, str],
    entry: MeasuredEntry,
) -> None:
    before = collection.runs.get(run, {}).get(series)
    if before is not None:
        raise ValueError(f"repeats line {before.line}")
    p = dict(run[0]).get(RANKS, float(entry.values.size))
    description = collection.descriptions.get(run)
    is_stored_so = description is not None and description.size == entry.values.size
    if entry.is_vector and entry.values.size != p and not is_stored_so:
        raise ValueError(f"has values of {entry.values.size} ranks, but {RANKS} is {p:g}")
    other = collection.ranks.get(run)
    if entry.is_vector and other is not None and other.values.size != entry.values.size:
        raise ValueError(
            f"has {entry.values.size} ranks, but line {other.line} of the same run has"
            f" {other.values.size}"
        )


def _parse_entries(number: int, data: Mapping[str, Any], scale: float) -> Iterator[MeasuredEntry]:
    if ("ranks" in data) == ("value" in data):
        raise ValueError('needs one of "ranks" (a list, one value per rank) and "value"')
    if "ranks" in data:
        ranks = data["ranks"]
        if not isinstance(ranks, list) or not 0 < len(ranks) <= MAX_RANKS:
            raise ValueError('"ranks" is not a list of one value per rank')
        values = [math.nan if value is None else _number(value, '"ranks"') for value in ranks]
        yield MeasuredEntry(number, scale * np.array(values), True)
        return
    value = data["value"]
    repetitions = value if isinstance(value, list) else [value]
    if not repetitions:
        raise ValueError('"value" is an empty list')

    for repetition in repetitions:
        yield MeasuredEntry(number, scale * np.array([_number(repetition, '"value"')]), False)


def _parse_callpath(value: object) -> CallPath:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('"callpath" must be text, as in "main->solve"')
    callpath = CallPath.parse(value)
    if not all(callpath.frames):
        raise ValueError(f'"callpath" has an empty frame: {value!r:.60}')
    return callpath


def _parse_metric(data: Mapping[str, Any], metrics: Mapping[str, Metric]) -> tuple[Metric, float]:
    """The metric of a line, and the factor to its unit: views expect insitu's own in base units."""
    name = data.get("metric", TIME.name)
    if not isinstance(name, str) or not name.strip():
        raise ValueError('"metric" must be text, as in "time"')
    own = metrics.get(name) or OWN_METRICS.get(name)
    unit = data.get("unit", own.unit if own else "1")
    if not isinstance(unit, str):
        raise ValueError('"unit" must be text, as in "s"')
    scale, base = base_unit(unit)
    if name in OWN_METRICS and base == OWN_METRICS[name].unit:
        unit = base
    else:
        scale = 1.0
    if name in metrics and unit != metrics[name].unit:
        raise ValueError(
            f"{name} has unit {unit!r:.20}, but {metrics[name].unit!r:.20} in earlier lines"
        )
    return (Metric(name, unit, own.kind) if own else Metric(name, unit)), scale


def _parse_parameters(value: object) -> Parameters:
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise ValueError('"params" is not an object, as in {"p": 64}')
    for name in value:
        if not (name.isidentifier() and name.isascii()):
            raise ValueError(f"parameter {name!r:.40} is not a name, as in n or cells_x")
    numbers = {name: _number(number, f"parameter {name}") for name, number in value.items()}
    ranks = numbers.get(RANKS, 1)
    if ranks < 1 or ranks % 1:
        raise ValueError(
            f"parameter {RANKS} is the number of ranks, 1 or more, not {ranks:g}; give a parameter"
            " that means something else another name"
        )
    return RunKey.of(numbers).parameters


def _parse_repetition(data: Mapping[str, Any]) -> int | None:
    value = data.get("repetition")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_REPETITION:
        raise ValueError('"repetition" is not a number 0, 1, 2, …')
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where} holds {value!r:.40}, which is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{where} holds a number that is not finite")
    return number


def _not_finite(text: str) -> float:
    raise ValueError(f"holds {text}; write null where a rank has no value")


def _build_run(
    parameters: Parameters, repetition: int, collection: Collection
) -> tuple[RunKey, RunTable]:
    """Return a run as a table of all its call paths, metrics and ranks.

    Raises:
        ValueError: the table is much larger than the number of values in the lines.
    """
    entries = collection.runs[parameters, repetition]
    longest = collection.ranks.get((parameters, repetition))
    size = longest.values.size if longest else 1
    callpaths = tuple(dict.fromkeys(path for path, _ in entries))
    metrics = tuple(collection.metrics[name] for name in dict.fromkeys(name for _, name in entries))
    description = collection.descriptions.get((parameters, repetition))
    if description is not None:
        size = longest.values.size if longest else description.size
        callpaths = tuple(dict.fromkeys((*description.callpaths, *callpaths)))
        metrics = tuple(dict.fromkeys((*description.metrics, *metrics)))
    cells = len(callpaths) * len(metrics) * size
    if cells > max(MAX_VALUES, MAX_GAPS * sum(entry.values.size for entry in entries.values())):
        raise ValueError(
            f"and the lines of the same run make {len(callpaths):,} call paths of {len(metrics):,}"
            f" metrics on {size:,} ranks, most of them without a value: put fewer into one run"
        )

    rows = {path: row for row, path in enumerate(callpaths)}
    values = {metric.name: np.full((len(callpaths), size), np.nan) for metric in metrics}

    for (path, name), entry in entries.items():
        values[name][rows[path]] = entry.values
    if description is not None:
        return description.record.key, RunTable(callpaths, metrics, values, description.sites)
    key = RunKey.of({RANKS: float(size)} | dict(parameters), repetition)
    return key, RunTable(callpaths, metrics, values)


def _short(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
