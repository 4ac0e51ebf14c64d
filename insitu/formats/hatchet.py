"""JSON of Hatchet and Thicket: a run as a GraphFrame, all runs as a Thicket, and GraphFrames in.

Their `time` is that of a function without those it calls, which here is `time_exclusive`, and
`time (inc)` the other. A GraphFrame has every rank of the largest run, a Thicket of each run the
mean over its ranks, beside the smallest and the largest. A GraphFrame that is read is one run; its
parameters stand in the name of its file, as in `heat.p16.n256.json`.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from insitu.entities import ARROW, METRICS, RANKS, TIME, TIME_EXCLUSIVE, CallPath, RunKey
from insitu.errors import UsageError
from insitu.formats.jsonl import MAX_RANKS
from insitu.formats.reading import Row, load_json, make_unique, parse_file_name
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, FloatArray, RunTable

THEIRS = {TIME.name: "time (inc)", TIME_EXCLUSIVE.name: "time"}
OURS = {name: (ours, "s") for ours, name in THEIRS.items()} | {
    metric.name: (metric.name, metric.unit) for metric in METRICS if metric.name not in THEIRS
}
WITH_CALLEES = ("time (inc)", "allocations", "bytes_allocated", "heap_growth", "heap_peak")
REDUCTIONS: Mapping[str, Callable[[FloatArray], float]] = {
    "": lambda values: float(np.nanmean(values)),
    " (min)": lambda values: float(np.nanmin(values)),
    " (max)": lambda values: float(np.nanmax(values)),
}
PROFILE = "profile"


@dataclass(frozen=True, slots=True)
class _Tree:
    """Nodes in the order of a walk from the roots, with the numbers of their children."""

    paths: tuple[tuple[str, ...], ...]
    children: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, callpaths: Sequence[CallPath]) -> "_Tree":
        """Of all call paths, and of those above them."""
        wanted = {path.frames[:end] for path in callpaths for end in range(1, len(path.frames) + 1)}
        paths = tuple(sorted(wanted))
        numbers = {path: i for i, path in enumerate(paths)}
        children: list[list[int]] = [[] for _ in paths]
        for path in paths:
            if len(path) > 1:
                children[numbers[path[:-1]]].append(numbers[path])
        return cls(paths, tuple(map(tuple, children)))

    def graph(self) -> list[dict[str, Any]]:
        """As both write it: one object with all nodes."""
        return [
            {
                str(i): {"data": {"name": path[-1], "type": "function"}, "children": list(below)}
                for i, (path, below) in enumerate(zip(self.paths, self.children, strict=True))
            }
        ]


class Hatchet:
    """A GraphFrame: `hatchet.GraphFrame.from_json(open(FILE).read())`."""

    name = "hatchet"
    suffix = ".hatchet.json"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        _, table = max(experiment.runs, key=_size, default=(None, RunTable((), (), {})))
        tree = _Tree.of(table.callpaths)
        rows = _placed(tree, table)
        names = _names(table)
        records = []
        for node, path in enumerate(tree.paths):
            for rank in range(table.size):
                record: dict[str, Any] = {"node": node, "rank": rank, "name": path[-1]}
                for ours, theirs in names.items():
                    value = table.values[ours][rows[node], rank] if node in rows else math.nan
                    record[theirs] = _json(value)
                records.append(record)
        document = {"graph": tree.graph(), "dataframe_indices": ["node", "rank"]}
        document |= {"dataframe": records, **_kinds(names.values())}
        out.write(json.dumps(document, allow_nan=False).encode() + b"\n")


class Thicket:
    """A Thicket of all runs: `thicket.Thicket.from_json(open(FILE).read())`."""

    name = "thicket"
    suffix = ".thicket.json"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        runs = experiment.runs
        tree = _Tree.of([path for _, table in runs for path in table.callpaths])
        names: dict[str, str] = {}
        records = []
        for key, table in runs:
            names |= _names(table)
            rows = _placed(tree, table)
            for node, path in enumerate(tree.paths):
                if node not in rows:
                    continue
                record: dict[str, Any] = {"node": node, PROFILE: str(key), "name": path[-1]}
                for ours, theirs in _names(table).items():
                    values = table.values[ours][rows[node]]
                    for suffix, reduce in REDUCTIONS.items():
                        known = np.isfinite(values).any()
                        record[theirs + suffix] = _json(reduce(values)) if known else None
                records.append(record)
        profiles = [str(key) for key, _ in runs]
        metadata = [
            {PROFILE: name, **dict(key.parameters), "repetition": key.repetition}
            | {"ranks": table.size}
            for name, (key, table) in zip(profiles, runs, strict=True)
        ]
        told = [name + suffix for name in names.values() for suffix in REDUCTIONS]
        document = {
            "graph": tree.graph(),
            "dataframe_indices": ["node", PROFILE],
            "dataframe": records,
            "metadata": metadata,
            **_kinds(told),
            "profile_idx_name": PROFILE,
            PROFILE: profiles,
            "profile_mapping": dict(zip(profiles, profiles, strict=True)),
        }
        out.write(json.dumps(document, allow_nan=False).encode() + b"\n")


class HatchetReader:
    """A GraphFrame as `to_json()` writes it, whatever Hatchet read it from."""

    name = "hatchet"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        data = load_json(file)
        try:
            yield from _read(data, file)
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{file}: not what GraphFrame.to_json() of Hatchet writes: {error!r}"
            ) from error


def _read(data: Mapping[str, Any], file: str) -> Iterator[Row]:
    records = data["dataframe"]
    told = {str(one["node"]): str(one["name"]) for one in records if one.get("name")}
    callpaths = _callpaths(data["graph"], told)
    metrics = [*data["exclusive_metrics"], *data["inclusive_metrics"]]
    values: dict[tuple[str, str], dict[int, float]] = {}
    ranks = set()
    for one in records:
        rank = int(one.get("rank") or 0)
        if not 0 <= rank < MAX_RANKS:
            raise ValueError(f"rank {rank} is none")
        ranks.add(rank)
        for metric in dict.fromkeys(metrics):
            value = one.get(metric)
            if isinstance(value, int | float) and math.isfinite(value):
                here = values.setdefault((callpaths[str(one["node"])], metric), {})
                here[rank] = here.get(rank, 0.0) + value  # threads of a rank are added up
    size = max(ranks, default=0) + 1
    params, repetition = parse_file_name(file)
    for (path, metric), found in values.items():
        name, unit = OURS.get(metric, (metric, "1"))
        row: dict[str, Any] = {
            "callpath": path,
            "metric": name,
            "unit": unit,
            "params": {RANKS: float(size)} | params,
        }
        if repetition is not None:
            row["repetition"] = repetition
        if size > 1:
            yield row | {"ranks": [found.get(rank) for rank in range(size)]}
        else:
            yield row | {"value": found[0]}


def _callpaths(graph: Sequence[Mapping[str, Any]], told: Mapping[str, str]) -> dict[str, str]:
    """The call path of each node, by its first parent; two of the same name get a number."""
    nodes = {str(key): value for part in graph for key, value in part.items()}
    below = {str(child) for one in nodes.values() for child in one["children"]}
    found: dict[str, str] = {}
    used: set[str] = set()
    waiting = [(key, "") for key in nodes if key not in below]
    while waiting:
        key, before = waiting.pop()
        if key in found:
            continue
        name = told.get(key) or str(nodes[key]["data"].get("name", "?"))
        frame = name.replace(ARROW, "→").strip() or "?"
        found[key] = make_unique(f"{before}{ARROW}{frame}" if before else frame, used)
        used.add(found[key])
        waiting += [(str(child), found[key]) for child in reversed(nodes[key]["children"])]
    return found


def _placed(tree: _Tree, table: RunTable) -> dict[int, int]:
    """Which row of a table each node is."""
    rows = {path.frames: row for row, path in enumerate(table.callpaths)}
    return {node: rows[path] for node, path in enumerate(tree.paths) if path in rows}


def _names(table: RunTable) -> dict[str, str]:
    return {metric.name: THEIRS.get(metric.name, metric.name) for metric in table.metrics}


def _kinds(names: Iterable[str]) -> dict[str, list[str]]:
    """Which metrics count what a function calls, and which do not."""
    told = list(names)
    both = [name for name in told if name.startswith(WITH_CALLEES)]
    return {
        "exclusive_metrics": [name for name in told if name not in both],
        "inclusive_metrics": both,
    }


def _size(one: tuple[RunKey, RunTable]) -> tuple[int, int]:
    return one[1].size, one[0].repetition


def _json(value: float | np.floating[Any]) -> float | None:
    return float(value) if math.isfinite(value) else None
