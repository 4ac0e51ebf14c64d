"""The connection of a relay to the aggregator, found through the campaign's aggregator.json."""

import asyncio
import contextlib
import os
from dataclasses import dataclass, field

import zmq
import zmq.asyncio
import zmq.auth
import zmq.utils.monitor

from insitu.server.discovery import Address, load_aggregator_address, read_secret
from insitu.server.sockets import CLIENT_KEY, SERVER_KEY
from insitu.wire.codec import decode, encode
from insitu.wire.messages import MAX_FRAME_BYTES, Message

OPTIONS = (
    (zmq.LINGER, 0),
    (zmq.SNDHWM, 8),
    (zmq.MAXMSGSIZE, MAX_FRAME_BYTES),
    (zmq.RECONNECT_IVL, 50),
    (zmq.RECONNECT_IVL_MAX, 2_000),
    (zmq.HEARTBEAT_IVL, 5_000),
    (zmq.HEARTBEAT_TIMEOUT, 20_000),
)


@dataclass(slots=True)
class Uplink:
    """A socket that is made anew whenever a conversation has failed."""

    campaign: str
    context: zmq.asyncio.Context
    address: Address | None = None
    socket: zmq.asyncio.Socket | None = None
    monitor: zmq.asyncio.Socket | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self) -> bool:
        """Connect to the aggregator that runs now; whether it is another one than before.

        Raises:
            CampaignError: its address or its keys may have been written by somebody else.
        """
        found = load_aggregator_address(self.campaign)
        if found is None or found == self.address:
            return False
        self.address = found
        return True

    def reconnect(self) -> None:
        """Begin a new connection; answers to the old one are not heard any more."""
        self.close()
        if self.address is None:
            return
        fresh = self.context.socket(zmq.DEALER)
        for option, value in OPTIONS:
            fresh.setsockopt(option, value)
        if self.address.curve:
            self._secure(fresh, self.address.curve)
        self.monitor = fresh.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        fresh.connect(self.address.endpoint)
        self.socket = fresh
        self.changed.set()

    def _secure(self, fresh: zmq.asyncio.Socket, keys: str) -> None:
        secret_file = os.path.join(keys, f"{CLIENT_KEY}.key_secret")
        read_secret(secret_file)
        fresh.curve_serverkey, _ = zmq.auth.load_certificate(
            os.path.join(keys, f"{SERVER_KEY}.key")
        )
        fresh.curve_publickey, fresh.curve_secretkey = zmq.auth.load_certificate(secret_file)

    async def send(self, message: Message) -> None:
        """Say something; where nobody is connected, waiting for the answer will end it."""
        if self.socket is not None:
            with contextlib.suppress(zmq.Again):
                await self.socket.send(encode(message), flags=zmq.NOBLOCK)

    async def heard(self, wait_s: float) -> tuple[list[Message], bool]:
        """What arrived within so many seconds, and whether the connection was lost."""
        messages: list[Message] = []
        self.changed.clear()
        heard, watched = self.socket, self.monitor
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self.changed.wait())]
        waits += [asyncio.ensure_future(one.poll()) for one in (heard, watched) if one is not None]
        await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
        if heard is None or watched is None or heard is not self.socket:
            return messages, False
        was_lost = False
        with contextlib.suppress(zmq.Again):
            while True:
                await zmq.utils.monitor.recv_monitor_message(watched, zmq.NOBLOCK)
                was_lost = True
        with contextlib.suppress(zmq.Again):
            while True:
                messages.append(decode(await heard.recv(zmq.NOBLOCK)))
        return messages, was_lost

    def close(self) -> None:
        """Drop the connection."""
        if self.socket is not None:
            self.socket.disable_monitor()
            self.socket.close(0)
        if self.monitor is not None:
            self.monitor.close(0)
        self.socket = self.monitor = None
