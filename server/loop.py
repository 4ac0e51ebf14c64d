"""The aggregator's loop: sockets, a timer and signals around the state machine."""

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import zmq

from insitu.campaign.layout import AGGREGATOR_EXPECTED
from insitu.entities import RunState
from insitu.errors import InsituError, ModelingError
from insitu.server.discovery import remove_address
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
from insitu.server.spool import SpoolReader
from insitu.server.writer import CampaignWriter

if TYPE_CHECKING:
    from insitu.modeling.base import ModelSet
    from insitu.server.boards import Boards

Result = TypeVar("Result")

DRAIN_S = 0.2  # after a signal: stop when no message has arrived for this long
MAX_DRAIN_S = 2.0
MAX_REFIT_S = 2.0  # after a signal: how long to wait for a refit
BOARD_INTERVALS = 10  # a board that takes 1 s is computed every 10 s at most
SPOOL_INTERVAL_S = 2.0  # between two looks for tables of nodes that cannot reach this process


@dataclass(slots=True)
class Aggregator(Listener):
    """Receives the measurements of one campaign, stores them, and fits models."""

    NAME = "aggregator"

    writer: CampaignWriter
    refitter: Refitter
    exit_with: str = ""
    parent: int = 0
    signal_received: asyncio.Event = field(default_factory=asyncio.Event)
    refit_task: "asyncio.Task[None] | None" = None
    preview: "Callable[[], ModelSet] | None" = None  # of the models that are being fitted
    preview_task: "asyncio.Task[None] | None" = None
    next_board_at: float = 0.0  # monotonic
    board: bytes = b""  # the last one
    boards: "Boards | None" = None
    has_subscribers: bool = False
    spool: SpoolReader = field(default_factory=SpoolReader)
    next_spool_at: float = 0.0  # monotonic

    def request_stop(self) -> None:
        """Handle a signal: stop soon."""
        self.signal_received.set()
        self.stop.set()

    async def run(self) -> None:
        """Serve until a stop is requested."""
        await self._guard(self._carry_out(self.writer.replay(self.now())))
        self.answers.clear()  # they are for agents of an earlier aggregator
        if self.refitter.is_due:
            self._start_refit()

        receive_task = asyncio.create_task(self._receive_messages())
        timer_task = asyncio.create_task(self._run_timer())
        await self.stop.wait()

        await _cancel(receive_task)
        if self.signal_received.is_set():
            await self._drain()
        await _cancel(timer_task)

        await self._process(StopRequested(self.now()))
        await self._finish_refit()
        self.next_board_at = 0.0
        await self._guard(self._publish_board())

    async def _receive_messages(self) -> None:
        while True:
            await self._receive_burst()
            await self._guard(self._sync())
            await self._send_answers()
            self._stop_if_over()
            await asyncio.sleep(0)  # let the timer run

    async def _drain(self) -> None:
        """Receive the messages that are still on their way."""
        end = time.monotonic() + MAX_DRAIN_S
        while time.monotonic() < end and await self.sockets.agents.poll(int(1000 * DRAIN_S)):
            await self._handle_frames(await self.sockets.agents.recv_multipart())
            await self._guard(self._sync())
            await self._send_answers()

    async def _handle_message(self, event: MessageArrived) -> None:
        await self._carry_out(self.writer.handle_unsynced(event))

    async def _sync(self) -> None:
        """Make the final messages of this burst durable, and tell their agents."""
        await self._carry_out(self.writer.sync())

    async def _process(self, event: Event) -> None:
        await self._guard(self._carry_out_effects_of(event))
        await self._send_answers()

    async def _carry_out_effects_of(self, event: Event) -> None:
        await self._carry_out(self.writer.handle(event))

    async def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
                    self._queue_answer(effect)
                case RefitModels(run):
                    self.refitter.add_run(run)
                    self._start_refit()
                case Report(finding):
                    self._report_once(finding.text, finding.code)

    async def _run_timer(self) -> None:
        while True:
            await self._guard(self._stay_announced())
            await self._guard(self._take_spooled())
            await self._process(Tick(self.now()))
            await self._guard(self._publish_board())
            self._stop_if_over()
            await self._pause()

    async def _take_spooled(self) -> None:
        """Take the tables of nodes that could not reach this process."""
        if time.monotonic() < self.next_spool_at:
            return
        await self._carry_out(self.spool.take(self.writer, self.now()))
        self.next_spool_at = time.monotonic() + SPOOL_INTERVAL_S

    def _stop_if_over(self) -> None:
        if self.exit_with and self._is_over():
            self.stop.set()

    def _is_over(self) -> bool:
        """Whether the run that this process was started for is over, or its parent is gone."""
        state = self.writer.state
        is_settled = state.state_of(self.exit_with) in (RunState.COMPLETE, RunState.INCOMPLETE)
        return (is_settled or os.getppid() != self.parent) and not state.is_measuring()

    async def _publish_board(self) -> None:
        """Send the present board if somebody subscribes to it."""
        self._update_subscribers()
        if not self.has_subscribers:
            return

        if self.preview is not None:  # nobody else needs it
            estimate, self.preview = self.preview, None
            self.preview_task = asyncio.create_task(self._guard(self._show_preview(estimate)))

        if time.monotonic() >= self.next_board_at:
            boards = self._load_boards()
            self.board = boards.compute()
            self.next_board_at = time.monotonic() + BOARD_INTERVALS * boards.took_s

        with contextlib.suppress(zmq.ZMQError):
            await self.sockets.boards.send(self.board, flags=zmq.NOBLOCK)

    def _update_subscribers(self) -> None:
        """Read from the XPUB socket whether anybody subscribes.

        The socket reports the first subscription (b"\\1") and the end of the last one (b"\\0").
        """
        boards: zmq.Socket[bytes] = zmq.Socket.shadow(self.sockets.boards)
        with contextlib.suppress(zmq.ZMQError):
            while True:
                self.has_subscribers = boards.recv(zmq.NOBLOCK)[:1] == b"\x01"

    def _load_boards(self) -> "Boards":
        if self.boards is None:
            # This loads half of all modules, which an aggregator without viewers does not need.
            from insitu.server.boards import Boards

            self.boards = Boards(self.writer, self.refitter)
        return self.boards

    def _start_refit(self) -> None:
        if self.refit_task is None or self.refit_task.done():
            self.refit_task = asyncio.create_task(self._guard(self._refit()))

    async def _refit(self) -> None:
        """Fit models in a thread; runs that are completed meanwhile are fitted afterwards."""
        while self.refitter.is_due:
            try:
                fit = self.refitter.begin()
                self.preview = self.refitter.preview()
                findings = self.refitter.finish(await _run_in_thread(fit))
                for finding in findings:
                    self.writer.read_records()  # the findings are in the records now
                    self._report_once(finding.text, finding.code)
            except InsituError as error:
                self._report_once(f"models could not be fitted: {error}")
                self.refitter.shown = self.refitter.models
                return
            finally:
                self.preview = None

    async def _show_preview(self, estimate: Callable[[], "ModelSet"]) -> None:
        """Show a preview of the models until they are fitted; without it, the models before."""
        models = self.refitter.models
        try:
            preview = await _run_in_thread(estimate)
        except InsituError as error:
            self._report_once(f"models could not be previewed: {error}")
            return
        is_fitting = self.refit_task is not None and not self.refit_task.done()
        if is_fitting and self.refitter.models is models:
            self.refitter.shown = preview

    async def _finish_refit(self) -> None:
        """Wait for the refit; after a signal, only for a short time."""
        if self.refit_task is None:
            return

        signal_task = asyncio.create_task(self.signal_received.wait())
        await asyncio.wait((self.refit_task, signal_task), return_when=asyncio.FIRST_COMPLETED)
        _, unfinished = await asyncio.wait((self.refit_task,), timeout=MAX_REFIT_S)
        signal_task.cancel()

        if unfinished:
            await _cancel(self.refit_task)
            self.report(
                "the models do not include the latest runs; the next aggregator or `insitu refit`"
                " fits them"
            )


