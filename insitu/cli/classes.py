"""`insitu classes`: which ranks behave alike."""

from collections import defaultdict
from collections.abc import Sequence

import click

from insitu.analysis.predict import format_point
from insitu.cli.messages import print_error
from insitu.cli.options import campaign_argument, json_option, series_filter_of, series_options
from insitu.cli.output import (
    Block,
    OutputColumn,
    count_text,
    print_blocks,
    print_findings,
    print_hidden_callpaths,
    print_json,
)
from insitu.entities import CallPath, number
from insitu.modeling.base import Clusters
from insitu.modeling.measurement import SeriesKey
from insitu.units import percent
from insitu.workflows.classes import (
    ClassListing,
    class_row,
    class_sizes,
    draw_classes,
    list_classes,
)
from insitu.workflows.selection import SeriesFilter

SHOWN_COORDINATES = 10  # in the table; the largest ones
COLUMNS = (
    OutputColumn("class"),
    OutputColumn("ranks"),
    OutputColumn("model"),
    OutputColumn("metrics", is_wide=True),
)
Parameters = tuple[tuple[str, float], ...]


@click.command(name="classes")
@campaign_argument
@click.option(
    "--plot",
    "picture",
    metavar="FILE",
    help="Draw the ranks of the largest run, coloured by class, into FILE (PNG, SVG, PDF).",
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
    """Show which ranks of CAMPAIGN behave alike, and how the number of such ranks grows.

    Classes are based on counts, confirmed by times. A class has the same name in all runs. With
    --json, each line has the class of every rank for one call path, metric and coordinate. With
    --plot, the picture shows the ranks of the most expensive call paths by value and, if the
    program calls MPI_Cart_create, by grid position.
    """
    if picture is not None:
        plot = draw_classes(campaign, picture, SeriesFilter(callpath, metric, top or 0))
        click.echo(f"{plot.file}: {plot.shown} of {plot.matching} call paths with several classes")
        return

    listing = list_classes(campaign, series_filter_of(callpath, metric, top, is_json=is_json))
    if listing.missing:
        print_error(listing.missing)
    if is_json:
        print_json(class_row(clusters, listing.size_models) for clusters in listing.clusters)
        return
    _print_table(listing)
    print_hidden_callpaths(listing.hidden_callpaths)
    print_findings(listing.findings)


def _print_table(listing: ClassListing) -> None:
    """Print the call paths with several classes; only count the others."""
    split_series = {_series_of(entry) for entry in listing.clusters if len(entry.names) > 1}
    split: dict[CallPath, list[Clusters]] = defaultdict(list)
    coordinates: set[Parameters] = set()
    for entry in listing.clusters:
        if _series_of(entry) in split_series:
            split[entry.callpath].append(entry)
            coordinates.add(entry.run.parameters)

    shown = sorted(coordinates)[-SHOWN_COORDINATES:]
    if split:
        click.echo(f"ranks per class at {_format_coordinates(shown)}\n")
        blocks = []
        for path, clusters in split.items():
            share = percent(listing.share.get(path, 0.0))
            blocks.append(Block(share, str(path), _lines(clusters, listing, shown)))
        print_blocks("share", COLUMNS, blocks)

    uniform = len({entry.callpath for entry in listing.clusters}) - len(split)
    if uniform:
        kind = "more call path" if split else "call path"
        click.echo(f"{count_text(uniform, kind)} on which all ranks behave alike")


def _series_of(clusters: Clusters) -> tuple[CallPath, str]:
    return clusters.callpath, clusters.metric


def _format_coordinates(coordinates: Sequence[Parameters]) -> str:
    """Return `p = 4, 8, 16`, or each coordinate in full if there are several parameters."""
    if all(len(parameters) == 1 for parameters in coordinates):
        name = coordinates[0][0][0]
        values = [number(parameters[0][1]) for parameters in coordinates]
        return f"{name} = {', '.join(values)}"
    return "; ".join(map(format_point, coordinates))


def _lines(
    clusters: Sequence[Clusters], listing: ClassListing, coordinates: Sequence[Parameters]
) -> list[tuple[str, ...]]:
    """Return a line per class; metrics whose classes have the same sizes share a line."""
    sizes: dict[str, dict[str, dict[Parameters, int]]] = defaultdict(lambda: defaultdict(dict))
    for entry in clusters:
        for name, size in class_sizes(entry).items():
            sizes[entry.metric][name][entry.run.parameters] = size

    metrics: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for metric, classes in sizes.items():
        for name, by_coordinate in sorted(classes.items()):
            model = listing.size_models.get(SeriesKey(clusters[0].callpath, metric, name))
            text = " ".join(str(by_coordinate.get(at, "–")) for at in coordinates)
            metrics[name, text, "" if model is None else str(model)].append(metric)
    return [(*line, ", ".join(names)) for line, names in metrics.items()]
