"""`insitu predict`: what the models predict at other points."""

import math
from collections.abc import Sequence
from typing import Any

import click

from insitu.analysis.predict import format_point
from insitu.analysis.whole_program import SUM_OF_FUNCTIONS, FunctionSum
from insitu.cli.messages import print_note
from insitu.cli.options import (
    DEFAULT_TARGET,
    campaign_argument,
    json_option,
    series_filter_of,
    series_options,
)
from insitu.cli.output import (
    Block,
    OutputColumn,
    print_blocks,
    print_hidden_callpaths,
    print_hidden_metrics,
    print_json,
)
from insitu.entities import TIME_EXCLUSIVE, CallPath, finite
from insitu.formats.table import LEVEL, back_tests, parameter_values
from insitu.modeling.base import ALL
from insitu.units import percent, quantity, useful_bounds
from insitu.workflows.predict import Predictions, SeriesPrediction, predict_series

COLUMNS = (
    OutputColumn("metric"),
    OutputColumn("class"),
    OutputColumn("at", is_wide=True),
    OutputColumn("value", is_right=True),
    OutputColumn("95 % between", is_right=True),
    OutputColumn("and", is_right=True),
)


@click.command(name="predict")
@campaign_argument
@click.option(
    "-a",
    "--at",
    "points",
    multiple=True,
    metavar="NAME=VALUE,...",
    help=f"The point to predict, such as p=1024,n=256; may be repeated ({DEFAULT_TARGET}).",
)
@json_option
@series_options
def command(
    campaign: str,
    points: tuple[str, ...],
    *,
    is_json: bool,
    callpath: str | None,
    metric: str | None,
    top: int | None,
) -> None:
    """Predict the values of CAMPAIGN at points that were not measured.

    Prints a value per rank, and the bounds that contain a measurement with a probability of 95 %.
    The share is the share of the call path in the cost at the largest measured scale.
    (whole run) is the model of the run time, (sum of functions) the sum of what all
    functions take themselves.
    """
    series_filter = series_filter_of(callpath, metric, top, is_json=is_json)
    predictions = predict_series(campaign, points, series_filter)
    if is_json:
        rows = [_row(prediction) for prediction in predictions.series]
        print_json([*rows, *_sum_rows(predictions)])
        return

    if predictions.series:
        _print_table(predictions)
    selection = predictions.selection
    print_hidden_callpaths(selection.hidden_callpaths, selection.hidden_start_up)
    by_mean = {
        prediction.series.class_text
        for prediction in predictions.series
        if prediction.series.has_mean_law
    }
    if by_mean:
        print_note(
            f"classes with too few scales for a law are predicted as all ranks:"
            f" {', '.join(sorted(by_mean))}"
        )
    for note in [*_sum_notes(predictions), *predictions.notes]:
        print_note(note)
    print_hidden_metrics(predictions.selection.hidden_metrics)


def _row(prediction: SeriesPrediction) -> dict[str, Any]:
    series = prediction.series
    return {
        "callpath": str(series.key.callpath),
        "metric": series.key.metric,
        "unit": series.metric.unit,
        "class": series.key.behaviour,
        "text": str(series.model),
        "crowded": bool(series.crowding),
        "mean_law": series.has_mean_law,
        "predictions": list(prediction.values),
        "back_test": back_tests(series.model),
    }


def _sum_rows(predictions: Predictions) -> list[dict[str, Any]]:
    """The whole program as the sum of its functions, like the row of a series."""
    if not predictions.sums:
        return []
    parameters = predictions.series[0].series.model.parameters
    points = [
        {
            "at": parameter_values(parameters, total.at),
            "value": finite(total.value),
            "low": finite(total.low),
            "high": finite(total.high),
            "level": LEVEL,
            "unclear": total.unclear or None,
        }
        for total in predictions.sums
    ]
    row = {
        "callpath": str(SUM_OF_FUNCTIONS),
        "metric": TIME_EXCLUSIVE.name,
        "unit": TIME_EXCLUSIVE.unit,
        "class": ALL,
        "predictions": points,
    }
    return [row]


def _print_table(predictions: Predictions) -> None:
    parameters = predictions.series[0].series.model.parameters
    rows: dict[CallPath, list[tuple[str, ...]]] = {}
    if predictions.sums:
        rows[SUM_OF_FUNCTIONS] = [_sum_line(total, parameters) for total in predictions.sums]
    for prediction in predictions.series:
        if not prediction.series.has_mean_law:
            rows.setdefault(prediction.series.key.callpath, []).extend(_lines(prediction))

    share = {**predictions.selection.share, SUM_OF_FUNCTIONS: 1.0}
    blocks = [
        Block(percent(share.get(path, 0.0)), str(path), lines) for path, lines in rows.items()
    ]
    print_blocks("share", COLUMNS, blocks)


def _sum_notes(predictions: Predictions) -> list[str]:
    """Why the sums of functions predict nothing; a column of a table is too narrow for it."""
    reasons = dict.fromkeys(total.unclear for total in predictions.sums)
    return [f"{SUM_OF_FUNCTIONS} is {reason}" for reason in reasons if ":" in reason]


def _sum_line(total: FunctionSum, parameters: Sequence[str]) -> tuple[str, ...]:
    return (
        TIME_EXCLUSIVE.name,
        ALL,
        format_point(zip(parameters, total.at, strict=True)),
        "unclear" if total.unclear else quantity(total.value, TIME_EXCLUSIVE.unit),
        *_bounds(total.low, total.high, TIME_EXCLUSIVE.unit),
    )


def _lines(prediction: SeriesPrediction) -> list[tuple[str, ...]]:
    series = prediction.series

    unit = series.metric.unit

    lines: list[tuple[str, ...]] = []
    for point in prediction.values:
        value = point["unclear"] or quantity(_known(point["value"]), unit)
        line = (
            f"{series.key.metric} (crowded)" if series.crowding else series.key.metric,
            series.class_text,
            format_point(point["at"].items()),
            value,
            *_bounds(_known(point["low"]), _known(point["high"]), unit),
        )
        lines.append(line)
    return lines


def _bounds(low: float, high: float, unit: str) -> tuple[str, str]:
    low, high = useful_bounds(low, high)
    return quantity(low, unit), quantity(high, unit)


def _known(value: float | None) -> float:
    return math.nan if value is None else value
