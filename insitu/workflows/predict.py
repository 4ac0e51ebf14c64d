"""Predicting the values of series at points that were not measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from insitu.analysis.cost import NO_SAMPLE, is_without_sample, measured_shares
from insitu.analysis.node_boundary import node_boundary
from insitu.analysis.predict import (
    Point,
    coordinate_of,
    crowding_notes,
    extrapolation_notes,
    formula_notes,
    node_notes,
)
from insitu.analysis.scaling import measured_coordinates
from insitu.analysis.summary import target_of_models
from insitu.analysis.whole_program import FunctionSum, describe_rest, sum_functions
from insitu.campaign.config import load_config, unused_target_notes
from insitu.campaign.selection import describe_stale_models, find_constants, select_runs
from insitu.campaign.store import open_store
from insitu.entities import TIME, TIME_EXCLUSIVE
from insitu.formats.table import predictions
from insitu.modeling.back_test_report import describe_back_tests
from insitu.modeling.base import SeriesModel
from insitu.modeling.joint_parameters import find_joint_change
from insitu.workflows.selection import (
    EVERY_SERIES,
    SeriesFilter,
    SeriesSelection,
    load_models,
    select_series,
)

METRICS_OF_SUMS = (None, TIME.name, TIME_EXCLUSIVE.name)  # filters that let sums of functions pass


@dataclass(frozen=True, slots=True)
class SeriesPrediction:
    """Predictions of one series.

    `values` has one mapping per point with `at` (value per parameter), `value`, `low`, `high`
    (bounds of the 95 % interval, None if unknown), `level`, and `formula`, the value of the printed
    formula.
    """

    series: SeriesModel
    values: tuple[dict[str, Any], ...]  # Any: JSON


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions of the selected series, and notes on points far beyond the measurements.

    Attributes:
        series: of the selected series.
        selection: which these are.
        notes: for the user.
        sums: the whole program as the sum of its functions, one per point; empty where no exclusive
            time has a model, or a filter excludes it.
    """

    series: tuple[SeriesPrediction, ...]
    selection: SeriesSelection
    notes: tuple[str, ...]
    sums: tuple[FunctionSum, ...] = ()


def predict_series(
    campaign: str, points: Sequence[Point] = (), series_filter: SeriesFilter = EVERY_SERIES
) -> Predictions:
    """Predict the selected series per rank, those of the most expensive call path first.

    Args:
        campaign: directory of the campaign.
        points: `"p=1024,n=256"`, or a mapping from parameter to value; default: `target` of
            campaign.toml, else 64 times the largest number of ranks, at most 65,536.
        series_filter: which series to predict.

    Raises:
        CampaignError: there is no campaign, it cannot be read, or it has no models.
        UsageError: a point does not fit the parameters, or no series passes the filter.
    """
    with open_store(campaign) as store:
        models = load_models(store)
        runs = store.runs()
        boundary = node_boundary(runs)
    constants = find_constants(select_runs(runs)[0])
    measured = measured_coordinates(models)
    coordinates = [
        coordinate_of(point, models.parameters, constants, measured=measured) for point in points
    ]
    if not points:
        coordinates = [list(target_of_models(models, load_config(campaign).target))]

    selection = select_series(models, measured_shares(models), series_filter)
    chosen = selection.series
    rows_of = predictions([series.model for series in chosen], [coordinates] * len(chosen))
    predicted = tuple(
        SeriesPrediction(
            series, tuple(_without_bounds(rows) if is_without_sample(series) else rows)
        )
        for series, rows in zip(chosen, rows_of, strict=True)
    )
    notes = describe_stale_models(models.findings)
    notes += [] if points else unused_target_notes(campaign, runs)
    joint_changes = [
        [find_joint_change(s.model, coordinate) for s in chosen] for coordinate in coordinates
    ]
    for coordinate, found in zip(coordinates, joint_changes, strict=True):
        joint = next(filter(None, found), None)
        notes += [joint.describe(coordinate, models.parameters)] if joint else []
    notes += extrapolation_notes(coordinates, selection.series)
    notes += formula_notes((prediction.series, prediction.values) for prediction in predicted)
    notes += crowding_notes(selection.series)
    notes += node_notes(coordinates, selection.series, boundary)
    notes += describe_back_tests(selection.series).values()

    sums: list[FunctionSum] = []
    if series_filter.callpath is None and series_filter.metric in METRICS_OF_SUMS:
        totals = [sum_functions(models, coordinate) for coordinate in coordinates]
        sums = [total for total in totals if total is not None]
    if sums:
        notes += filter(None, [describe_rest(models)])
    return Predictions(predicted, selection, tuple(notes), tuple(sums))


def _without_bounds(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:  # Any: JSON
    """Predictions of a function that no sample hit: bounds of 0 would claim that it takes none."""
    return [row | {"low": None, "high": None, "unclear": NO_SAMPLE} for row in rows]
