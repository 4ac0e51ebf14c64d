"""What the aggregator and a relay do alike: hear agents in bursts, answer them, say things once."""

import asyncio
import contextlib
import os
import signal
import socket
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import zmq

from insitu.errors import WireError
from insitu.server.discovery import ADDRESS, Address, remove_address
from insitu.server.events import MessageArrived, Reply
from insitu.server.sockets import Sockets
from insitu.wire.codec import decode, encode
from insitu.wire.messages import REFUSED, Reject

BURST = 256  # messages before the timer gets its turn
LOOK_S = 1.0  # people want to see something, however rarely agents speak
SAID_AT_MOST = 1_000  # different sentences; a flood must not fill a log


@dataclass(slots=True, kw_only=True)
class Listener(ABC):
    """A process that agents speak to."""

    WHO: ClassVar[str]

    sockets: Sockets
    heartbeat_s: float
    say: Callable[[str], None]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    answers: list[list[bytes]] = field(default_factory=list)  # that have not been sent yet
    failures: int = 0  # of the process itself; each is said
    said: set[str] = field(default_factory=set)
    started: float = field(default_factory=time.time)
    started_monotonic: float = field(default_factory=time.monotonic)

    def now(self) -> float:
        """Seconds since 1970, without the jumps of a clock that is set."""
        return self.started + time.monotonic() - self.started_monotonic

    @contextlib.contextmanager
    def announced(
        self, campaign: str, *, instance: str, token: str, boards: str = "", file: str = ADDRESS
    ) -> Iterator[None]:
        """While the block lasts, others find this process, and a signal asks it to stop.

        Args:
            campaign: its directory.
            instance: tells this process from those before and after it.
            token: what agents show to be let in.
            boards: where boards are published; empty where none are.
            file: the name of the address in the campaign.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask_to_stop)
        Address(
            pid=os.getpid(),
            host=socket.gethostname(),
            instance=instance,
            endpoint=self.sockets.endpoint,
            boards=boards,
            token=token,
            started=self.started,
            curve=self.sockets.curve,
        ).write(campaign, file)
        try:
            yield
        finally:
            remove_address(campaign, file)

    def ask_to_stop(self) -> None:
        """A signal: end soon."""
        self.stop.set()

    @abstractmethod
    async def _arrive(self, event: MessageArrived) -> None:
        """Do what a message asks for."""

    async def _burst(self) -> None:
        """Wait for messages and take them: a wait for each would cost more than it.

        `_answer` then sends the answers, all at once: each that is sent alone wakes the thread of
        the socket, which takes longer than to make it.
        """
        agents: zmq.Socket[bytes] = zmq.Socket.shadow(self.sockets.agents)
        await self.sockets.agents.poll()
        with contextlib.suppress(zmq.Again):
            for _ in range(BURST):
                await self._take(agents.recv_multipart(zmq.NOBLOCK))

    async def _take(self, frames: list[bytes]) -> None:
        """One message of an agent; what is none is refused."""
        peer = frames[0]
        try:
            if len(frames) != 2:
                raise WireError(f"a message of {len(frames)} frames, not of 1 behind the peer")
            event = MessageArrived(peer, decode(frames[1]), self.now())
        except WireError as error:
            self._say_once(f"a message was refused: {error}")
            self._reply(Reply(peer, Reject(REFUSED, str(error))))
            return
        await self._guard(self._arrive(event))

    def _reply(self, reply: Reply) -> None:
        """Have an answer sent with the next ones."""
        self.answers.append([reply.peer, encode(reply.message)])

    async def _answer(self) -> None:
        """Send the answers; an agent that is gone or does not read them will ask again."""
        answers, self.answers = self.answers, []
        for frames in answers:
            with contextlib.suppress(zmq.ZMQError):
                await self.sockets.agents.send_multipart(frames, flags=zmq.NOBLOCK)

    async def _pause(self) -> None:
        """Until people want to see something again."""
        await asyncio.sleep(min(self.heartbeat_s, LOOK_S))

    async def _guard(self, work: Awaitable[None]) -> None:
        """The top of a loop: a failure in one thing must not end the others."""
        try:
            await work
        except Exception:
            self.failures += 1
            self._say_once(f"failure of the {self.WHO} itself:\n{traceback.format_exc()}")

    def _say_once(self, text: str) -> None:
        """Say what has not been said yet."""
        if text not in self.said and len(self.said) < SAID_AT_MOST:
            self.said.add(text)
            self.say(text)
