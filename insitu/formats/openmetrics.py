"""Models and predictions as OpenMetrics text, for Prometheus and what reads its format."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from insitu.entities import Finding, number
from insitu.formats.table import predictions
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import Experiment

AHEAD = (1.0, 4.0, 16.0)  # predictions at multiples of the largest measured coordinate
END = "# EOF"
# Each family: its unit, where it has one, and its help.
FAMILIES = {
    "insitu_runs": ("", "Runs of the campaign by their state."),
    "insitu_findings": ("", "What a person should know, by its kind."),
    "insitu_model_error_ratio": ("ratio", "Mean relative error of a model at its points (SMAPE)."),
    "insitu_prediction": ("", "Value per rank, with the bounds of 95 % of measurements."),
}


class OpenMetrics:
    """Gauges of the newest state: runs, findings, errors of models, predictions."""

    name = "openmetrics"
    suffix = ".prom"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        states = Counter({"sealed": len(experiment.runs)})
        for line in (*state_lines(states, models.findings), *model_lines(models), END):
            out.write(line.encode("utf-8", "backslashreplace") + b"\n")


def state_lines(states: Mapping[str, int], findings: Iterable[Finding]) -> Iterator[str]:
    """How many runs there are in each state, and how many findings of each kind."""
    yield from family_lines("insitu_runs", *FAMILIES["insitu_runs"])
    for state, count in states.items():
        yield format_sample("insitu_runs", {"state": state}, count)
    yield from family_lines("insitu_findings", *FAMILIES["insitu_findings"])
    for code, count in sorted(Counter(one.code for one in findings).items()):
        yield format_sample("insitu_findings", {"code": code}, count)


def model_lines(models: ModelSet) -> Iterator[str]:
    """Errors of models and what they predict."""
    yield from family_lines("insitu_model_error_ratio", *FAMILIES["insitu_model_error_ratio"])
    for one in models.models:
        if math.isfinite(one.model.smape):
            yield format_sample("insitu_model_error_ratio", _labels(one), one.model.smape / 100)
    yield from family_lines("insitu_prediction", *FAMILIES["insitu_prediction"])
    for one in models.models:
        yield from _predicted(one)


def family_lines(name: str, unit: str, told: str) -> Iterator[str]:
    """The lines above the samples of a gauge."""
    yield f"# TYPE {name} gauge"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {told}"


def format_sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """One value of a gauge."""
    written = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{written}}} {value!r}" if written else f"{name} {value!r}"


def _predicted(one: SeriesModel) -> Iterator[str]:
    if not len(one.model.coordinates):
        return
    largest = one.model.coordinates.max(axis=0)
    points = [[largest[0] * times, *largest[1:]] for times in AHEAD]
    found = predictions(one.model, [list(map(float, point)) for point in points])
    for times, told in zip(AHEAD, found, strict=True):
        at = {name: number(value) for name, value in told["at"].items()}
        for bound in ("value", "low", "high"):
            if told[bound] is not None:
                labels = _labels(one) | at | {"ahead": number(times), "bound": bound}
                yield format_sample("insitu_prediction", labels, told[bound])


def _labels(one: SeriesModel) -> dict[str, str]:
    key = one.key
    return {
        "callpath": str(key.callpath),
        "metric": key.metric,
        "unit": one.metric.unit,
        "class": key.behaviour,
    }


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"").replace("\r", "")
