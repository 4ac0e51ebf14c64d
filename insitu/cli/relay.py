"""`insitu relay`: stand between the agents of some nodes and the aggregator."""

import asyncio
import socket

import click


@click.command(name="relay")
@click.argument("campaign", type=click.Path(file_okay=False, exists=True))
@click.option(
    "--name",
    default=socket.gethostname,
    metavar="NAME",
    help="What it is called; the default is the name of the host. One at a time has a name.",
)
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
    help="Time between two messages of an agent; as that of the aggregator.",
)
def command(campaign: str, name: str, address: str, beat_s: float) -> None:
    """Relay between agents and the aggregator of CAMPAIGN, for jobs with thousands of nodes.

    Agents speak to one of the relays that are running instead of to the aggregator. While the ranks
    run, the aggregator gets sketches of their values; when a node's ranks have ended, every value.
    A relay keeps nothing: started again, under its name, it goes on where it was.
    """
    from insitu.monitor.names import printable
    from insitu.server.relay_loop import relay

    def say(text: str) -> None:
        for line in text.splitlines():
            click.echo(f"insitu relay: {printable(line)}", err=True)

    asyncio.run(relay(campaign, name=name, beat_s=beat_s, say=say, address=address))
