"""`insitu classes`: which ranks behave alike."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import click

from insitu.analysis.predict import format_point
from insitu.analysis.summary import MEANS_ONLY, are_means_of_ranks
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
from insitu.modeling.classes.naming import is_letter
from insitu.modeling.measurement import SeriesKey
from insitu.text import printable
from insitu.units import percent
from insitu.workflows.classes import (
    ClassListing,
    class_row,
    class_sizes,
    draw_classes,
    find_incomplete_metrics,
    list_classes,
)
from insitu.workflows.selection import SeriesFilter

SHOWN_COORDINATES = 10  # in the table; the largest ones
SHOWN_CLASSES = 8  # lines of a call path without --all
COLUMNS = (
    OutputColumn("class"),
    OutputColumn("ranks"),
    OutputColumn("model"),
    OutputColumn("metrics", is_wide=True),
)
SAME_METRICS = "same"  # as on the line above
Parameters = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class _ClassMetrics:
    """The metrics that have a class: with values of all its ranks, and of some."""

    complete: list[str] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = ", ".join(self.complete)
        return f"{text}; in some ranks: {', '.join(self.partial)}" if self.partial else text


@click.command(name="classes")
@campaign_argument
@click.option(
    "-p",
    "--plot",
    "picture",
    metavar="FILE",
    help="Draw the ranks of the largest run, coloured by class, into FILE (PNG, SVG, PDF).",
)
@click.option("-a", "--all", "is_all", is_flag=True, help="Show every class on a line of its own.")
@json_option
@series_options
def command(
    campaign: str,
    *,
    picture: str | None,
    is_all: bool,
    is_json: bool,
    callpath: str | None,
    metric: str | None,
    top: int | None,
) -> None:
    """Show which ranks of CAMPAIGN behave alike, and how the number of such ranks grows.

    Classes are based on counts, or else on times. A class has the same name in all runs. Where a
    call path has more than eight, those of one kind share a line unless --all is given. With
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

    _print_table(listing, is_all=is_all)
    print_hidden_callpaths(listing.hidden_callpaths)
    print_findings(listing.findings)


def _print_table(listing: ClassListing, *, is_all: bool) -> None:
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
            lines = _lines(clusters, listing, shown, is_all=is_all)
            blocks.append(Block(share, str(path), lines))
        print_blocks("share", COLUMNS, blocks)

    few_ranks = {path: text for path, text in listing.few_ranks.items() if path not in split}
    for path, text in few_ranks.items():
        share = percent(listing.share.get(path, 0.0))
        click.echo(printable(f"{share:>5} {path}: {text}"))

    uniform = len({entry.callpath for entry in listing.clusters}) - len(split) - len(few_ranks)
    if uniform and are_means_of_ranks(listing.clusters):
        click.echo(f"{count_text(uniform, 'call path')}: {MEANS_ONLY}")
    elif uniform:
        kind = "more call path" if split or few_ranks else "call path"
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
    clusters: Sequence[Clusters],
    listing: ClassListing,
    coordinates: Sequence[Parameters],
    *,
    is_all: bool,
) -> list[tuple[str, ...]]:
    """Return a line per class; metrics whose classes have the same sizes share a line.

    A metric that lacks values of some ranks shares the lines of one with the same classes. Unless
    all are wanted, the classes of one kind of ranks share a line if there are many, and no more
    than SHOWN_CLASSES lines are returned.
    """
    sizes: dict[str, dict[str, dict[Parameters, int]]] = defaultdict(lambda: defaultdict(dict))
    for entry in clusters:
        for name, size in class_sizes(entry).items():
            sizes[entry.metric][name][entry.run.parameters] = size

    incomplete = {} if is_all else find_incomplete_metrics(clusters)
    metrics: dict[tuple[str, str], _ClassMetrics] = defaultdict(_ClassMetrics)
    models: dict[tuple[str, str], str] = {}
    for metric, own_classes in sizes.items():
        classes = own_classes
        if metric in incomplete:
            complete = sizes[incomplete[metric]]
            classes = {name: complete[name] for name in own_classes}
        members = {name: [name] for name in classes}
        if not is_all and len(classes) > SHOWN_CLASSES:
            members = _group_by_kind(classes)

        for name, names in sorted(members.items()):
            total: dict[Parameters, int] = defaultdict(int)
            for member in names:
                for at, size in classes[member].items():
                    total[at] += size
            text = " ".join(str(total.get(at, "–")) for at in coordinates)
            model = listing.size_models.get(SeriesKey(clusters[0].callpath, metric, name))
            if model is not None:
                models[name, text] = str(model)
            note = f" ({len(names)} classes)" if len(names) > 1 else ""
            of_line = metrics[name, text]
            (of_line.partial if metric in incomplete else of_line.complete).append(metric + note)

    lines: list[tuple[str, ...]] = []
    previous = ""
    for line, of_line in metrics.items():
        listed = str(of_line)
        lines.append((*line, models.get(line, ""), SAME_METRICS if listed == previous else listed))
        previous = listed
    if is_all or len(lines) <= SHOWN_CLASSES:
        return lines
    n_hidden = len(lines) - SHOWN_CLASSES + 1
    return [*lines[: SHOWN_CLASSES - 1], (f"{n_hidden} more", "", "", "shown with --all")]


def _group_by_kind(names: Iterable[str]) -> dict[str, list[str]]:
    """Classes by the kind of their ranks: `corner` has `corner x-y-` and `corner x-y+`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        words = [word for word in name.split() if not set(word) & set("+-±")]
        groups["A, B, …" if is_letter(name) else " ".join(words)].append(name)
    return groups
