"""JSON of Hatchet and Thicket: exports a GraphFrame or a Thicket, imports GraphFrames.

Their `time` excludes callees and is `time_exclusive` here; their `time (inc)` is `time`. A
GraphFrame has every rank of the largest run. A Thicket has all runs, with the mean, the smallest
and the largest value of the ranks. An imported GraphFrame is one run; its parameters are part of
the name of its file, as in `heat.p16.n256.json`.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from insitu.entities import ARROW, METRICS, RANKS, TIME, TIME_EXCLUSIVE, CallPath, RunKey
from insitu.errors import UsageError
from insitu.formats.reading import FILE, Row, load_json, make_unique, parse_file_name
from insitu.formats.run_records import MAX_RANKS
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
    """The call tree: nodes in preorder, with the numbers of their children."""

    paths: tuple[tuple[str, ...], ...]
    children: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, callpaths: Sequence[CallPath]) -> "_Tree":
        """Build the tree of call paths and their callers."""
        stacks: set[tuple[str, ...]] = set()
        for callpath in callpaths:
            for depth in range(1, len(callpath.frames) + 1):
                stacks.add(callpath.frames[:depth])
        paths = tuple(sorted(stacks))
        numbers = {path: i for i, path in enumerate(paths)}
        children: list[list[int]] = [[] for _ in paths]
        for path in paths:
            if len(path) > 1:
                children[numbers[path[:-1]]].append(numbers[path])
        return cls(paths, tuple(map(tuple, children)))

    def graph(self) -> list[dict[str, Any]]:
        """Return the JSON of the tree: one object with all nodes."""
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
        rows = _rows_of_nodes(tree, table)
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
        document |= {"dataframe": records, **_metric_kinds(names.values())}
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
            rows = _rows_of_nodes(tree, table)
            for node, path in enumerate(tree.paths):
                if node not in rows:
                    continue
                record: dict[str, Any] = {"node": node, PROFILE: str(key), "name": path[-1]}
                for ours, theirs in _names(table).items():
                    values = table.values[ours][rows[node]]
                    for suffix, reduce in REDUCTIONS.items():
                        has_value = np.isfinite(values).any()
                        record[theirs + suffix] = _json(reduce(values)) if has_value else None
                records.append(record)

        profiles = [str(key) for key, _ in runs]
        metadata = [
            {PROFILE: name, **dict(key.parameters), "repetition": key.repetition}
            | {"ranks": table.size}
            for name, (key, table) in zip(profiles, runs, strict=True)
        ]

        columns: list[str] = []
        for name in names.values():
            columns += [name + suffix for suffix in REDUCTIONS]
        document = {
            "graph": tree.graph(),
            "dataframe_indices": ["node", PROFILE],
            "dataframe": records,
            "metadata": metadata,
            **_metric_kinds(columns),
            "profile_idx_name": PROFILE,
            PROFILE: profiles,
            "profile_mapping": dict(zip(profiles, profiles, strict=True)),
        }
        out.write(json.dumps(document, allow_nan=False).encode() + b"\n")


class HatchetReader:
    """Reads a GraphFrame written by `to_json()`."""

    name = "hatchet"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        data = load_json(file)
        try:
            yield from _read(data, file)
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{file}: not a file of Hatchet's GraphFrame.to_json(): {error!r}"
            ) from error


def _read(data: Mapping[str, Any], file: str) -> Iterator[Row]:
    records = data["dataframe"]
    names = {str(row["node"]): str(row["name"]) for row in records if row.get("name")}
    callpaths = _callpaths(data["graph"], names)

    metrics = [*data["exclusive_metrics"], *data["inclusive_metrics"]]
    values: dict[tuple[str, str], dict[int, float]] = {}
    ranks = set()
    for record in records:
        rank = int(record.get("rank") or 0)
        if not 0 <= rank < MAX_RANKS:
            raise ValueError(f"rank {rank} is out of range")
        ranks.add(rank)
        for metric in dict.fromkeys(metrics):
            value = record.get(metric)
            if isinstance(value, int | float) and math.isfinite(value):
                of_ranks = values.setdefault((callpaths[str(record["node"])], metric), {})
                of_ranks[rank] = of_ranks.get(rank, 0.0) + value  # threads of a rank are added up

    size = max(ranks, default=0) + 1
    params, repetition = parse_file_name(file)

    for (path, metric), of_ranks in values.items():
        name, unit = OURS.get(metric, (metric, "1"))
        row: dict[str, Any] = {
            "callpath": path,
            "metric": name,
            "unit": unit,
            "params": {RANKS: float(size)} | params,
        }
        row |= {FILE: file} if repetition is None else {"repetition": repetition}
        if size > 1:
            yield row | {"ranks": [of_ranks.get(rank) for rank in range(size)]}
        else:
            yield row | {"value": of_ranks[0]}


def _callpaths(graph: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, str]:
    """Return the call path of each node by its first parent; duplicates get a number."""
    nodes: dict[str, Any] = {}
    for tree in graph:
        nodes |= {str(key): node for key, node in tree.items()}

    children: set[str] = set()
    for node in nodes.values():
        children.update(map(str, node["children"]))

    callpaths: dict[str, str] = {}
    used: set[str] = set()
    waiting = [(key, "") for key in nodes if key not in children]

    while waiting:
        key, before = waiting.pop()
        if key in callpaths:
            continue
        name = names.get(key) or str(nodes[key]["data"].get("name", "?"))
        frame = name.replace(ARROW, "→").strip() or "?"
        callpaths[key] = make_unique(f"{before}{ARROW}{frame}" if before else frame, used)
        used.add(callpaths[key])
        waiting += [(str(child), callpaths[key]) for child in reversed(nodes[key]["children"])]

    return callpaths


def _rows_of_nodes(tree: _Tree, table: RunTable) -> dict[int, int]:
    """Return the row of a table for each node that has one."""
    rows = {path.frames: row for row, path in enumerate(table.callpaths)}
    return {node: rows[path] for node, path in enumerate(tree.paths) if path in rows}


def _names(table: RunTable) -> dict[str, str]:
    return {metric.name: THEIRS.get(metric.name, metric.name) for metric in table.metrics}


def _metric_kinds(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the metrics that include callees, and those that do not."""
    columns = list(names)
    inclusive = [name for name in columns if name.startswith(WITH_CALLEES)]
    return {
        "exclusive_metrics": [name for name in columns if name not in inclusive],
        "inclusive_metrics": inclusive,
    }


def _size(run: tuple[RunKey, RunTable]) -> tuple[int, int]:
    key, table = run
    return table.size, key.repetition


def _json(value: float | np.floating[Any]) -> float | None:
    return float(value) if math.isfinite(value) else None
