"""The process of a relay: sockets to agents and to the aggregator, a timer and signals."""

import asyncio
import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

from insitu.campaign.layout import RELAYS
from insitu.campaign.reachability import Reachability
from insitu.errors import InsituError, UsageError
from insitu.server.discovery import WriterLock, load_token, make_private_directory
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
from insitu.server.writer import usable_memory_bytes

SKETCH_INTERVALS = 5  # sketches that take 1 s of CPU time are made every 5 s at most
ANSWER_POLL_S = 0.5  # how long to wait for the aggregator's answer before checking the connection
MAX_DRAIN_S = 20.0  # after a signal, for everything that nodes sent to reach the aggregator
NAME_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(slots=True)
class Relay(Listener):
    """One relay of a campaign."""

    NAME = "relay"

    state: RelayState
    uplink: Uplink
    next_sketch_at: float = 0.0  # monotonic

    async def run(self) -> None:
        """Relay until a stop is requested; then deliver what the nodes have sent."""
        tasks = [
            asyncio.create_task(self._receive_messages()),
            asyncio.create_task(self._receive_answers()),
            asyncio.create_task(self._run_timer()),
        ]
        await self.stop.wait()

        await self._process(StopRequested(self.now()))
        end = time.monotonic() + MAX_DRAIN_S
        while not self.state.is_idle and self.uplink.socket and time.monotonic() < end:
            await asyncio.sleep(0.05)

        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _receive_messages(self) -> None:
        """Handle the messages of agents."""
        while True:
            await self._receive_burst()
            await self._send_answers()
            await asyncio.sleep(0)

    async def _handle_message(self, event: MessageArrived) -> None:
        await self._carry_out_effects_of(event)

    async def _receive_answers(self) -> None:
        """Handle the answers of the aggregator."""
        while True:
            await self._guard(self._handle_answers())
            await asyncio.sleep(0)

    async def _handle_answers(self) -> None:
        messages, was_lost = await self.uplink.receive(ANSWER_POLL_S)
        for message in messages:
            await self._process(AnswerArrived(message, self.now()))
        if was_lost:
            await self._process(ConnectionLost(self.now()))

    async def _run_timer(self) -> None:
        while True:
            await self._guard(self._stay_announced())
            await self._guard(self._find_aggregator())
            await self._process(Tick(self.now()))

            if time.monotonic() >= self.next_sketch_at:
                begun = time.process_time()
                await self._process(SketchRequested(self.now()))
                took_s = time.process_time() - begun
                interval_s = max(0.9 * self.heartbeat_s, SKETCH_INTERVALS * took_s)
                self.next_sketch_at = time.monotonic() + interval_s

            await self._pause()

    async def _find_aggregator(self) -> None:
        try:
            status = await self.uplink.find_aggregator()
        except InsituError as error:
            self._report_once(str(error))
            return
        if status is None:
            return
        if status.reachability is Reachability.UNREACHABLE:
            text = f"the aggregator ({status.holder}) does not answer: {status.reason}"
            self._report_once(text, "aggregator-silent")
        if status.address is not None:
            await self._process(ConnectionLost(self.now()))

    async def _process(self, event: RelayEvent) -> None:
        await self._guard(self._carry_out_effects_of(event))
        await self._send_answers()

    async def _carry_out_effects_of(self, event: RelayEvent) -> None:
        await self._carry_out(self.state.handle(event))

    async def _carry_out(self, effects: Iterable[RelayEffect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
                    self._queue_answer(effect)
                case Send(message):
                    await self.uplink.send(message)
                case Reconnect():
                    self.uplink.reconnect()
                case Report(finding):
                    self._report_once(finding.text, finding.code)


async def relay(
    campaign: str,
    *,
    name: str,
    heartbeat_s: float,
    report: Callable[[str], None],
    address: str = "",
) -> None:
    """Relay between agents and the aggregator of a campaign until a signal.

    Args:
        campaign: the campaign's directory, which the aggregator has created.
        name: the name of the relay, unique in the campaign; a relay that restarts keeps its name.
        heartbeat_s: seconds between two messages of an agent, and between two sketches.
        report: takes messages for the user.
        address: `tcp://HOST:PORT` to listen to other machines; default: UNIX sockets.

    Raises:
        CampaignError: another relay has this name, or the campaign cannot be used.
        UsageError: the name cannot be a file name, or the address is of an unknown kind.
    """
    if not NAME_PATTERN.fullmatch(name) or name.startswith("."):
        raise UsageError(
            f"--name {name!r}: must be at most 64 letters, digits, '_', '-' and '.', and not begin"
            " with '.'"
        )
    make_private_directory(os.path.join(campaign, RELAYS))
    address_file = os.path.join(RELAYS, f"{name}.json")
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
            memory_bytes=usable_memory_bytes(),
        )

        uplink = Uplink(campaign, sockets.context)
        stack.callback(uplink.close)
        process = Relay(state, uplink, sockets=sockets, heartbeat_s=heartbeat_s, report=report)
        stack.enter_context(
            process.announcement(campaign, instance=instance, token=token, file=address_file)
        )
        report(
            f"{campaign}: relay {name} waits for agents at {sockets.endpoint}; stop with SIGTERM"
        )
        await process.run()
