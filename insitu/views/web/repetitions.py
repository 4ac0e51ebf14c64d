"""The measured value of each repetition of a call path, as JSON for the plots of the page."""

from typing import Any

import numpy as np

from insitu.entities import CallPath, RunKey
from insitu.modeling.base import ALL, MAXIMUM, ModelSet
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.views.source import BoardSource

Json = dict[str, Any]  # Any: JSON


def repetitions_json(source: BoardSource, models: ModelSet, callpath: str, metric: str) -> Json:
    """For each behaviour class: coordinate, repetition and mean over its ranks, of each run.

    Raises:
        CampaignError: the campaign can no longer be read.
    """
    path = CallPath.parse(callpath)
    labels: dict[RunKey, tuple[IntArray, tuple[str, ...]]] = {}
    for clusters in models.clusters:
        if clusters.metric == metric and clusters.callpath == path:
            labels[clusters.run] = clusters.labels, clusters.names

    classes: dict[str, list[Json]] = {}
    for key, values in source.values_of(path, metric):
        for name, mean in _means_of_classes(values, *labels.get(key, (None, ()))):
            row = {
                "at": list(key.coordinate(models.parameters)),
                "repetition": key.repetition,
                "value": mean,
            }
            classes.setdefault(name, []).append(row)

    return {"parameters": list(models.parameters), "classes": classes}


def _means_of_classes(
    values: FloatArray, labels: IntArray | None, names: tuple[str, ...]
) -> list[tuple[str, float]]:
    """The mean over all ranks, the maximum, and the mean over the ranks of each class."""
    measured = values[np.isfinite(values)]
    if not len(measured):
        return []
    means = [(ALL, float(measured.mean())), (MAXIMUM, float(measured.max()))]
    if labels is None or len(names) < 2:
        return means + [(name, means[0][1]) for name in names if name != ALL]

    for label, name in enumerate(names):
        measured = values[(labels == label) & np.isfinite(values)]
        if len(measured):
            means.append((name, float(measured.mean())))
    return means
