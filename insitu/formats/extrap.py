"""Extra-P's JSON: points with their repetitions, one value per class; models beside them.

Extra-P 4 reads `parameters` and `measurements` (docs/file-formats.md) and passes over the rest. It
refuses files in which a series lacks a point: such series stand under `incomplete`.
It knows no classes of ranks: a class is written behind the call path, as in `main->solve [2/3]`.
"""

import io
import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from insitu.entities import CallPath, MetricKind, RunKey
from insitu.formats.table import model_row
from insitu.modeling.base import Clusters, ModelSet
from insitu.modeling.classes.match import ALL
from insitu.modeling.measurement import Experiment, FloatArray, RunTable, SeriesKey

Place = tuple[CallPath, str, tuple[tuple[str, float], ...]]


class ExtrapJson:
    """One JSON object for Extra-P, Thicket and scripts."""

    name = "json"
    suffix = ".json"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        complete, rest = split_complete(measurements(experiment, models))
        document = {
            "parameters": list(experiment.parameters),
            "measurements": complete,
            "incomplete": rest,
            "models": [model_row(series) for series in models.models],
        }
        text = io.TextIOWrapper(out, encoding="utf-8", newline="\n", write_through=True)
        json.dump(document, text, allow_nan=False, indent=1)
        text.write("\n")
        text.detach()


def split_complete(found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:  # Any: JSON
    """Series measured at every point, and the others, which Extra-P's readers refuse."""
    series = [(path, metric, points) for path, of in found.items() for metric, points in of.items()]
    places = {tuple(point["point"]) for _, _, points in series for point in points}
    complete: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for path, metric, points in series:
        side = complete if len(points) == len(places) else rest
        side.setdefault(path, {})[metric] = points
    return complete, rest


def measurements(experiment: Experiment, models: ModelSet) -> dict[str, Any]:  # Any: JSON
    """Per call path and metric the points with a value per repetition, as Extra-P's JSON has it."""
    keys = [series.key for series in models.models]
    modelled = {(key.callpath, key.metric) for key in keys}
    for _, table in experiment.runs:
        for path in table.callpaths:
            for metric in table.metrics:
                if (path, metric.name) not in modelled and metric.kind is not MetricKind.POSITION:
                    keys.append(SeriesKey(path, metric.name, ALL))
                    modelled.add((path, metric.name))
    clusters: Mapping[Place, Clusters] = {
        (found.callpath, found.metric, found.run.parameters): found for found in models.clusters
    }
    rows = [{path: row for row, path in enumerate(table.callpaths)} for _, table in experiment.runs]
    document: dict[str, Any] = {}
    for key in sorted(keys):
        points: dict[tuple[float, ...], list[float]] = {}
        for (run, table), row in zip(experiment.runs, rows, strict=True):
            value = _value(key, run, table=table, row=row.get(key.callpath), clusters=clusters)
            if value is not None:
                points.setdefault(run.coordinate(experiment.parameters), []).append(value)
        if points:
            name = str(key.callpath) + ("" if key.behaviour == ALL else f" [{key.behaviour}]")
            document.setdefault(name, {})[key.metric] = [
                {"point": list(at), "values": values} for at, values in sorted(points.items())
            ]
    return document


def _value(
    key: SeriesKey,
    run: RunKey,
    *,
    table: RunTable,
    row: int | None,
    clusters: Mapping[Place, Clusters],
) -> float | None:
    """The mean over the ranks of a class in one run; None where it has none."""
    if row is None or key.metric not in table.values:
        return None
    values: FloatArray = table.values[key.metric][row]
    if key.behaviour != ALL:
        found = clusters.get((key.callpath, key.metric, run.parameters))
        if found is None or key.behaviour not in found.names or found.labels.shape != values.shape:
            return None
        values = values[found.labels == found.names.index(key.behaviour)]
    present = values[np.isfinite(values)]
    return float(present.mean()) if present.size else None
