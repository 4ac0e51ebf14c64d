"""Listing and drawing the behaviour classes of a campaign."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.analysis.cost import measured_shares, metric_order, shares_of_run
from insitu.analysis.predict import format_point
from insitu.campaign.config import load_config
from insitu.campaign.load import load_usual_program
from insitu.campaign.selection import select_runs
from insitu.campaign.store import open_store
from insitu.entities import CallPath, Finding, RunKey, is_start_up
from insitu.errors import UsageError
from insitu.formats.table import segments
from insitu.modeling.base import Clusters, Model, ModelSet
from insitu.modeling.classes.domain import find_domain
from insitu.modeling.classes.participation import name_few_ranks
from insitu.modeling.classes.run_groups import mean_over_runs
from insitu.modeling.classes.sizes import size_laws
from insitu.modeling.measurement import FloatArray, RunTable, SeriesKey
from insitu.workflows.plot import require_drawable
from insitu.workflows.selection import (
    EVERY_SERIES,
    SeriesFilter,
    explain_missing_models,
    findings_about,
    limit_callpaths,
    no_match_error,
)

if TYPE_CHECKING:  # loads matplotlib
    from insitu.views.ranks import RankValues

DRAWN_CALLPATHS = 3


@dataclass(frozen=True, slots=True)
class ClassListing:
    """The behaviour classes of a campaign, those of the most expensive call path first.

    Attributes:
        clusters: one entry per call path, metric and coordinate.
        size_models: how many ranks each class has, as a model over the parameters.
        share: share of each call path in the cost, 0 to 1.
        hidden_callpaths: how many call paths are beyond the limit.
        missing: why there are no models and what to do; empty if there are models.
        findings: about runs that are not used for models, and about these call paths.
        few_ranks: call paths that one rank or a vanishing share of the ranks executes, with a text
            such as `rank 0 only`.
    """

    clusters: tuple[Clusters, ...]
    size_models: Mapping[SeriesKey, Model]
    share: Mapping[CallPath, float]
    hidden_callpaths: int
    missing: str
    findings: tuple[Finding, ...]
    few_ranks: Mapping[CallPath, str]


@dataclass(frozen=True, slots=True)
class ClassPlot:
    """A picture of classes: its file, and how many of the call paths with classes it shows."""

    file: str
    shown: int
    matching: int


def list_classes(campaign: str, series_filter: SeriesFilter = EVERY_SERIES) -> ClassListing:
    """List the class of every rank for each call path, metric and coordinate.

    Args:
        campaign: directory of the campaign.
        series_filter: which series to list.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
        UsageError: there are classes, but none passes the filter.
    """
    with open_store(campaign) as store:
        models = store.models()
        missing = explain_missing_models(store, models)
        selected, excluded_runs = select_runs(store.runs())
        share = measured_shares(models)
        if not share and selected:
            largest = max(selected, key=lambda run: run.key.size)
            share = shares_of_run(load_usual_program(selected, store.table)(largest.id))

    clusters, hidden = _select_clusters(models, share, series_filter)
    callpaths = {entry.callpath for entry in clusters}
    return ClassListing(
        tuple(clusters),
        size_laws(clusters, models.parameters),
        share,
        hidden_callpaths=hidden,
        missing=missing,
        findings=(*excluded_runs, *findings_about(models, callpaths)),
        few_ranks=name_few_ranks(ModelSet(clusters=clusters)),
    )


def draw_classes(campaign: str, file: str, series_filter: SeriesFilter = EVERY_SERIES) -> ClassPlot:
    """Draw the ranks of the largest run, coloured by class: one metric of each call path.

    Args:
        campaign: directory of the campaign.
        file: where to write; PNG, SVG or PDF by its suffix.
        series_filter: which series to draw; without a limit, those of DRAWN_CALLPATHS call paths.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
        UsageError: nothing to draw, no matplotlib, or the file cannot be written.
    """
    require_drawable(file)
    from insitu.views.ranks import draw_ranks

    with open_store(campaign) as store:
        models = store.models()
        clusters, _ = _select_clusters(models, measured_shares(models), series_filter)
        largest = _largest_runs(clusters)
        if not largest:
            raise UsageError(
                f"{campaign}: all selected series have a single class; there is nothing to draw"
            )
        drawn = largest[: series_filter.limit or DRAWN_CALLPATHS]
        records, _ = select_runs(store.runs())
        load = load_usual_program(records, store.table)

        drawn_series = []
        for entry in drawn:
            parameters = entry.run.parameters
            same_coordinate = [run for run in records if run.key.parameters == parameters]
            drawn_series.append(_rank_values(entry, [load(run.id) for run in same_coordinate]))

    try:
        draw_ranks(drawn_series, title=f"{load_config(campaign).name}: classes of ranks", file=file)
    except OSError as error:
        raise UsageError(f"{file}: cannot write: {error.strerror}") from error
    return ClassPlot(file, len(drawn_series), len(largest))


def class_sizes(clusters: Clusters) -> dict[str, int]:
    """Return how many ranks each class has."""
    counts = np.bincount(clusters.labels[clusters.labels >= 0], minlength=len(clusters.names))
    return dict(zip(clusters.names, counts.tolist(), strict=True))


def find_incomplete_metrics(clusters: Sequence[Clusters]) -> dict[str, str]:
    """Find metrics that have the classes of another one, and lack values of some ranks or runs.

    Args:
        clusters: of one call path.

    Returns:
        The other metric, with values of the most ranks, by metric.
    """
    by_metric: dict[str, dict[RunKey, Clusters]] = {}
    for entry in clusters:
        by_metric.setdefault(entry.metric, {})[entry.run] = entry

    def count_values(metric: str) -> int:
        return sum(int((entry.labels >= 0).sum()) for entry in by_metric[metric].values())

    incomplete: dict[str, str] = {}
    order = sorted(by_metric, key=lambda metric: (-count_values(metric), metric))
    for index, metric in enumerate(order):
        for other in order[:index]:
            is_smaller = count_values(metric) < count_values(other)
            if (
                is_smaller
                and other not in incomplete
                and _agree(by_metric[metric], by_metric[other])
            ):
                incomplete[metric] = other
                break
    return incomplete


def _agree(some: Mapping[RunKey, Clusters], complete: Mapping[RunKey, Clusters]) -> bool:
    """Whether all ranks that have classes in `some` have the same ones in `complete`."""
    for run, entry in some.items():
        other = complete.get(run)
        if other is None:
            return False
        for label, name in enumerate(entry.names):
            ranks = entry.labels == label
            if name not in other.names or np.any(other.labels[ranks] != other.names.index(name)):
                return False
    return True


def class_row(clusters: Clusters, size_models: Mapping[SeriesKey, Model]) -> dict[str, Any]:
    """Return the class of every rank at one coordinate as JSON.

    `labels` are indices into `classes`, -1 for a rank without a value.
    """
    models: dict[str, dict[str, Any]] = {}
    for name in clusters.names:
        model = size_models.get(SeriesKey(clusters.callpath, clusters.metric, name))
        if model is not None:
            models[name] = {"text": str(model), "segments": segments(model)}

    parameters = {
        name: int(value) if value.is_integer() else value for name, value in clusters.run.parameters
    }
    return {
        "callpath": str(clusters.callpath),
        "metric": clusters.metric,
        "params": parameters,
        "labels": clusters.labels.tolist(),
        "classes": list(clusters.names),
        "ranks": class_sizes(clusters),
        "ranks_model": models,
    }


def _select_clusters(
    models: ModelSet, share: Mapping[CallPath, float], series_filter: SeriesFilter
) -> tuple[list[Clusters], int]:
    """Return the clusters that pass the filter, and how many call paths are beyond the limit."""
    accepted = [
        entry
        for entry in models.clusters
        if series_filter.accepts(SeriesKey(entry.callpath, entry.metric))
    ]
    if models.clusters and not accepted:
        raise no_match_error((entry.metric for entry in models.clusters), series_filter)

    def order(entry: Clusters) -> tuple[object, ...]:
        path = entry.callpath
        cost = (is_start_up(path), -share.get(path, 0.0))
        return (*cost, path, metric_order(entry.metric), entry.metric)

    accepted.sort(key=order)
    callpaths, hidden = limit_callpaths((entry.callpath for entry in accepted), series_filter.limit)
    return [entry for entry in accepted if entry.callpath in callpaths], hidden


def _largest_runs(clusters: Sequence[Clusters]) -> list[Clusters]:
    """Return one entry per call path with several classes: its first metric, at the largest run."""
    largest: dict[CallPath, Clusters] = {}
    for entry in clusters:
        if len(entry.names) == 1:
            continue
        current = largest.setdefault(entry.callpath, entry)
        if entry.metric == current.metric and entry.run.parameters > current.run.parameters:
            largest[entry.callpath] = entry
    return list(largest.values())


def _rank_values(clusters: Clusters, tables: Sequence[RunTable]) -> "RankValues":
    """Return what `draw_ranks` draws of one call path.

    Args:
        clusters: the classes of the ranks at one coordinate.
        tables: the repetitions at this coordinate.
    """
    from insitu.views.ranks import RankValues  # loads matplotlib

    return RankValues(
        callpath=str(clusters.callpath),
        metric=clusters.metric,
        unit=_unit_of(clusters.metric, tables),
        run=format_point(clusters.run.parameters),
        values=_mean_values(clusters, tables),
        labels=clusters.labels,
        names=clusters.names,
        domain=find_domain(tables),
    )


def _unit_of(metric: str, tables: Sequence[RunTable]) -> str:
    for table in tables:
        for candidate in table.metrics:
            if candidate.name == metric:
                return candidate.unit
    return ""


def _mean_values(clusters: Clusters, tables: Sequence[RunTable]) -> FloatArray:
    """Return the mean of each rank over the repetitions, (n_ranks,)."""
    rows = []
    for table in tables:
        if clusters.metric in table.values and clusters.callpath in table.callpaths:
            row = table.callpaths.index(clusters.callpath)
            rows.append(table.values[clusters.metric][row][None])
    mean: FloatArray = mean_over_runs(rows)[0]
    return mean
