"""What the aggregator and a relay share: receive messages in bursts, answer, report once."""

import asyncio
import contextlib
import os
import signal
import socket
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import zmq

from insitu.campaign.layout import AGGREGATOR_ADDRESS
from insitu.campaign.listener import ListenerAddress, find_address
from insitu.errors import WireError
from insitu.server.discovery import remove_address
from insitu.server.events import MessageArrived, Reply
from insitu.server.reports import ReportLimiter
from insitu.server.sockets import Sockets
from insitu.wire.codec import decode, encode
from insitu.wire.messages import REFUSED, Ack, Reject

BURST = 256  # messages before the timer runs again
MAX_INTERVAL_S = 1.0  # boards are updated this often even if agents report less often


@dataclass(slots=True, kw_only=True)
class Listener(ABC):
    """A process that agents connect to."""

    NAME: ClassVar[str]

    sockets: Sockets
    heartbeat_s: float
    report: Callable[[str], None]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    answers: list[list[bytes]] = field(default_factory=list)  # not sent yet
    failures: int = 0  # unexpected exceptions; each is reported
    limiter: ReportLimiter = field(default_factory=ReportLimiter)
    started: float = field(default_factory=time.time)
    started_monotonic: float = field(default_factory=time.monotonic)
    address: ListenerAddress | None = None  # that this process has published
    address_path: str = ""
    arrival: tuple[bytes, int] = (b"", 0)  # of the newest message: its peer, unslewed nanoseconds

    def now(self) -> float:
        """Seconds since 1970; unlike `time.time`, this clock never jumps."""
        return self.started + time.monotonic() - self.started_monotonic

    @contextlib.contextmanager
    def announcement(
        self,
        campaign: str,
        *,
        instance: str,
        token: str,
        boards: str = "",
        file: str = AGGREGATOR_ADDRESS,
    ) -> Iterator[None]:
        """Publish this process's address for the duration of the block; stop it at a signal.

        Args:
            campaign: the campaign's directory.
            instance: differs from that of every earlier or later process.
            token: the token that agents must present.
            boards: the endpoint where boards are published; empty if none are.
            file: the name of the address file in the campaign.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request_stop)

        address = ListenerAddress(
            endpoint=self.sockets.endpoint,
            token=token,
            boards=boards,
            curve=self.sockets.curve,
            instance=instance,
            pid=os.getpid(),
            host=socket.gethostname(),
            started=self.started,
        )
        path = os.path.join(campaign, file)
        address.save(path)
        self.address, self.address_path = address, path
        try:
            yield
        finally:
            if find_address(path) == address:  # not that of a process which has taken over
                remove_address(campaign, file)

    async def _stay_announced(self) -> None:
        """Publish the address again if somebody has removed it."""
        if self.address is not None and not os.path.exists(self.address_path):
            self.address.save(self.address_path)

    def request_stop(self) -> None:
        """Handle a signal: stop soon."""
        self.stop.set()

    @abstractmethod
    async def _handle_message(self, event: MessageArrived) -> None:
        """Handle one message of an agent."""

    async def _receive_burst(self) -> None:
        """Wait for messages and handle those that are there.

        Waiting for each message separately would cost more than handling it. `_send_answers` sends
        the answers together for the same reason: each separate send wakes the thread of the socket.
        """
        agents: zmq.Socket[bytes] = zmq.Socket.shadow(self.sockets.agents)
        await self.sockets.agents.poll()
        with contextlib.suppress(zmq.Again):
            for _ in range(BURST):
                await self._handle_frames(agents.recv_multipart(zmq.NOBLOCK))

    async def _handle_frames(self, frames: list[bytes]) -> None:
        """Decode and handle one message; a malformed one is refused."""
        peer = frames[0]
        self.arrival = peer, _unslewed_ns()
        try:
            if len(frames) != 2:
                raise WireError(f"a message has {len(frames) - 1} frames, not 1")
            event = MessageArrived(peer, decode(frames[1]), self.now())
        except WireError as error:
            self._report_once(f"a message was refused: {error}", "refused")
            self._queue_answer(Reply(peer, Reject(REFUSED, str(error))))
            return

        await self._guard(self._handle_message(event))

    def _queue_answer(self, reply: Reply) -> None:
        """Send an answer with the next `_send_answers`."""
        message = reply.message
        peer, arrived_ns = self.arrival
        if isinstance(message, Ack) and reply.peer == peer:
            message = replace(message, arrived_ns=arrived_ns, answered_ns=_unslewed_ns())
        self.answers.append([reply.peer, encode(message)])

    async def _send_answers(self) -> None:
        """Send the queued answers. An agent that does not receive its answer asks again."""
        answers, self.answers = self.answers, []
        for frames in answers:
            with contextlib.suppress(zmq.ZMQError):
                await self.sockets.agents.send_multipart(frames, flags=zmq.NOBLOCK)

    async def _pause(self) -> None:
        """Wait until boards are due again."""
        await asyncio.sleep(min(self.heartbeat_s, MAX_INTERVAL_S))

    async def _guard(self, work: Awaitable[None]) -> None:
        """Keep the loop running when one event fails: report the exception and continue."""
        try:
            await work
        except Exception:
            self.failures += 1
            text = f"internal error in the {self.NAME}:\n{traceback.format_exc()}"
            self._report_once(text, "internal error")

    def _report_once(self, text: str, kind: str = "") -> None:
        """Report a message unless it, or too many of its kind, were reported in this hour."""
        for line in self.limiter.admit(kind, text, self.now()):
            self.report(line)


def _unslewed_ns() -> int:
    """Nanoseconds of a clock whose rate is not adjusted, for round trips of agents."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
