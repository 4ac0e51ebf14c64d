"""`insitu relay`: relay between the agents of some nodes and the aggregator."""

import os
import socket

import click

from insitu.cli.messages import message_printer
from insitu.cli.options import bind_option, heartbeat_option
from insitu.collectors.priority import give_way
from insitu.workflows.relay import serve_relay


@click.command(name="relay")
@click.argument("campaign", type=click.Path(file_okay=False, exists=True))
@click.option(
    "--name",
    default=socket.gethostname,
    metavar="NAME",
    help="Name of the relay, unique among those that are running (default: the host name).",
)
@bind_option
@heartbeat_option
def command(campaign: str, name: str, address: str, heartbeat_s: float) -> None:
    """Relay between agents and the aggregator of CAMPAIGN, for jobs with thousands of nodes.

    Agents connect to one of the running relays instead of the aggregator. While the ranks run, the
    aggregator receives sketches of their values; when the ranks of a node have ended, it receives
    every value. A relay stores nothing: started again under the same name, it continues.
    """
    give_way(is_own_session=os.getsid(0) == os.getpid())
    serve_relay(
        campaign, name, heartbeat_s=heartbeat_s, address=address, report=message_printer("relay")
    )
