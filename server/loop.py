"""The aggregator's loop: sockets, a timer, signals; it carries out what the state wants."""

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import zmq

from insitu.entities import RunState
from insitu.errors import InsituError, ModelingError
from insitu.modeling.base import ModelSet
from insitu.server.discovery import COMING, remove_address
from insitu.server.events import (
    Effect,
    Event,
    MessageArrived,
    RefitModels,
    Reply,
    Report,
    StopRequested,
    Tick,
)
from insitu.server.listener import Listener
from insitu.server.refitter import Refitter
from insitu.server.sockets import bind
from insitu.server.writer import CampaignWriter

if TYPE_CHECKING:
    from insitu.server.boards import Boards

DRAIN_S = 0.2  # without a message, after a signal, before the runs are closed
DRAIN_AT_MOST_S = 2.0
REFIT_AT_MOST_S = 2.0  # after a signal
BOARD_SHARE = 10  # a board may take this part of the time: of a large run it comes less often


@dataclass(slots=True)
class Aggregator(Listener):
    """One campaign being measured."""

    WHO = "aggregator"

    writer: CampaignWriter
    refitter: Refitter
    exit_with: str = ""
    parent: int = 0
    signalled: asyncio.Event = field(default_factory=asyncio.Event)
    refitting: "asyncio.Task[None] | None" = None
    board_due: float = 0.0  # when it may be made again
    board: bytes = b""  # as it was made last
    boards: "Boards | None" = None
    is_watched: bool = False

    def ask_to_stop(self) -> None:
        """A signal: end soon."""
        self.signalled.set()
        self.stop.set()

    async def run(self) -> None:
        """Serve until it is asked to stop."""
        await self._guard(self._carry_out(self.writer.replay(self.now())))
        self.answers.clear()  # to agents of the aggregator before
        if self.refitter.is_due:
            self._begin_refit()
        receiving, beating = (asyncio.create_task(work()) for work in (self._receive, self._beat))
        await self.stop.wait()
        await _ended(receiving)
        if self.signalled.is_set():
            await self._drain()
        await _ended(beating)
        await self._turn(StopRequested(self.now()))
        await self._end_refit()
        self.board_due = 0.0
        await self._guard(self._publish())

    async def _receive(self) -> None:
        while True:
            await self._burst()
            await self._guard(self._sync())
            await self._answer()
            self._stop_if_over()
            await asyncio.sleep(0)

    async def _drain(self) -> None:
        """Let what is on its way arrive."""
        end = time.monotonic() + DRAIN_AT_MOST_S
        while time.monotonic() < end and await self.sockets.agents.poll(int(1000 * DRAIN_S)):
            await self._take(await self.sockets.agents.recv_multipart())
            await self._guard(self._sync())
            await self._answer()

    async def _arrive(self, event: MessageArrived) -> None:
        await self._carry_out(self.writer.take(event))

    async def _sync(self) -> None:
        """Those whose end arrived in this burst are told that it is durable."""
        await self._carry_out(self.writer.sync())

    async def _turn(self, event: Event) -> None:
        await self._guard(self._happen(event))
        await self._answer()

    async def _happen(self, event: Event) -> None:
        await self._carry_out(self.writer.handle(event))

    async def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
                    self._reply(effect)
                case RefitModels(run):
                    self.refitter.add_run(run)
                    self._begin_refit()
                case Report(finding):
                    self._say_once(finding.text)

    async def _beat(self) -> None:
        while True:
            await self._turn(Tick(self.now()))
            await self._guard(self._publish())
            self._stop_if_over()
            await self._pause()

    def _stop_if_over(self) -> None:
        if self.exit_with and self._is_over():
            self.stop.set()

    def _is_over(self) -> bool:
        """Whether the run that this process was started for is, or nobody waits for it any more."""
        state = self.writer.state
        is_settled = state.state_of(self.exit_with) in (RunState.COMPLETE, RunState.INCOMPLETE)
        return (is_settled or os.getppid() != self.parent) and not state.is_measuring()

    async def _publish(self) -> None:
        """Send the board of now, if somebody watches."""
        self._hear_eyes()
        if not self.is_watched:
            return
        if time.monotonic() >= self.board_due:
            boards = self._boards()
            self.board = await boards.made()
            self.board_due = time.monotonic() + BOARD_SHARE * boards.took_s
        with contextlib.suppress(zmq.ZMQError):
            await self.sockets.boards.send(self.board, flags=zmq.NOBLOCK)

    def _hear_eyes(self) -> None:
        """Whether somebody watches: the first who comes is told of, and the last who goes."""
        eyes: zmq.Socket[bytes] = zmq.Socket.shadow(self.sockets.boards)
        with contextlib.suppress(zmq.ZMQError):
            while True:
                self.is_watched = eyes.recv(zmq.NOBLOCK)[:1] == b"\x01"

    def _boards(self) -> "Boards":
        if self.boards is None:
            from insitu.server.boards import Boards  # half of the modules: not unless it is used

            self.boards = Boards(self.writer, self.refitter)
        return self.boards

    def _begin_refit(self) -> None:
        if self.refitting is None or self.refitting.done():
            self.refitting = asyncio.create_task(self._guard(self._refit()))

    async def _refit(self) -> None:
        """Make models in a thread of their own; what is sealed meanwhile has its turn after it."""
        while self.refitter.is_due:
            try:
                work = self.refitter.begin()
                await self._show_preview()
                for finding in self.refitter.finish(await _apart(work)):
                    self.writer.read_records()  # they say so from now on
                    self._say_once(finding.text)
            except InsituError as error:
                self._say_once(f"models were not made: {error}")
                self.refitter.shown = self.refitter.models
                return

    async def _show_preview(self) -> None:
        """What boards show until the models are made; without it they show the models before."""
        try:
            self.refitter.shown = await _apart(self.refitter.preview())
        except InsituError as error:
            self._say_once(f"models could not be previewed: {error}")

    async def _end_refit(self) -> None:
        """Let the models be made; after a signal, only if they come at once."""
        if self.refitting is None:
            return
        signal_arrived = asyncio.create_task(self.signalled.wait())
        await asyncio.wait((self.refitting, signal_arrived), return_when=asyncio.FIRST_COMPLETED)
        _, unfinished = await asyncio.wait((self.refitting,), timeout=REFIT_AT_MOST_S)
        signal_arrived.cancel()
        if unfinished:
            await _ended(self.refitting)
            self.say("models are behind the runs; the next aggregator or insitu refit makes them")


