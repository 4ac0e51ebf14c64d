"""Measurements as JSON Lines, one line per run, call path and metric; also what Extra-P writes.

    {"callpath": "main->solve", "metric": "time", "unit": "s", "params": {"p": 64}, "repetition": 0,
     "ranks": [one value per rank, null where there is none]}      or "value": x instead of "ranks"

Lines with the same parameters and repetition make a run. A run that does not say `p` has as many
ranks as its `ranks` are long. `value` stands for every rank, a list of values for repetitions, as
in Extra-P. Without `repetition` lines that say the same thing again are repetitions, in order.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from insitu.entities import METRICS, RANKS, TIME, CallPath, Metric, RunKey
from insitu.formats.base import BadLine, ImportedRuns
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, FloatArray, RunTable

MAX_RANKS = 4_000_000
MAX_REPETITION = 1_000_000
MAX_VALUES = 2**24  # that a run may have, 128 MiB, where its lines say much less
MAX_GAPS = 16  # times as many values as its lines say, for a run that is larger
KNOWN = {metric.name: metric for metric in METRICS}
Parameters = tuple[tuple[str, float], ...]


@dataclass(slots=True)
class Entry:
    """One value or vector of a run, and the line that said it."""

    line: int
    values: FloatArray  # one per rank, or a single one for all of them
    is_vector: bool


@dataclass(slots=True)
class Collection:
    """What was read so far."""

    runs: dict[tuple[Parameters, int], dict[tuple[CallPath, str], Entry]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    metrics: dict[str, Metric] = field(default_factory=dict)
    ranks: dict[tuple[Parameters, int], Entry] = field(
        default_factory=dict
    )  # first vector of a run


class JsonLines:
    """Extra-P's JSON Lines with every rank's value."""

    name = "jsonl"
    suffix = ".jsonl"

    def read(self, lines: Iterable[bytes]) -> ImportedRuns:
        """Read what can be read; what cannot is told line by line."""
        found = Collection()
        bad: list[BadLine] = []
        count = 0
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            count += 1
            try:
                _add(found, number, _parsed(line))
            except ValueError as error:
                bad.append(BadLine(number, str(error)))
        return _imported(found, bad, count)

    def take(self, rows: Iterable[Mapping[str, Any]]) -> ImportedRuns:  # Any: JSON
        """The same of lines that are parsed already, counted from 1."""
        found = Collection()
        bad: list[BadLine] = []
        count = 0
        for count, row in enumerate(rows, start=1):
            try:
                _add(found, count, row)
            except ValueError as error:
                bad.append(BadLine(count, str(error)))
        return _imported(found, bad, count)

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter: every rank's values as measured; models are not part of this format."""
        for key, table in experiment.runs:
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
                        "ranks": [None if math.isnan(value) else value for value in row.tolist()],
                    }
                    out.write(json.dumps(line, allow_nan=False).encode() + b"\n")


def _imported(found: Collection, bad: list[BadLine], count: int) -> ImportedRuns:
    runs = []
    for place in found.runs:
        try:
            runs.append(_run(*place, found))
        except ValueError as error:
            first = min(entry.line for entry in found.runs[place].values())
            bad.append(BadLine(first, str(error)))
    return ImportedRuns(tuple(runs), tuple(bad), count)


def _parsed(line: bytes) -> Mapping[str, Any]:
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


def _add(found: Collection, number: int, data: Mapping[str, Any]) -> None:
    """Put one line where it belongs; nothing is changed if it is refused.

    Raises:
        ValueError: why the line cannot be taken.
    """
    callpath = _callpath(data.get("callpath", "main"))
    metric = _metric(data, found.metrics)
    parameters = _parameters(data.get("params"))
    repetition = _repetition(data)
    what = (callpath, metric.name)
    entries = list(_entries(number, data))
    if len(entries) > 1 and repetition is not None:
        raise ValueError('a list as "value" is one value per repetition: leave out "repetition"')
    if repetition is None:
        repetition = 0
        while what in found.runs.get((parameters, repetition), {}):
            repetition += 1
    for offset, entry in enumerate(entries):
        _check_fit(found, (parameters, repetition + offset), what, entry)
    found.metrics[metric.name] = metric
    for offset, entry in enumerate(entries):
        place = (parameters, repetition + offset)
        found.runs[place][what] = entry
        if entry.is_vector:
            found.ranks.setdefault(place, entry)


