"""Models and predictions as OpenMetrics text, for Prometheus and what reads its format."""

import math
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from insitu.entities import number
from insitu.formats.table import predictions
from insitu.measurement import Experiment
from insitu.modeling.base import ModelSet, SeriesModel

AHEAD = (1.0, 4.0, 16.0)  # predictions at multiples of the largest measured coordinate


class OpenMetrics:
    """Gauges of the newest state: measured values at the largest scale, predictions, errors."""

    name = "openmetrics"
    suffix = ".prom"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        for line in _lines(experiment, models):
            out.write(line.encode("utf-8", "backslashreplace") + b"\n")


def _lines(experiment: Experiment, models: ModelSet) -> Iterator[str]:
    yield "# TYPE insitu_runs gauge"
    yield "# HELP insitu_runs Complete runs of the campaign."
    yield f"insitu_runs {len(experiment.runs)}"
    yield "# TYPE insitu_findings gauge"
    yield "# HELP insitu_findings What a person should know of the models."
    yield f"insitu_findings {len(models.findings)}"
    yield "# TYPE insitu_model_error_ratio gauge"
    yield "# UNIT insitu_model_error_ratio ratio"
    yield "# HELP insitu_model_error_ratio Mean relative error of a model at its points (SMAPE)."
    for one in models.models:
        if math.isfinite(one.model.smape):
            yield _sample("insitu_model_error_ratio", _labels(one), one.model.smape / 100)
    yield "# TYPE insitu_prediction gauge"
    yield "# HELP insitu_prediction Value per rank, with the bounds of 95 % of measurements."
    for one in models.models:
        yield from _predicted(one)
    yield "# EOF"


def _predicted(one: SeriesModel) -> Iterator[str]:
    if not len(one.model.coordinates):
        return
    largest = one.model.coordinates.max(axis=0)
    points = [[largest[0] * times, *largest[1:]] for times in AHEAD]
    for found in predictions(one.model, [list(map(float, point)) for point in points]):
        at = {name: number(value) for name, value in found["at"].items()}
        for bound in ("value", "low", "high"):
            if found[bound] is not None:
                labels = _labels(one) | at | {"bound": bound}
                yield _sample("insitu_prediction", labels, found[bound])


def _labels(one: SeriesModel) -> dict[str, str]:
    key = one.key
    return {
        "callpath": str(key.callpath),
        "metric": key.metric,
        "unit": one.metric.unit,
        "class": key.behaviour,
    }


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    written = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{written}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"").replace("\r", "")
