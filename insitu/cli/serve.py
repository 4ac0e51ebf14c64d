"""`insitu serve`: gather the runs of a campaign as they are measured."""

import asyncio
import os

import click

from insitu.cli.listening import beat_option, bind_option, speaker


@click.command(name="serve")
@click.argument("campaign", type=click.Path(file_okay=False))
@bind_option
@beat_option
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
def command(campaign: str, address: str, beat_s: float, exit_with: str, parent: int) -> None:
    """Gather the runs of CAMPAIGN as they are measured, and make their models.

    The directory is made where it is not there yet. Runs until Ctrl-C or SIGTERM: what is complete
    is sealed then, the rest is kept as partial.
    """
    from insitu.server.loop import serve

    asyncio.run(
        serve(
            campaign,
            beat_s=beat_s,
            say=speaker("serve"),
            address=address,
            exit_with=exit_with,
            parent=parent or os.getppid(),
        )
    )