async def _run_in_thread(work: Callable[[], Result]) -> Result:
    """Run a pure function in a thread that does not keep the process alive.

    Raises:
        InsituError: `work` raised it, or failed otherwise, in which case its thread prints why.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    outcome: list[Result | InsituError] = []

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

    result = outcome[0] if outcome else ModelingError("an internal error, shown above")
    if isinstance(result, InsituError):
        raise result
    return result


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def serve(
    campaign: str,
    *,
    heartbeat_s: float,
    report: Callable[[str], None],
    on_ready: Callable[[], None] | None = None,
    address: str = "",
    exit_with: str = "",
    parent: int = 0,
) -> None:
    """Aggregate the runs of a campaign until a signal, or until a given run is over.

    Args:
        campaign: the campaign's directory, which is created if necessary.
        heartbeat_s: seconds between two messages of an agent.
        report: takes messages for the user.
        on_ready: called when agents and viewers can connect.
        address: `tcp://HOST:PORT` to listen to other machines; default: UNIX sockets.
        exit_with: the id of a run; serve until it is over.
        parent: the id of the process that waits for that run; serve until it is gone.

    Raises:
        CampaignError: another aggregator is running, or the campaign cannot be written.
        UsageError: the address is of an unknown kind.
    """
    instance = secrets.token_hex(8)
    with ExitStack() as stack:
        writer = CampaignWriter(campaign, instance=instance, heartbeat_s=heartbeat_s)
        stack.enter_context(writer)
        sockets = stack.enter_context(bind(campaign, address))
        aggregator = Aggregator(
            writer,
            Refitter(writer.store, campaign),
            sockets=sockets,
            heartbeat_s=heartbeat_s,
            report=report,
            exit_with=exit_with,
            parent=parent,
        )

        stack.callback(remove_address, campaign, AGGREGATOR_EXPECTED)
        stack.enter_context(
            aggregator.announcement(
                campaign, instance=instance, token=writer.token, boards=sockets.boards_endpoint
            )
        )
        report(f"{campaign}: waiting for runs at {sockets.endpoint}; stop with Ctrl-C or SIGTERM")
        if on_ready is not None:
            on_ready()
        await aggregator.run()
