"""`insitu serve`: gather the runs of a campaign as they are measured."""

import asyncio
import os

import click


@click.command(name="serve")
@click.argument("campaign", type=click.Path(file_okay=False))
@click.option(
    "--bind",
    "address",
    default="",
    metavar="tcp://HOST:PORT",
    help="Listen for agents on other machines, encrypted; the default is this machine.",
)
@click.option(
    "--beat",
    "beat_s",
    type=click.FloatRange(0.01, 3600.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two messages of an agent.",
)
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
    from insitu.monitor.names import printable
    from insitu.server.loop import serve

    def say(text: str) -> None:
        for line in text.splitlines():
            click.echo(f"insitu serve: {printable(line)}", err=True)

    asyncio.run(
        serve(
            campaign,
            beat_s=beat_s,
            say=say,
            address=address,
            exit_with=exit_with,
            parent=parent or os.getppid(),
        )
    )
