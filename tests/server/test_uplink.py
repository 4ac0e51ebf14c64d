"""Which aggregator a relay connects to: one that is there."""

import asyncio
import os
from socket import gethostname

import zmq.asyncio

from insitu.campaign.layout import AGGREGATOR_ADDRESS
from insitu.campaign.listener import ListenerAddress
from insitu.campaign.reachability import Reachability
from insitu.collectors.connection import SOCKET_OPTIONS
from insitu.server.discovery import WriterLock
from insitu.server.relay.uplink import OPTIONS as RELAY_OPTIONS
from insitu.server.relay.uplink import Uplink
from insitu.server.sockets import OPTIONS


def publish(campaign: str, instance: str) -> None:
    """Write the address file of an aggregator that does not answer."""
    address = ListenerAddress(
        f"ipc://{campaign}/nobody", "token", instance=instance, pid=os.getpid(), host=gethostname()
    )
    address.save(os.path.join(campaign, AGGREGATOR_ADDRESS))


def test_a_relay_connects_to_a_silent_aggregator_but_not_to_a_dead_one(tmp_path):
    campaign = str(tmp_path)

    async def look() -> list[object]:
        with zmq.asyncio.Context() as context:
            uplink = Uplink(campaign, context)
            found: list[object] = [await uplink.find_aggregator()]

            WriterLock(campaign).close()  # its process is gone
            publish(campaign, "dead")
            status = await uplink.find_aggregator()
            assert status is not None
            found += [status.reachability, uplink.address, os.path.exists(path)]

            with WriterLock(campaign):  # its process is stopped
                publish(campaign, "stopped")
                status = await uplink.find_aggregator()
                assert status is not None
                assert uplink.address is not None
                found += [status.reachability, uplink.address.instance]
                found.append(await uplink.find_aggregator())
            return found

    path = os.path.join(campaign, AGGREGATOR_ADDRESS)
    assert asyncio.run(look()) == [
        None,
        Reachability.ABSENT,
        None,
        False,
        Reachability.UNREACHABLE,
        "stopped",
        None,
    ]


def test_nobody_sends_heartbeats_of_libzmq_which_can_abort_the_receiver():
    for options in (SOCKET_OPTIONS, RELAY_OPTIONS, OPTIONS):
        names = {option for option, _ in options}

        assert zmq.HEARTBEAT_IVL not in names
        assert zmq.TCP_KEEPALIVE in names
