"""`insitu serve`: collect the runs of a campaign as they are measured."""

import os
import sys
import threading

import click

from insitu.cli.messages import message_printer
from insitu.cli.options import bind_option, heartbeat_option, page_options, refuse_page_options
from insitu.collectors.priority import give_way
from insitu.workflows.serve import ServeOptions, serve_campaign


@click.command(name="serve")
@click.argument("campaign", type=click.Path(file_okay=False))
@bind_option
@heartbeat_option
@page_options
@click.option(
    "--exit-with",
    "until_run",
    default="",
    metavar="RUN",
    hidden=True,
    help="End when this run is over.",
)
@click.option(
    "--parent",
    type=int,
    default=0,
    metavar="PID",
    hidden=True,
    help="End when this process, which started the aggregator, is gone.",
)
def command(
    *,
    campaign: str,
    address: str,
    heartbeat_s: float,
    is_web: bool,
    port: int | None,
    token_file: str | None,
    until_run: str,
    parent: int,
) -> None:
    """Collect the runs of CAMPAIGN as they are measured, and fit their models.

    Creates the campaign if it does not exist. Runs until Ctrl-C or SIGTERM; then it completes the
    runs whose ranks have all ended and stores the others as incomplete.

    With --web, the page of `insitu watch --web` runs as a second process. Runs are collected even
    if that process fails.
    """
    refuse_page_options(is_web=is_web, port=port, token_file=token_file)
    give_way(is_own_session=bool(until_run))  # which `insitu run` began, and takes back
    options = ServeOptions(
        heartbeat_s,
        address,
        has_page=is_web,
        port=port or 0,
        token_file=token_file,
        until_run=until_run,
        parent=parent,
    )
    serve_campaign(campaign, options, message_printer("serve"))

    # Exit without unloading the interpreter, which takes 0.1 s that `insitu run` would wait for.
    # And a thread that still fits models may be inside C++ code, which aborts if Python ends.
    if until_run or threading.active_count() > 1:
        sys.stderr.flush()
        os._exit(0)
