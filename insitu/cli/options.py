"""Options that several commands share."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from insitu.cli.campaign_names import choose_campaign, complete_callpath, complete_metric

if TYPE_CHECKING:  # loaded by the commands that select series, not by all
    from insitu.workflows.selection import SeriesFilter

Command = Callable[..., None]
DEFAULT_TARGET = (
    "default: target of campaign.toml, else 64 times the largest number of ranks, at most 65,536"
)
TABLE_CALLPATHS = 15  # call paths in a table without --top

# The campaign may be left out where the current directory contains exactly one.
campaign_argument = click.argument(
    "campaign",
    type=click.Path(readable=False),
    metavar="[CAMPAIGN]",
    required=False,
    callback=choose_campaign,
)
named_campaign_argument = click.argument(
    "campaign",
    type=click.Path(readable=False),
    metavar="CAMPAIGN",
    callback=choose_campaign,
)
json_option = click.option(
    "-j", "--json", "is_json", is_flag=True, help="Print one JSON object per line and nothing else."
)
bind_option = click.option(
    "--bind",
    "address",
    default="",
    metavar="tcp://HOST:PORT",
    help="Listen for agents on other machines, encrypted (default: this machine only).",
)
heartbeat_option = click.option(
    "--beat",
    "heartbeat_s",
    type=click.FloatRange(0.01, 3600.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Interval between two messages of an agent; the same for the aggregator and its relays.",
)


def series_options(function: Command) -> Command:
    """Add --callpath, --metric and --top, passed as `callpath`, `metric` and `top`."""
    for option in (
        click.option(
            "-t",
            "--top",
            type=click.IntRange(0),
            metavar="N",
            help=f"Show only the N most expensive call paths; 0 shows all (default:"
            f" {TABLE_CALLPATHS} in a table, all with --json).",
        ),
        click.option(
            "-m",
            "--metric",
            metavar="NAME",
            shell_complete=complete_metric,
            help="Show only this metric, such as time.",
        ),
        click.option(
            "-c",
            "--callpath",
            metavar="PATTERN",
            shell_complete=complete_callpath,
            help="Show only call paths that contain PATTERN; * and ? are wildcards.",
        ),
    ):
        function = option(function)

    return function


def series_filter_of(
    callpath: str | None, metric: str | None, top: int | None, *, is_json: bool
) -> "SeriesFilter":
    """Return the filter that the options of `series_options` describe."""
    from insitu.workflows.selection import SeriesFilter

    limit = top if top is not None else 0 if is_json else TABLE_CALLPATHS
    return SeriesFilter(callpath, metric, limit, is_overview=not is_json)


def page_options(function: Command) -> Command:
    """Add --web, --port and --token-file, passed as `is_web`, `port` and `token_file`."""
    web = click.option("-w", "--web", "is_web", is_flag=True, help="Serve a page for a browser.")
    port = click.option(
        "-P",
        "--port",
        type=click.IntRange(0, 65535),
        metavar="N",
        help="Port for the page (default: any free port).",
    )
    token_file = click.option(
        "--token-file",
        type=click.Path(),
        metavar="FILE",
        help="Keep the secret part of the page's address in FILE and reuse it at every start.",
    )
    return web(port(token_file(function)))


def refuse_page_options(*, is_web: bool, port: int | None, token_file: str | None) -> None:
    """Refuse options of the page without --web.

    Raises:
        click.UsageError: --port or --token-file is given without --web.
    """
    if is_web:
        return
    for name, value in (("--port", port), ("--token-file", token_file)):
        if value is not None:
            raise click.UsageError(f"{name} applies to the page; add --web")
