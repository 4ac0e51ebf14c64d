"""`insitu models`: how each call path grows."""

import math
from collections.abc import Mapping, Sequence

import click

from insitu.analysis.callpaths import name_with_caller
from insitu.analysis.cost import measured_points
from insitu.campaign.config import load_config
from insitu.cli.messages import print_error, print_note
from insitu.cli.options import campaign_argument, json_option, series_filter_of, series_options
from insitu.cli.output import (
    Block,
    OutputColumn,
    count_text,
    print_blocks,
    print_findings,
    print_folded,
    print_hidden_callpaths,
    print_hidden_metrics,
    print_json,
)
from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, number
from insitu.errors import CampaignError
from insitu.formats.table import model_rows
from insitu.modeling.back_test_report import describe_back_tests
from insitu.modeling.base import Model, ModelSet, SeriesModel
from insitu.modeling.horizon import unclear_before
from insitu.run.summary import MIN_SCALES
from insitu.text import list_some, printable
from insitu.units import percent
from insitu.workflows.models import ModelListing, list_models
from insitu.workflows.selection import SeriesSelection

LISTED_UNMODELLED = 5  # call paths without a model that are listed by name
LISTED_CLASSES = 2  # that have the law of the mean
MAX_LISTED = 20  # characters of their names; longer ones would leave no room for the models
BY_MEAN = "as all ranks"
FAR = 1000.0  # times the largest measured scale
LEAST_SHARE = 0.005  # share of time above which such a call path is worth a line
COLUMNS = (
    OutputColumn("metric"),
    OutputColumn("class"),
    OutputColumn("model", is_wide=True),
    OutputColumn("unit"),
    OutputColumn("error", is_right=True),
    OutputColumn("R²", is_right=True),
)


@click.command(name="models")
@campaign_argument
@json_option
@series_options
def command(
    campaign: str, is_json: bool, callpath: str | None, metric: str | None, top: int | None
) -> None:
    """Show how each call path of CAMPAIGN grows, the most expensive first and start-up last.

    The table has one line per metric and behaviour class: the model and the scale beyond which it
    predicts nothing, its mean error at the measured points (SMAPE), and its adjusted R², which
    constants do not have. The share is the share
    of the call path in the time of all ranks at the largest scale. Without --metric and --callpath,
    the table shows the most important metrics only and omits models that are 0.
    """
    listing = list_models(campaign, series_filter_of(callpath, metric, top, is_json=is_json))
    selection = listing.selection
    if listing.missing:
        print_error(listing.missing)
    if is_json:
        rows = model_rows(selection.series)
        for series, row in zip(selection.series, rows, strict=True):
            print_json([row | {"share": selection.share.get(series.key.callpath, 0.0)}])
        _exit_without(listing)
        return

    if selection.series:
        click.echo(f"{_title(listing.models, campaign)}\n")
        _print_table(selection)

    print_hidden_callpaths(selection.hidden_callpaths, selection.hidden_start_up)
    print_hidden_metrics(selection.hidden_metrics)
    if callpath is None and metric in (None, TIME.name, TIME_EXCLUSIVE.name):
        _print_unmodelled(listing.unmodelled_shares)

    for sentence in describe_back_tests(selection.series).values():
        print_note(sentence)
    print_findings([*listing.run_findings, *listing.findings])
    _exit_without(listing)


def _exit_without(listing: ModelListing) -> None:
    """End as other commands do where there are no models."""
    if listing.missing:
        raise click.exceptions.Exit(CampaignError.exit_code)


def _title(models: ModelSet, campaign: str) -> str:
    config = load_config(campaign)
    coordinates: set[tuple[float, ...]] = set()
    for series in models.models:
        coordinates.update(coordinate for coordinate, _ in measured_points(series.model))

    scales = sorted(coordinate[0] for coordinate in coordinates)
    span = f"{number(scales[0])} … {number(scales[-1])}" if scales else ""
    names = ", ".join(map(config.axis, models.parameters))
    return printable(
        f"{config.name}: {count_text(len(models.models), 'model')} over {names},"
        f" {count_text(len(coordinates), 'point')}"
        f" ({models.parameters[0]} = {span})"
    )


def _print_table(selection: SeriesSelection) -> None:
    rows: dict[CallPath, list[tuple[str, ...]]] = {}
    for series, classes in _fold_classes(selection.series):
        unit = series.metric.unit.replace("1", "")
        if series.has_mean_law:
            row = (series.key.metric, classes, BY_MEAN, unit, "", "")
            rows.setdefault(series.key.callpath, []).append(row)
            continue
        # A constant explains no variation: its R² is 0 or below.
        grows = any(segment.function.terms for segment in series.model.segments)
        adjusted_r2 = series.model.adjusted_r2 if grows else math.nan
        row = (
            series.key.metric,
            classes,
            f"{series.text}{_unclear_beyond(series.model)}",
            unit,
            percent(series.model.smape / 100),
            "" if math.isnan(adjusted_r2) else f"{adjusted_r2:.2f}",
        )
        rows.setdefault(series.key.callpath, []).append(row)

    share = selection.share
    blocks = [
        Block(percent(share.get(path, 0.0)), str(path), lines) for path, lines in rows.items()
    ]
    print_blocks("share", COLUMNS, blocks)


def _unclear_beyond(model: Model) -> str:
    """The scale beyond which a model predicts nothing, if it is not far away."""
    far = FAR * model.coordinates.max(initial=0.0)
    reason = "" if model.doubt else unclear_before(model, far)
    return f"; {reason}" if reason else ""


def _fold_classes(series: Sequence[SeriesModel]) -> list[tuple[SeriesModel, str]]:
    """Each series with its class; the classes that have the law of the mean share one row."""
    by_mean: dict[tuple[CallPath, str], list[str]] = {}
    rows = []
    for entry in series:
        if not entry.has_mean_law:
            rows.append((entry, [entry.class_text]))
            continue
        key = entry.key.callpath, entry.key.metric
        if key not in by_mean:
            by_mean[key] = []
            rows.append((entry, by_mean[key]))
        by_mean[key].append(entry.class_text)

    return [(entry, _classes_text(classes)) for entry, classes in rows]


def _classes_text(classes: Sequence[str]) -> str:
    text = list_some(classes, LISTED_CLASSES)
    return text if len(classes) == 1 or len(text) <= MAX_LISTED else f"{len(classes)} classes"


def _print_unmodelled(unmodelled: Mapping[CallPath, float]) -> None:
    """Print which call paths have no model of their time yet."""
    relevant = [
        f"{percent(share)} {name_with_caller(path)}"
        for path, share in unmodelled.items()
        if share >= LEAST_SHARE
    ]
    if not relevant:
        return
    listed = list_some(relevant, LISTED_UNMODELLED)
    print_folded(
        f"no model of their time yet: {listed}; a class of ranks needs {MIN_SCALES} scales"
    )
