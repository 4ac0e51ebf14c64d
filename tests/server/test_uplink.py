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
from insitu.wire.codec import encode
from insitu.wire.messages import Ack

ANSWER = Ack("i", 3, 0, False)


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


def test_a_relay_receives_all_answers_and_closes_both_its_sockets(tmp_path):
    async def exchange() -> tuple[list[object], bool, list[bool]]:
        with zmq.asyncio.Context() as context:
            aggregator = context.socket(zmq.ROUTER)
            port = aggregator.bind_to_random_port("tcp://127.0.0.1")
            uplink = Uplink(str(tmp_path), context)
            uplink.address = ListenerAddress(f"tcp://127.0.0.1:{port}", "token", pid=os.getpid())
            uplink.reconnect()
            sockets = [uplink.socket, uplink.monitor]
            try:
                await uplink.send(ANSWER)
                peer, _ = await aggregator.recv_multipart()
                for _ in range(2):
                    await aggregator.send_multipart([peer, encode(ANSWER)])
                messages: list[object] = []
                was_lost = False
                while len(messages) < 2:
                    received, was_lost = await uplink.receive(30)
                    messages += received
            finally:
                uplink.close()
                aggregator.close(0)
            return messages, was_lost, [socket.closed for socket in sockets]

    assert asyncio.run(exchange()) == ([ANSWER, ANSWER], False, [True, True])
