"""`insitu serve`: gather the runs of a campaign as they are measured."""

import asyncio
import os
import sys
import threading

import click

from insitu.cli.listening import beat_option, bind_option, speaker
from insitu.cli.webpage import PageBeside, page_options, refuse_without_page


@click.command(name="serve")
@click.argument("campaign", type=click.Path(file_okay=False))
@bind_option
@beat_option
@page_options
@click.option(
    "--exit-with",
    "exit_with",
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
    help="End when this process, which started it, is gone.",
)
def command(
    *,
    campaign: str,
    address: str,
    heartbeat_s: float,
    web: bool,
    port: int | None,
    token_file: str | None,
    exit_with: str,
    parent: int,
) -> None:
    """Gather the runs of CAMPAIGN as they are measured, and make their models.

    The directory is made where it is not there yet. Runs until Ctrl-C or SIGTERM: what is complete
    is sealed then, the rest is kept as partial.

    With --web it also shows the page of `insitu watch --web`, as a process of its own: runs are
    gathered whatever becomes of it.
    """
    refuse_without_page(web, port=port, token_file=token_file)
    from insitu.server.loop import serve

    say = speaker("serve")
    options = ("--port", str(port or 0), *(("--token-file", token_file) if token_file else ()))
    with PageBeside(campaign, options, say) as page:
        asyncio.run(
            serve(
                campaign,
                heartbeat_s=heartbeat_s,
                report=say,
                on_ready=page.start if web else None,
                address=address,
                exit_with=exit_with,
                parent=parent or os.getppid(),
            )
        )
    # Who started it waits, and taking the modules apart would take 0.1 s; and a thread that still
    # makes models may be inside C++, where Python's end would end it with an abort.
    if exit_with or threading.active_count() > 1:
        sys.stderr.flush()
        os._exit(0)
