"""The board of a campaign, computed while somebody subscribes to it."""

import asyncio
import json
import operator
import time

from insitu.analysis.board import LiveRun, make_board
from insitu.analysis.forecast import Forecast, make_forecast
from insitu.entities import RunRecord, RunState
from insitu.modeling.base import ModelSet
from insitu.server.live import live_of
from insitu.server.refitter import Refitter
from insitu.server.runs import Run
from insitu.server.writer import CampaignWriter

NO_FORECAST = Forecast()

Inputs = tuple[list[RunRecord], ModelSet, list[LiveRun], list[Forecast]]


class Boards:
    """Computes the board of a campaign; a part that has not changed is reused."""

    def __init__(self, writer: CampaignWriter, refitter: Refitter) -> None:
        """Show the runs of `writer` with the models of `refitter`."""
        self.took_s = 0.0  # CPU time of this thread for the last board, without forecasts
        self._writer = writer
        self._refitter = refitter
        self._board = b""  # the last board
        self._inputs: Inputs | None = None  # of `_board`
        self._live_runs: dict[str, tuple[tuple[object, ...], LiveRun]] = {}  # by progress
        self._forecasts: dict[str, tuple[ModelSet, Forecast]] = {}
        self._task: asyncio.Task[None] | None = None  # that computes a forecast

    def compute(self) -> bytes:
        """The present board, as JSON. Called while an event loop runs.

        Raises:
            Exception: whatever computing a forecast has raised.
        """
        begun = time.thread_time()

        runs = self._writer.state.runs.values()
        live = [self._live_run(run) for run in runs if run.state is not RunState.INCOMPLETE]
        self._live_runs = {run.id: self._live_runs[run.id] for run in live}

        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            task.result()
        forecasts = {run.id: self._forecast(run) for run in live}
        inputs = (self._writer.records, self._refitter.shown, live, list(forecasts.values()))
        if self._inputs is None or not all(map(_is_same, self._inputs, inputs)):
            board = make_board(*inputs[:3], forecasts)
            self._board = json.dumps(board.to_dict(), allow_nan=False).encode()
            self._inputs = inputs

        self.took_s = time.thread_time() - begun
        return self._board

    def _forecast(self, run: LiveRun) -> Forecast:
        """The forecast of a run, computed once per set of models; until then an older or empty one.

        Computing it takes seconds where ranks keep all cores busy. Boards do not wait for it, and
        forecasts of several runs are computed one after the other.
        """
        models, forecast = self._forecasts.get(run.id, (None, NO_FORECAST))
        if models is not self._refitter.models and self._task is None:
            self._task = asyncio.create_task(self._compute_forecast(run))
        return forecast

    async def _compute_forecast(self, run: LiveRun) -> None:
        models = self._refitter.models
        expected = await asyncio.to_thread(make_forecast, models, run.key)
        self._forecasts = {
            run_id: entry for run_id, entry in self._forecasts.items() if run_id in self._live_runs
        }
        self._forecasts[run.id] = (models, expected)

    def _live_run(self, run: Run) -> LiveRun:
        """A run as the board shows it, computed again only when a message has arrived."""
        progress = (run.state, *run.progress())
        cached = self._live_runs.get(run.id)
        if cached is None or cached[0] != progress:
            cached = self._live_runs[run.id] = (progress, live_of(run))
        return cached[1]


def _is_same(before: object, now: object) -> bool:
    """Whether nothing was replaced: records, models and live runs never change in place."""
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(operator.is_, before, now))
    return before is now
