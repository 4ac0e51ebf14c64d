"""Models as rows of JSON and CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from insitu.entities import finite
from insitu.modeling.base import Model, ModelSet, SeriesModel
from insitu.modeling.horizon import unclear_at
from insitu.modeling.intervals import BoundedValues
from insitu.modeling.joint_parameters import CHANGED_TOGETHER
from insitu.modeling.measurement import Experiment, FloatArray
from insitu.modeling.predictions import predict_all
from insitu.text import printable

LEVEL = 0.95  # of intervals
SECOND_SCALE = 4.0  # of the second interval, as a multiple of the largest measured point


def model_rows(models: Sequence[SeriesModel]) -> list[dict[str, Any]]:  # Any: JSON
    """Return the models of series as JSON objects.

    Keys: callpath, metric, unit, class, text, crowded (times of ranks that shared cores), mean_law
    (a class with too few coordinates, with the law of all ranks), modeler, parameters, segments
    (terms with exponents as "1/2"), change_points, quality, interval (at the largest measured point
    and at four times it), back_test, points.
    """
    predicted = predictions([series.model for series in models], map(_ends, models))
    return [_model_row(series, rows) for series, rows in zip(models, predicted, strict=True)]


def _model_row(
    series: SeriesModel,
    predicted: list[dict[str, Any]],  # Any: JSON
) -> dict[str, Any]:
    model = series.model
    return {
        "callpath": str(series.key.callpath),
        "metric": series.key.metric,
        "unit": series.metric.unit,
        "class": series.key.behaviour,
        "text": str(model),
        "crowded": bool(series.crowding),
        "mean_law": series.has_mean_law,
        "modeler": model.modeler,
        "parameters": list(model.parameters),
        "segments": segments(model),
        "change_points": [{"low": low, "high": high} for low, high in model.change_points],
        "quality": {
            "smape": finite(model.smape),
            "adjusted_r2": finite(model.adjusted_r2),
            "rss": finite(model.quality.rss),
        },
        "interval": predicted,
        "back_test": back_tests(model),
        "points": [
            {"at": parameter_values(model.parameters, at), "value": finite(value)}
            for at, value in zip(model.coordinates.tolist(), model.values.tolist(), strict=True)
        ],
    }


def marks_of(series: SeriesModel) -> str:
    """What stands before the functions of a series in every view: `crowded: unclear`, or ""."""
    return series.text.removesuffix(str(series.model)).strip().removesuffix(":")


def segments(model: Model) -> list[dict[str, Any]]:  # Any: JSON
    """Return the segments of a model: bounds (null at the ends), constant, terms."""
    rows = []
    for segment in model.segments:
        function = segment.function.to_dict()
        rows.append(
            {
                "lower": finite(segment.lower),
                "upper": finite(segment.upper),
                "text": str(segment.function),
                "constant": function["constant"],
                "terms": function["terms"],
            }
        )
    return rows


def predictions(
    models: Sequence[Model], points: Iterable[Sequence[Sequence[float]]]
) -> list[list[dict[str, Any]]]:  # Any: JSON
    """Return what models predict, each at its own points, with the 95 % interval; null if unknown.

    `formula` is the value of the printed formula, which may differ from the prediction. `unclear`
    is the reason why the value is no prediction, null where it is one.
    """
    tables = [
        np.reshape(np.array(at, dtype=float), (-1, len(model.parameters)))
        for model, at in zip(models, points, strict=True)
    ]
    return [
        _prediction_rows(model, table, interval)
        for model, table, interval in zip(
            models, tables, predict_all(models, tables, LEVEL), strict=True
        )
    ]


def _prediction_rows(
    model: Model, table: FloatArray, interval: BoundedValues
) -> list[dict[str, Any]]:  # Any: JSON
    columns = (table, interval.values, model.formula_at(table), interval.bounds)
    rows = []
    for at, value, formula, (low, high) in zip(*(c.tolist() for c in columns), strict=True):
        unclear = unclear_at(model, at, (low, high))
        has_bounds = CHANGED_TOGETHER not in unclear
        rows.append(
            {
                "at": parameter_values(model.parameters, at),
                "value": finite(value),
                "low": finite(low) if has_bounds else None,
                "high": finite(high) if has_bounds else None,
                "level": LEVEL,
                "formula": finite(formula),
                "unclear": unclear or None,
            }
        )
    return rows


def back_tests(model: Model) -> list[dict[str, Any]]:  # Any: JSON
    """Return what models of fewer scales predicted for the largest: without it, without two."""
    name = model.parameters[0]
    return [
        {
            "at": parameter_values((name,), [test.at]),
            "predicted": finite(test.predicted),
            "measured": finite(test.measured),
        }
        for test in model.back_tests
    ]


def parameter_values(parameters: tuple[str, ...], at: Sequence[float]) -> Mapping[str, float]:
    """Return a coordinate as a JSON object; whole numbers as integers."""
    return {
        name: int(value) if float(value).is_integer() else value
        for name, value in zip(parameters, at, strict=True)
    }


def _ends(series: SeriesModel) -> list[list[float]]:
    model = series.model
    if not len(model.coordinates):
        return []
    largest = max(model.coordinates.tolist())
    return [largest, [SECOND_SCALE * value for value in largest]]


class Csv:
    """One row per measured point of every series, with its model beside it."""

    name = "csv"
    suffix = ".csv"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter."""
        text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        tail = ("value", "model_value", "model", "smape", "adjusted_r2", "marks")
        writer.writerow(("callpath", "metric", "unit", "class", *models.parameters, *tail))
        for series in models.models:
            writer.writerows(_csv_rows(series))
        text.detach()


def neutralise_cell(text: str) -> str:
    """A cell that a spreadsheet does not execute and a terminal does not obey.

    Spreadsheets take text that begins with these characters for a formula, which may start
    programs; an apostrophe in front marks it as text.
    """
    is_formula = text.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{printable(text)}" if is_formula else printable(text)


def _csv_rows(series: SeriesModel) -> Iterator[list[object]]:
    model = series.model
    if not len(model.coordinates):
        return

    key = series.key
    texts = (str(key.callpath), key.metric, series.metric.unit, key.behaviour)
    head = [neutralise_cell(text) for text in texts]
    fitted = model.predict(model.coordinates).tolist()
    errors = (finite(model.smape), finite(model.adjusted_r2))
    tail = [neutralise_cell(str(model)), *errors, neutralise_cell(marks_of(series))]
    for at, value, predicted in zip(
        model.coordinates.tolist(), model.values.tolist(), fitted, strict=True
    ):
        yield [
            *head,
            *parameter_values(model.parameters, at).values(),
            finite(value),
            finite(predicted),
            *tail,
        ]
