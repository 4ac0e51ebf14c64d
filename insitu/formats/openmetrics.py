"""Models and predictions as OpenMetrics text, for Prometheus and compatible tools."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from insitu.entities import Finding, number
from insitu.formats.table import predictions
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import Experiment

PREDICTED_SCALES = (1.0, 4.0, 16.0)  # multiples of the largest measured coordinate
END = "# EOF"
# Unit and help text of each metric family.
FAMILIES = {
    "insitu_runs": ("", "Runs of the campaign by their state."),
    "insitu_findings": ("", "What a person should know, by its kind."),
    "insitu_model_error_ratio": ("ratio", "Mean relative error of a model at its points (SMAPE)."),
    "insitu_prediction": ("", "Value per rank, with the bounds of 95 % of measurements."),
}


class OpenMetrics:
    """Gauges of the current state: runs, findings, errors of models, predictions."""

    name = "openmetrics"
    suffix = ".prom"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        states = Counter({"sealed": len(experiment.runs)})
        for line in (*state_lines(states, models.findings), *model_lines(models), END):
            out.write(line.encode("utf-8", "backslashreplace") + b"\n")


def state_lines(states: Mapping[str, int], findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the number of runs in each state, and of findings of each kind."""
    yield from family_lines("insitu_runs", *FAMILIES["insitu_runs"])
    for state, count in states.items():
        yield format_sample("insitu_runs", {"state": state}, count)
    yield from family_lines("insitu_findings", *FAMILIES["insitu_findings"])
    for code, count in sorted(Counter(finding.code for finding in findings).items()):
        yield format_sample("insitu_findings", {"code": code}, count)


def model_lines(models: ModelSet) -> Iterator[str]:
    """Yield the errors of models and their predictions."""
    yield from family_lines("insitu_model_error_ratio", *FAMILIES["insitu_model_error_ratio"])
    for series in models.models:
        smape = series.model.smape
        if math.isfinite(smape):
            yield format_sample("insitu_model_error_ratio", _labels(series), smape / 100)

    yield from family_lines("insitu_prediction", *FAMILIES["insitu_prediction"])
    predicted = [series for series in models.models if len(series.model.coordinates)]
    rows_of = predictions(
        [series.model for series in predicted], [_points_ahead(series) for series in predicted]
    )
    for series, rows in zip(predicted, rows_of, strict=True):
        yield from _prediction_lines(series, rows)


def family_lines(name: str, unit: str, description: str) -> Iterator[str]:
    """Yield the lines above the samples of a gauge."""
    yield f"# TYPE {name} gauge"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {description}"


def format_sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """Return one value of a gauge."""
    formatted = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{formatted}}} {value!r}" if formatted else f"{name} {value!r}"


def _points_ahead(series: SeriesModel) -> list[list[float]]:
    largest = series.model.coordinates.max(axis=0).tolist()
    return [[largest[0] * times, *largest[1:]] for times in PREDICTED_SCALES]


def _prediction_lines(
    series: SeriesModel,
    rows: Iterable[Mapping[str, Any]],  # Any: JSON
) -> Iterator[str]:
    for scale, row in zip(PREDICTED_SCALES, rows, strict=True):
        at = {name: number(value) for name, value in row["at"].items()}
        for bound in ("value", "low", "high"):
            if row[bound] is not None and not row["unclear"]:
                labels = _labels(series) | at | {"ahead": number(scale), "bound": bound}
                yield format_sample("insitu_prediction", labels, row[bound])


def _labels(series: SeriesModel) -> dict[str, str]:
    key = series.key
    return {
        "callpath": str(key.callpath),
        "metric": key.metric,
        "unit": series.metric.unit,
        "class": key.behaviour,
    }


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"").replace("\r", "")