def _check_fit(
    found: Collection, place: tuple[Parameters, int], what: tuple[CallPath, str], entry: Entry
) -> None:
    before = found.runs.get(place, {}).get(what)
    if before is not None:
        raise ValueError(f"says again what line {before.line} says")
    other = found.ranks.get(place)
    if entry.is_vector and other is not None and other.values.size != entry.values.size:
        raise ValueError(
            f"has {entry.values.size} ranks, line {other.line} of the same run {other.values.size}"
        )


def _entries(number: int, data: Mapping[str, Any]) -> Iterator[Entry]:
    if ("ranks" in data) == ("value" in data):
        raise ValueError('needs one of "ranks" (a list, one value per rank) and "value"')
    if "ranks" in data:
        ranks = data["ranks"]
        if not isinstance(ranks, list) or not 0 < len(ranks) <= MAX_RANKS:
            raise ValueError('"ranks" is not a list of one value per rank')
        values = [math.nan if value is None else _number(value, '"ranks"') for value in ranks]
        yield Entry(number, np.array(values), True)
        return
    value = data["value"]
    several = value if isinstance(value, list) else [value]
    if not several:
        raise ValueError('"value" is an empty list')
    for one in several:
        yield Entry(number, np.array([_number(one, '"value"')]), False)


def _callpath(value: object) -> CallPath:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('"callpath" is not a text, as in "main->solve"')
    callpath = CallPath.parse(value)
    if not all(callpath.frames):
        raise ValueError(f'"callpath" has an empty frame: {value!r:.60}')
    return callpath


def _metric(data: Mapping[str, Any], metrics: Mapping[str, Metric]) -> Metric:
    name = data.get("metric", TIME.name)
    if not isinstance(name, str) or not name.strip():
        raise ValueError('"metric" is not a text, as in "time"')
    known = metrics.get(name) or KNOWN.get(name)
    unit = data.get("unit", known.unit if known else "1")
    if not isinstance(unit, str):
        raise ValueError('"unit" is not a text, as in "s"')
    if name in metrics and unit != metrics[name].unit:
        raise ValueError(
            f"{name} has unit {unit!r:.20}, in lines before {metrics[name].unit!r:.20}"
        )
    return Metric(name, unit, known.kind) if known else Metric(name, unit)


def _parameters(value: object) -> Parameters:
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise ValueError('"params" is not an object, as in {"p": 64}')
    for name in value:
        if not (name.isidentifier() and name.isascii()):
            raise ValueError(f"parameter {name!r:.40} is not a name, as in n or cells_x")
    numbers = {name: _number(v, f"parameter {name}") for name, v in value.items()}
    if numbers.get(RANKS, 1) < 1:
        raise ValueError(f"parameter {RANKS}, the number of ranks, is below 1")
    return RunKey.of(numbers).parameters


def _repetition(data: Mapping[str, Any]) -> int | None:
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


def _run(parameters: Parameters, repetition: int, found: Collection) -> tuple[RunKey, RunTable]:
    """A run as a table of all its call paths, metrics and ranks.

    Raises:
        ValueError: the table is much larger than what the lines say, as few lines can ask for.
    """
    entries = found.runs[parameters, repetition]
    longest = found.ranks.get((parameters, repetition))
    size = longest.values.size if longest else 1
    callpaths = tuple(dict.fromkeys(path for path, _ in entries))
    metrics = tuple(found.metrics[name] for name in dict.fromkeys(name for _, name in entries))
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
    named = dict(parameters)
    key = RunKey.of({RANKS: float(size)} | named, repetition)
    return key, RunTable(callpaths, metrics, values)


def _short(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
