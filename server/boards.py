"""What people see of a campaign while it is measured: made for as long as somebody watches."""

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


class Boards:
    """The board of a campaign, made anew only where something has changed."""

    def __init__(self, writer: CampaignWriter, refitter: Refitter) -> None:
        """Of what is kept, and of the models that are shown."""
        self.took_s = 0.0  # of this thread, the last board; without what is made once for a run
        self._writer = writer
        self._refitter = refitter
        self._board = b""  # as it was made last, of `_shown`
        self._shown: tuple[list[RunRecord], ModelSet, list[LiveRun]] | None = None
        self._seen: dict[str, tuple[tuple[object, ...], LiveRun]] = {}
        self._foreseen: dict[str, tuple[ModelSet, Forecast]] = {}

    async def made(self) -> bytes:
        """The board of now, as JSON."""
        self.took_s = 0.0
        begun = time.thread_time()
        runs = self._writer.state.runs
        live = [self._live(run) for run in runs.values() if run.state is not RunState.INCOMPLETE]
        self._seen = {run.id: self._seen[run.id] for run in live}
        shown = (self._writer.records, self._refitter.shown, live)
        if self._shown is None or not all(map(_is_same, self._shown, shown)):
            self.took_s = time.thread_time() - begun
            foreseen = {run.id: await self._forecast(run) for run in live}
            begun = time.thread_time()
            board = make_board(*shown, foreseen)
            self._board = json.dumps(board.to_dict(), allow_nan=False).encode()
            self._shown = shown
        self.took_s += time.thread_time() - begun
        return self._board

    async def _forecast(self, run: LiveRun) -> Forecast:
        """What the models say of a run; asked once, and again when there are others."""
        models = self._refitter.models
        known = self._foreseen.get(run.id)
        if known is None or known[0] is not models:
            self._foreseen = {id: one for id, one in self._foreseen.items() if id in self._seen}
            found = await asyncio.to_thread(make_forecast, models, run.key)
            known = self._foreseen[run.id] = (models, found)
        return known[1]

    def _live(self, run: Run) -> LiveRun:
        """A run as it is shown; made anew only when something arrived."""
        progress = (run.state, *run.progress())
        known = self._seen.get(run.id)
        if known is None or known[0] != progress:
            known = self._seen[run.id] = (progress, live_of(run))
        return known[1]


def _is_same(before: object, now: object) -> bool:
    """Whether nothing was made anew: records, models and live runs are replaced, not changed."""
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(operator.is_, before, now))
    return before is now
