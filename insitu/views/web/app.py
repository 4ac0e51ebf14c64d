"""The board of a campaign as a page in a browser of the same machine."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from insitu.analysis.board import Board
from insitu.analysis.progress import Agenda
from insitu.entities import parse_assignment
from insitu.errors import InsituError
from insitu.views.source import BoardSource
from insitu.views.trend import first_run_words
from insitu.views.web.answers import Answers, Json
from insitu.views.web.guard import Guard
from insitu.views.web.metrics import CONTENT_TYPE, Metrics

BEAT_S = 0.1  # that a question may have to wait for
RETRY_MS = 1_000  # until a browser asks again
SILENT_S = 1.0  # a page that has gone is found when something is sent to it
KEPT = ("sealed", "partial", "omitted")  # states of runs that do not change with every beat
SCRIPT, STYLE = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
TYPES = {
    "index.html": "text/html; charset=utf-8",
    **dict.fromkeys(
        (
            "page.js",
            "outlook.js",
            "plot.js",
            "runs.js",
            "series.js",
            "state.js",
            "surface.js",
            "text.js",
            "tree.js",
            "uPlot.iife.min.js",
        ),
        SCRIPT,
    ),
    **dict.fromkeys(("page.css", "uPlot.min.css"), STYLE),
    "uPlot.LICENSE": "text/plain; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to tell as JSON: all of it, and the part of it that changes with every beat.

    number: of this telling; since: the number of the one since which `whole` is the same.
    """

    number: int = 0
    since: int = 0
    whole: str = ""
    now: str = ""
    trouble: str = ""


class Feed:
    """The newest board as JSON, read in a thread, and told to all who wait.

    A board is told whole only when more than what is measured just now has changed.
    """

    def __init__(self, campaign: str, thread: ThreadPoolExecutor) -> None:
        self._campaign = campaign
        self._thread = thread
        self._changed = asyncio.Condition()
        self._told = Told()
        self._still: tuple[object, ...] = ()
        self.board = Board()  # the newest
        self.is_live = False

    async def after(self, number: int) -> Told:
        """Wait for what has another number than this; answers the newest."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._told.number != number)
            return self._told

    async def read(self, client: BoardSource) -> None:
        """Read boards until cancelled; a board that cannot be read is told, and tried again."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                told = await loop.run_in_executor(self._thread, self._next, client)
            except InsituError as error:
                number = self._told.number + 1
                told = replace(self._told, number=number, trouble=json.dumps(str(error)))
                await asyncio.sleep(RETRY_MS / 1000)
            if replace(told, number=0) != replace(self._told, number=0):
                async with self._changed:
                    self._told = told
                    self._changed.notify_all()

    def _next(self, client: BoardSource) -> Told:
        """Wait for a board, for a beat at most, and say what is to be told then."""
        board = client.newest(BEAT_S)
        if board is None:
            return self._told
        self.board, self.is_live = board, client.is_live
        plan, agenda = _plan(client)
        kept = tuple(run for run in board.runs if run.state in KEPT)
        rows = tuple(replace(row, live=None, expected=None, verdict="") for row in board.series)
        still = (kept, rows, board.findings, board.omitted, agenda)
        number = self._told.number + 1
        since, whole = self._told.since, self._told.whole
        if still != self._still:
            shown = replace(board, runs=kept, series=rows)
            told = {"campaign": self._campaign, "board": shown.to_dict(), "agenda": agenda}
            told["first_run"] = first_run_words(self._campaign, plan)
            since, whole, self._still = number, json.dumps(told), still
        now = {
            "live": self.is_live,
            "at": time.time(),
            "runs": [asdict(run) for run in board.runs if run.state not in KEPT],
            "rows": [
                [place, row.live, row.expected, row.verdict]
                for place, row in enumerate(board.series)
                if row.live is not None
            ],
        }
        return Told(number, since, whole, json.dumps(now))


