"""Boards of runs in progress, and what they wait for."""

import asyncio
import json
import threading
from types import SimpleNamespace

from insitu.analysis.board import Board, LiveRun
from insitu.analysis.forecast import LivePath, make_forecast
from insitu.entities import RunKey, RunState
from insitu.server import boards
from insitu.server.boards import Boards
from tests.views.screens import MODELS

LIVE = LiveRun(
    "x",
    RunKey.of({"p": 8}),
    RunState.MEASURING,
    8,
    0,
    8,
    callpaths=(LivePath("main->solve", 100.0, 1e4, 1e4, 8.0),),
)


def test_a_board_does_not_wait_for_forecasts(monkeypatch):
    """These take seconds where ranks keep all cores busy."""
    is_allowed = threading.Event()

    def wait(models, key):
        is_allowed.wait(30)
        return make_forecast(models, key)

    monkeypatch.setattr(boards, "make_forecast", wait)
    monkeypatch.setattr(boards, "live_of", lambda run: LIVE)
    run = SimpleNamespace(id="x", state=RunState.MEASURING, progress=lambda: (1,))
    writer = SimpleNamespace(state=SimpleNamespace(runs={"x": run}), records=[])
    source = Boards(writer, SimpleNamespace(models=MODELS, shown=MODELS))  # type: ignore[arg-type]

    def verdict() -> str:
        board = Board.from_dict(json.loads(source.compute()))
        assert [row.id for row in board.runs] == ["x"]
        return max(row.verdict for row in board.series)

    async def watch() -> tuple[str, str]:
        before = verdict()
        is_allowed.set()
        for _ in range(600):
            await asyncio.sleep(0.05)
            after = verdict()
            if after:
                break
        return before, after

    assert asyncio.run(watch()) == ("", "slower")