async def _apart(work: Callable[[], ModelSet]) -> ModelSet:
    """Do pure work in a thread that the end of the process does not wait for.

    Raises:
        InsituError: what the work raised, or that it failed otherwise: its thread says how.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    outcome: list[ModelSet | InsituError] = []

    def run() -> None:
        try:
            outcome.append(work())
        except InsituError as error:
            outcome.append(error)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, daemon=True).start()
    await done.wait()
    result = outcome[0] if outcome else ModelingError("a failure of insitu itself, shown above")
    if isinstance(result, InsituError):
        raise result
    return result


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def serve(
    campaign: str,
    *,
    heartbeat_s: float,
    say: Callable[[str], None],
    up: Callable[[], None] | None = None,
    address: str = "",
    exit_with: str = "",
    parent: int = 0,
) -> None:
    """Aggregate the runs of a campaign until a signal, or until one run is over.

    Args:
        campaign: its directory, made where it is not there yet.
        heartbeat_s: seconds between two messages of an agent.
        say: takes sentences for people.
        up: called when agents and eyes may come.
        address: `tcp://HOST:PORT` for agents on other machines.
        exit_with: the id of the run after which to end.
        parent: the process that waits for that run; without it nobody does.

    Raises:
        CampaignError: another aggregator is running, or the campaign cannot be written.
        UsageError: an address of an unknown kind.
    """
    instance = secrets.token_hex(8)
    with ExitStack() as stack:
        writer = stack.enter_context(
            CampaignWriter(campaign, instance=instance, heartbeat_s=heartbeat_s)
        )
        sockets = stack.enter_context(bind(campaign, address))
        aggregator = Aggregator(
            writer,
            Refitter(writer.store, campaign),
            sockets=sockets,
            heartbeat_s=heartbeat_s,
            say=say,
            exit_with=exit_with,
            parent=parent,
        )
        stack.callback(remove_address, campaign, COMING)
        stack.enter_context(
            aggregator.announced(
                campaign, instance=instance, token=writer.token, boards=sockets.boards_endpoint
            )
        )
        say(f"{campaign}: waiting for runs at {sockets.endpoint}; end with Ctrl-C or SIGTERM")
        if up is not None:
            up()
        await aggregator.run()