def app_of(
    campaign: str,
    token: str,
    is_ending: Callable[[], bool],
    open_source: Callable[[], BoardSource],
) -> ASGIApp:
    """The page of a campaign for those who know `token`; nothing is written.

    The campaign is opened when the server starts and closed when it ends; streams end soon after
    `is_ending` says so.
    """
    thread = ThreadPoolExecutor(1)  # a client belongs to one thread, and models are kept once
    feed = Feed(campaign, thread)
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[Mapping[str, Any]]:  # Any: of Starlette
        loop = asyncio.get_running_loop()
        client = await loop.run_in_executor(thread, open_source)
        reading = asyncio.create_task(feed.read(client))
        yield {"answers": Answers(client.models)}
        reading.cancel()
        await asyncio.wait([reading])
        await loop.run_in_executor(thread, client.close)
        thread.shutdown()

    async def events(_: Request) -> Response:
        return StreamingResponse(_events(feed, is_ending), media_type="text/event-stream")

    async def link(_: Request) -> Response:
        return JSONResponse({"token": token})

    async def scraped(request: Request) -> Response:
        await feed.after(0)  # the first board may not have been read yet
        loop = asyncio.get_running_loop()
        try:
            models = await loop.run_in_executor(thread, request.state.answers.models)
        except InsituError as error:
            return PlainTextResponse(f"{error}\n", 503)
        asked = partial(metrics.text, feed.board, models, is_live=feed.is_live)
        told = await loop.run_in_executor(thread, asked)
        return Response(told, headers={"content-type": CONTENT_TYPE})

    def about(question: Question) -> Route:
        async def answer(request: Request) -> Response:
            asked = partial(question, request.state.answers, Asked(request.query_params))
            loop = asyncio.get_running_loop()
            try:
                return JSONResponse(await loop.run_in_executor(thread, asked))
            except ValueError as error:
                return JSONResponse({"trouble": str(error)}, 400)
            except InsituError as error:
                return JSONResponse({"trouble": str(error)}, 503)

        return Route(f"/{question.__name__.lstrip('_')}", answer)

    routes = [Route("/events", events), Route("/link", link), Route("/", _static("index.html"))]
    routes += [Route("/metrics", scraped)]
    routes += [about(question) for question in (_series, _surface, _shares, _outlook)]
    routes += [Route(f"/{name}", _static(name)) for name in TYPES if name != "index.html"]
    return Guard(Starlette(routes=routes, lifespan=lifespan), token)


class Asked:
    """What stands behind the question mark of an address."""

    def __init__(self, values: QueryParams) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """One value; empty where there is none."""
        return self._values.get(name, "")

    def number(self, name: str) -> float:
        """One finite number.

        Raises:
            ValueError: it is none.
        """
        return parse_assignment(f"{name}={self.text(name)}")[1]

    def held(self) -> dict[str, float]:
        """The values of all `at=NAME=VALUE`.

        Raises:
            ValueError: one has another form.
        """
        return dict(parse_assignment(text) for text in self._values.getlist("at"))


Question = Callable[[Answers, Asked], Json]


def _series(answers: Answers, asked: Asked) -> Json:
    callpath, metric, axis = (asked.text(name) for name in ("callpath", "metric", "axis"))
    return answers.series(callpath, metric, axis, asked.held())


def _surface(answers: Answers, asked: Asked) -> Json:
    callpath, metric, behaviour = (asked.text(name) for name in ("callpath", "metric", "class"))
    axes = (asked.text("x"), asked.text("y"))
    return answers.surface(callpath, metric, behaviour, axes, asked.held())


def _shares(answers: Answers, asked: Asked) -> Json:
    return answers.shares(asked.text("axis"), asked.number("to"), asked.held())


def _outlook(answers: Answers, asked: Asked) -> Json:
    return answers.outlook(asked.held())


def _static(name: str) -> Any:  # Any: an end point of Starlette
    content = files("insitu.views.web").joinpath("static", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, headers={"content-type": TYPES[name]})

    return answer


async def _events(feed: Feed, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
    number = since = 0
    yield f"retry: {RETRY_MS}\n\n"
    while not is_ending():
        try:
            told = await asyncio.wait_for(feed.after(number), SILENT_S)
        except TimeoutError:
            yield ":\n\n"
            continue
        number = told.number
        if told.since != since:
            since = told.since
            yield f"event: board\ndata: {told.whole}\n\n"
        if told.now:
            yield f"event: now\ndata: {told.now}\n\n"
        if told.trouble:
            yield f"event: trouble\ndata: {told.trouble}\n\n"


def _plan(client: BoardSource) -> tuple[Agenda | None, Json | None]:
    """How far the campaign has come, or why nobody can tell; the same as JSON."""
    try:
        found = client.agenda()
    except InsituError as error:
        return None, {"trouble": str(error)}
    return found, None if found is None else _agenda(found)


def _agenda(found: Agenda) -> Json:
    return {
        "done": found.done,
        "left": found.left,
        "seconds": _finite(found.seconds),
        "core_hours": _finite(found.core_hours),
        "lines": [
            {
                "at": str(one.point),
                "done": one.done,
                "wanted": one.wanted,
                "failed": one.failed,
                "seconds": _finite(one.seconds),
            }
            for one in found.lines
        ],
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
