"""Extra-P's JSON: points with their repetitions, one value per class; models beside them.

Extra-P 4 reads `parameters` and `measurements` (docs/file-formats.md) and ignores the rest. It
refuses files in which a series lacks a point: such series are under `incomplete`. It has no
behaviour classes: the class follows the call path, as in `main->solve [2/3]`.
"""

import io
import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from insitu.entities import CallPath, MetricKind, RunKey
from insitu.formats.table import model_rows
from insitu.modeling.base import ALL, Clusters, ModelSet
from insitu.modeling.measurement import Experiment, FloatArray, RunTable, SeriesKey

ClusterKey = tuple[CallPath, str, tuple[tuple[str, float], ...]]


class ExtrapJson:
    """One JSON object for Extra-P, Thicket and scripts."""

    name = "json"
    suffix = ".json"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        complete, incomplete = split_complete(measurements(experiment, models))
        document = {
            "parameters": list(experiment.parameters),
            "measurements": complete,
            "incomplete": incomplete,
            "models": model_rows(models.models),
        }
        text = io.TextIOWrapper(out, encoding="utf-8", newline="\n", write_through=True)
        json.dump(document, text, allow_nan=False, indent=1)
        text.write("\n")
        text.detach()


def split_complete(
    document: Mapping[str, Any],  # Any: JSON
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the series measured at every point, and the others, which Extra-P refuses."""
    coordinates: set[tuple[float, ...]] = set()
    for metrics in document.values():
        for points in metrics.values():
            coordinates.update(tuple(point["point"]) for point in points)

    complete: dict[str, Any] = {}
    incomplete: dict[str, Any] = {}
    for path, metrics in document.items():
        for metric, points in metrics.items():
            selected = complete if len(points) == len(coordinates) else incomplete
            selected.setdefault(path, {})[metric] = points

    return complete, incomplete


def measurements(experiment: Experiment, models: ModelSet) -> dict[str, Any]:  # Any: JSON
    """Return points with a value per repetition, by call path and metric, as Extra-P has them."""
    keys = [series.key for series in models.models]
    modelled = {(key.callpath, key.metric) for key in keys}

    for _, table in experiment.runs:
        for path in table.callpaths:
            for metric in table.metrics:
                if (path, metric.name) not in modelled and metric.kind is not MetricKind.POSITION:
                    keys.append(SeriesKey(path, metric.name, ALL))
                    modelled.add((path, metric.name))

    clusters: Mapping[ClusterKey, Clusters] = {
        (of_run.callpath, of_run.metric, of_run.run.parameters): of_run
        for of_run in models.clusters
    }

    rows = []
    for _, table in experiment.runs:
        rows.append({path: row for row, path in enumerate(table.callpaths)})

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
    clusters: Mapping[ClusterKey, Clusters],
) -> float | None:
    """Return the mean over the ranks of a class in one run; None if there is no value."""
    if row is None or key.metric not in table.values:
        return None
    values: FloatArray = table.values[key.metric][row]
    if key.behaviour != ALL:
        of_run = clusters.get((key.callpath, key.metric, run.parameters))
        if of_run is None or key.behaviour not in of_run.names:
            return None
        if of_run.labels.shape != values.shape:
            return None
        values = values[of_run.labels == of_run.names.index(key.behaviour)]
    present = values[np.isfinite(values)]
    return float(present.mean()) if present.size else None
