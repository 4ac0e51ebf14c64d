"""`insitu relay`: stand between the agents of some nodes and the aggregator."""

import asyncio
import socket

import click

from insitu.cli.listening import beat_option, bind_option, speaker


@click.command(name="relay")
@click.argument("campaign", type=click.Path(file_okay=False, exists=True))
@click.option(
    "--name",
    default=socket.gethostname,
    metavar="NAME",
    help="What it is called; the default is the name of the host. One at a time has a name.",
)
@bind_option
@beat_option
def command(campaign: str, name: str, address: str, heartbeat_s: float) -> None:
    """Relay between agents and the aggregator of CAMPAIGN, for jobs with thousands of nodes.

    Agents speak to one of the relays that are running instead of to the aggregator. While the ranks
    run, the aggregator gets sketches of their values; when a node's ranks have ended, every value.
    A relay keeps nothing: started again, under its name, it goes on where it was.
    """
    from insitu.server.relay.loop import relay

    asyncio.run(
        relay(
            campaign, name=name, heartbeat_s=heartbeat_s, report=speaker("relay"), address=address
        )
    )
