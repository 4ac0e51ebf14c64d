"""The process of a relay: sockets to agents and to the aggregator, a timer, signals."""

import asyncio
import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

from insitu.errors import InsituError, UsageError
from insitu.server.discovery import RELAYS, WriterLock, load_token, make_private_directory
from insitu.server.events import (
    AnswerArrived,
    ConnectionLost,
    MessageArrived,
    Reconnect,
    RelayEffect,
    RelayEvent,
    Reply,
    Report,
    Send,
    SketchRequested,
    StopRequested,
    Tick,
)
from insitu.server.listener import Listener
from insitu.server.relay.state import RelayState
from insitu.server.relay.uplink import Uplink
from insitu.server.sockets import bind

SKETCH_SHARE = 5  # sketches may take this part of the time: of many ranks they come less often
WAIT_S = 0.5  # for the aggregator, before the connection is looked at
DRAIN_AT_MOST_S = 20.0  # after a signal, for what nodes said to go up
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(slots=True)
class Relay(Listener):
    """One relay of a campaign."""

    WHO = "relay"

    state: RelayState
    uplink: Uplink
    sketch_due: float = 0.0

    async def run(self) -> None:
        """Relay until it is asked to stop; then bring up what nodes have said."""
        works = (self._receive, self._listen, self._beat)
        tasks = [asyncio.create_task(work()) for work in works]
        await self.stop.wait()
        await self._turn(StopRequested(self.now()))
        end = time.monotonic() + DRAIN_AT_MOST_S
        while not self.state.is_idle and self.uplink.socket and time.monotonic() < end:
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _receive(self) -> None:
        while True:
            await self._burst()
            await self._answer()
            await asyncio.sleep(0)

    async def _arrive(self, event: MessageArrived) -> None:
        await self._happen(event)

    async def _listen(self) -> None:
        """The aggregator."""
        while True:
            await self._guard(self._hear())
            await asyncio.sleep(0)

    async def _hear(self) -> None:
        messages, was_lost = await self.uplink.heard(WAIT_S)
        for message in messages:
            await self._turn(AnswerArrived(message, self.now()))
        if was_lost:
            await self._turn(ConnectionLost(self.now()))

    async def _beat(self) -> None:
        while True:
            await self._guard(self._look())
            await self._turn(Tick(self.now()))
            if time.monotonic() >= self.sketch_due:
                before = time.process_time()
                await self._turn(SketchRequested(self.now()))
                took = time.process_time() - before
                self.sketch_due = time.monotonic() + max(
                    0.9 * self.heartbeat_s, SKETCH_SHARE * took
                )
            await self._pause()

    async def _look(self) -> None:
        try:
            is_another = self.uplink.look()
        except InsituError as error:
            self._say_once(str(error))
            return
        if is_another:
            await self._turn(ConnectionLost(self.now()))

    async def _turn(self, event: RelayEvent) -> None:
        await self._guard(self._happen(event))
        await self._answer()

    async def _happen(self, event: RelayEvent) -> None:
        await self._carry_out(self.state.handle(event))

    async def _carry_out(self, effects: Iterable[RelayEffect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
                    self._reply(effect)
                case Send(message):
                    await self.uplink.send(message)
                case Reconnect():
                    self.uplink.reconnect()
                case Report(finding):
                    self._say_once(finding.text)


async def relay(
    campaign: str,
    *,
    name: str,
    heartbeat_s: float,
    say: Callable[[str], None],
    address: str = "",
) -> None:
    """Relay between agents and the aggregator of a campaign until a signal.

    Args:
        campaign: its directory, which the aggregator has made.
        name: no other relay of the campaign has it; the one that is started again keeps it.
        heartbeat_s: seconds between two messages of an agent, and between two sketches.
        say: takes sentences for people.
        address: `tcp://HOST:PORT` for agents on other machines.

    Raises:
        CampaignError: another relay has this name, or the campaign cannot be used.
        UsageError: the name is not fit for a file, or an address of an unknown kind.
    """
    if not NAME.fullmatch(name) or name.startswith("."):
        raise UsageError(f"--name {name!r}: letters, digits, '_', '-' and '.', at most 64")
    make_private_directory(os.path.join(campaign, RELAYS))
    file = os.path.join(RELAYS, f"{name}.json")
    incarnation = time.time_ns()
    with ExitStack() as stack:
        stack.enter_context(WriterLock(campaign, os.path.join(RELAYS, f"{name}.lock")))
        sockets = stack.enter_context(bind(campaign, address, relay=name))
        instance, token = secrets.token_hex(8), load_token(campaign)
        state = RelayState(
            name=f"relay {name}",
            incarnation=incarnation,
            instance=instance,
            token=token,
            heartbeat_s=heartbeat_s,
            room_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2,
        )
        uplink = Uplink(campaign, sockets.context)
        stack.callback(uplink.close)
        one = Relay(state, uplink, sockets=sockets, heartbeat_s=heartbeat_s, say=say)
        stack.enter_context(one.announced(campaign, instance=instance, token=token, file=file))
        say(f"{campaign}: relay {name} waits for agents at {sockets.endpoint}; end with SIGTERM")
        await one.run()
