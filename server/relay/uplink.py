"""The connection of a relay to the aggregator that the campaign's address file names."""

import asyncio
import contextlib
import os
from dataclasses import dataclass, field

import zmq
import zmq.asyncio
import zmq.auth
import zmq.utils.monitor

from insitu.campaign.layout import CLIENT_KEY, SERVER_KEY
from insitu.campaign.listener import ListenerAddress
from insitu.campaign.reachability import ListenerStatus, find_listener
from insitu.collectors.connection import TCP_KEEPALIVE
from insitu.server.discovery import load_aggregator_address, read_private_file
from insitu.wire.codec import decode, encode
from insitu.wire.messages import MAX_FRAME_BYTES, Message

OPTIONS = (
    (zmq.LINGER, 0),
    (zmq.SNDHWM, 8),
    (zmq.MAXMSGSIZE, MAX_FRAME_BYTES),
    (zmq.RECONNECT_IVL, 50),
    (zmq.RECONNECT_IVL_MAX, 2_000),
    *TCP_KEEPALIVE,
)


@dataclass(slots=True)
class Uplink:
    """A socket that is replaced whenever a request has failed.

    address: of the aggregator that was found. refused: an address at which nothing listens.
    """

    campaign: str
    context: zmq.asyncio.Context
    address: ListenerAddress | None = None
    refused: ListenerAddress | None = None
    socket: zmq.asyncio.Socket | None = None
    monitor: zmq.asyncio.Socket | None = None
    replaced: asyncio.Event = field(default_factory=asyncio.Event)

    async def find_aggregator(self) -> ListenerStatus | None:
        """Look for another aggregator than before; None where no other address was published.

        Each address is checked once, in a thread: an address that a killed aggregator left behind
        is removed, and the relay goes on looking.

        Raises:
            CampaignError: the address file is not private to this user.
        """
        published = load_aggregator_address(self.campaign)
        if published is None or published in (self.address, self.refused):
            return None
        status = await asyncio.to_thread(find_listener, self.campaign)
        if status.address is None:
            self.refused = published
        else:
            self.address = status.address
        return status

    def reconnect(self) -> None:
        """Open a new connection; answers on the old one are not received any more."""
        self.close()
        if self.address is None:
            return

        new_socket = self.context.socket(zmq.DEALER)
        for option, value in OPTIONS:
            new_socket.setsockopt(option, value)
        if self.address.curve:
            _load_client_keys(new_socket, self.address.curve)

        self.monitor = new_socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        new_socket.connect(self.address.endpoint)
        self.socket = new_socket
        self.replaced.set()

    async def send(self, message: Message) -> None:
        """Send a message. A message that cannot be sent is dropped: its answer will time out."""
        if self.socket is not None:
            with contextlib.suppress(zmq.Again):
                await self.socket.send(encode(message), flags=zmq.NOBLOCK)

    async def receive(self, wait_s: float) -> tuple[list[Message], bool]:
        """Wait up to `wait_s` seconds; return the messages and whether the connection was lost."""
        messages: list[Message] = []
        self.replaced.clear()
        socket, monitor = self.socket, self.monitor

        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self.replaced.wait())]
        if socket is not None:
            waits.append(asyncio.ensure_future(socket.poll()))
        if monitor is not None:
            waits.append(asyncio.ensure_future(monitor.poll()))
        await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

        if socket is None or monitor is None or socket is not self.socket:
            return messages, False

        was_lost = False
        with contextlib.suppress(zmq.Again):
            while True:
                await zmq.utils.monitor.recv_monitor_message(monitor, zmq.NOBLOCK)
                was_lost = True
        with contextlib.suppress(zmq.Again):
            while True:
                messages.append(decode(await socket.recv(zmq.NOBLOCK)))
        return messages, was_lost

    def close(self) -> None:
        """Close the connection."""
        if self.socket is not None:
            self.socket.disable_monitor()
            self.socket.close(0)
        if self.monitor is not None:
            self.monitor.close(0)
        self.socket = self.monitor = None


def _load_client_keys(socket: zmq.asyncio.Socket, keys: str) -> None:
    secret_file = os.path.join(keys, f"{CLIENT_KEY}.key_secret")
    read_private_file(secret_file)  # fails unless it is private
    socket.curve_serverkey, _ = zmq.auth.load_certificate(os.path.join(keys, f"{SERVER_KEY}.key"))
    socket.curve_publickey, socket.curve_secretkey = zmq.auth.load_certificate(secret_file)
