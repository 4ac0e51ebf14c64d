"""Serving as a relay between the agents of some nodes and the aggregator."""

import asyncio
from collections.abc import Callable


def serve_relay(
    campaign: str,
    name: str,
    *,
    heartbeat_s: float = 1.0,
    address: str = "",
    report: Callable[[str], None] = lambda text: None,
) -> None:
    """Relay between agents and the aggregator of a campaign until a signal ends it.

    Args:
        campaign: directory of the campaign.
        name: of the relay; only one relay at a time has a name.
        heartbeat_s: seconds between two messages of an agent.
        address: `tcp://HOST:PORT` for agents on other machines; default: this machine only.
        report: called with sentences for people.

    Raises:
        CampaignError: there is no campaign, or another relay has this name.
    """
    from insitu.server.relay.loop import relay

    asyncio.run(relay(campaign, name=name, heartbeat_s=heartbeat_s, report=report, address=address))
