"""`insitu classes`: which ranks behave alike."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from insitu.analysis.cost import measured_shares, metric_order
from insitu.campaign.config import load_config
from insitu.campaign.selection import select_runs
from insitu.campaign.store import open_store
from insitu.cli.output import (
    Block,
    Column,
    about,
    campaign_argument,
    dearest,
    is_chosen,
    json_option,
    kept_models,
    none_chosen,
    place,
    print_blocks,
    print_findings,
    print_json,
    print_left_out,
    series_options,
)
from insitu.cli.plot import check_picture
from insitu.entities import CallPath, number
from insitu.errors import UsageError
from insitu.formats.table import segments
from insitu.modeling.base import Clusters, Model
from insitu.modeling.classes.domain import find_domain
from insitu.modeling.classes.run_groups import mean_over_runs
from insitu.modeling.classes.sizes import size_laws
from insitu.modeling.measurement import FloatArray, RunTable, SeriesKey
from insitu.units import percent

MOST_DRAWN = 3  # call paths in a picture
PLACES = 10  # scales in the table, the largest ones
COLUMNS = (
    Column("class"),
    Column("ranks"),
    Column("their number"),
    Column("of", is_wide=True),
)
Parameters = tuple[tuple[str, float], ...]


@click.command(name="classes")
@campaign_argument
@click.option(
    "--plot",
    "picture",
    metavar="FILE",
    help="Draw the ranks of the largest run, coloured by class (PNG, SVG, PDF).",
)
@json_option
@series_options
def command(
    campaign: str,
    *,
    picture: str | None,
    is_json: bool,
    callpath: str | None,
    metric: str | None,
    top: int | None,
) -> None:
    """Show which ranks of CAMPAIGN behave alike, and how their number grows.

    Counts decide, times confirm; a class keeps its name across runs. With --json a line per call
    path, metric and scale tells the class of every rank. With --plot FILE the ranks of the
    costliest call paths are drawn by their value and, where the program laid them out with
    MPI_Cart_create, by their place.
    """
    with open_store(campaign) as store:
        models = kept_models(store)
        _, left_out_runs = select_runs(store.runs())
        share = measured_shares(models)
    chosen = [one for one in models.clusters if is_chosen(key_of(one), callpath, metric)]
    if models.clusters and not chosen:
        raise none_chosen((one.metric for one in models.clusters), callpath, metric)
    chosen.sort(key=lambda one: _order(one, share))
    shown, left_out = dearest((one.callpath for one in chosen), top, is_json=is_json)
    rows = [one for one in chosen if one.callpath in shown]
    if picture is not None:
        _draw(rows, campaign, picture, most=top or MOST_DRAWN)
        return
    numbers = size_laws(rows, models.parameters)
    if is_json:
        print_json(class_row(one, numbers) for one in rows)
        return
    _print(rows, numbers, share)
    print_left_out(left_out)
    print_findings([*left_out_runs, *about(models, shown)])


def _draw(rows: Sequence[Clusters], campaign: str, file: str, *, most: int) -> None:
    """Draw one metric of each of the dearest call paths whose ranks part, at the largest scale.

    Raises:
        UsageError: nothing to draw, no matplotlib, or a file that cannot be written.
    """
    check_picture(file)
    from insitu.views.ranks import RankValues, draw_ranks

    parted = [one for one in rows if len(one.names) > 1]
    chosen: dict[CallPath, Clusters] = {}
    for one in parted:
        known = chosen.setdefault(one.callpath, one)
        if one.metric == known.metric and one.run.parameters > known.run.parameters:
            chosen[one.callpath] = one
    if not chosen:
        raise UsageError(f"{campaign}: all ranks behave alike in what was asked for: no picture")
    fields = []
    with open_store(campaign) as store:
        records, _ = select_runs(store.runs())
        for one in list(chosen.values())[:most]:
            run = one.run.parameters
            tables = [store.table(record.id) for record in records if record.key.parameters == run]
            unit, values = _values(tables, one)
            fields.append(
                RankValues(
                    str(one.callpath),
                    one.metric,
                    unit,
                    place(run),
                    values,
                    one.labels,
                    one.names,
                    find_domain(tables),
                )
            )
    try:
        draw_ranks(fields, title=f"{load_config(campaign).name}: classes of ranks", file=file)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
    click.echo(f"{file}: {len(fields)} of {len(chosen)} call paths whose ranks part")


def _values(tables: Sequence[RunTable], one: Clusters) -> tuple[str, FloatArray]:
    """The unit, and the mean of each rank over repetitions."""
    found = [
        table.values[one.metric][table.callpaths.index(one.callpath)][None]
        for table in tables
        if one.metric in table.values and one.callpath in table.callpaths
    ]
    units = [metric.unit for table in tables for metric in table.metrics]
    names = [metric.name for table in tables for metric in table.metrics]
    return units[names.index(one.metric)], mean_over_runs(found)[0]


def key_of(clusters: Clusters) -> SeriesKey:
    """The series of all ranks of these clusters."""
    return SeriesKey(clusters.callpath, clusters.metric)


def counts_of(clusters: Clusters) -> dict[str, int]:
    """How many ranks each class has."""
    counts = np.bincount(clusters.labels[clusters.labels >= 0], minlength=len(clusters.names))
    return dict(zip(clusters.names, counts.tolist(), strict=True))


def class_row(clusters: Clusters, numbers: Mapping[SeriesKey, Model]) -> dict[str, Any]:
    """One line of JSON: the class of every rank at one scale.

    `labels` are indices into `classes`, -1 where a rank has no value.
    """
    counts = counts_of(clusters)
    models: dict[str, dict[str, Any]] = {}
    for name in clusters.names:
        model = numbers.get(SeriesKey(clusters.callpath, clusters.metric, name))
        if model is not None:
            models[name] = {"text": str(model), "segments": segments(model)}
    return {
        "callpath": str(clusters.callpath),
        "metric": clusters.metric,
        "params": {
            name: int(value) if value.is_integer() else value
            for name, value in clusters.run.parameters
        },
        "labels": clusters.labels.tolist(),
        "classes": list(clusters.names),
        "ranks": counts,
        "ranks_model": models,
    }


def _order(clusters: Clusters, share: Mapping[CallPath, float]) -> tuple[object, ...]:
    path = clusters.callpath
    return (-share.get(path, 0.0), path, metric_order(clusters.metric), clusters.metric)


def _print(
    rows: Sequence[Clusters],
    numbers: Mapping[SeriesKey, Model],
    share: Mapping[CallPath, float],
) -> None:
    """Call paths whose ranks part; the others are only counted."""
    parting = {key_of(one) for one in rows if len(one.names) > 1}
    parted: dict[CallPath, list[Clusters]] = defaultdict(list)
    for one in rows:
        if key_of(one) in parting:
            parted[one.callpath].append(one)
    shown = [one for clusters in parted.values() for one in clusters]
    places = sorted({one.run.parameters for one in shown})[-PLACES:]
    if parted:
        click.echo(f"ranks per class at {_named(places)}\n")
        print_blocks(
            "share",
            COLUMNS,
            [
                Block(percent(share.get(path, 0.0)), str(path), _lines(clusters, numbers, places))
                for path, clusters in parted.items()
            ],
        )
    alike = len({one.callpath for one in rows}) - len(parted)
    if alike:
        paths = "call path" if alike == 1 else "call paths"
        click.echo(f"{alike} {paths}{' more' if parted else ''}, on which all ranks behave alike")


def _named(places: Sequence[Parameters]) -> str:
    """`p = 4, 8, 16`; with several parameters each place in full."""
    if all(len(parameters) == 1 for parameters in places):
        name = places[0][0][0]
        return f"{name} = {', '.join(number(parameters[0][1]) for parameters in places)}"
    return "; ".join(map(place, places))


def _lines(
    clusters: Sequence[Clusters], numbers: Mapping[SeriesKey, Model], places: Sequence[Parameters]
) -> list[tuple[str, ...]]:
    """A line per class; metrics whose classes are of the same sizes share it."""
    counts: dict[str, dict[str, dict[Parameters, int]]] = defaultdict(lambda: defaultdict(dict))
    for one in clusters:
        for name, count in counts_of(one).items():
            counts[one.metric][name][one.run.parameters] = count
    metrics: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for metric, classes in counts.items():
        for name, at in sorted(classes.items()):
            model = numbers.get(SeriesKey(clusters[0].callpath, metric, name))
            sizes = " ".join(str(at.get(parameters, "–")) for parameters in places)
            metrics[name, sizes, "" if model is None else str(model)].append(metric)
    return [(*line, ", ".join(of)) for line, of in metrics.items()]
