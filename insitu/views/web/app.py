"""The web page of a campaign: a server for browsers on the same machine."""

import asyncio
import json
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

from insitu.analysis.board import Board, RunRow
from insitu.analysis.outlook import board_target
from insitu.analysis.progress import Agenda
from insitu.entities import finite, parse_assignment
from insitu.errors import InsituError
from insitu.modeling.base import ModelSet
from insitu.views.source import BoardSource
from insitu.views.text import describe_first_run
from insitu.views.web.diagnosis import diagnosis_json
from insitu.views.web.guard import Guard
from insitu.views.web.history import History
from insitu.views.web.icicle import icicle_json
from insitu.views.web.metrics import CONTENT_TYPE, FINISHED_STATES, Metrics
from insitu.views.web.queries import Json, ModelQueries
from insitu.views.web.repetitions import repetitions_json

BOARD_WAIT_S = 0.1  # how long the reading thread waits for a board; queries wait as long at most
RETRY_MS = 1_000  # the browser reconnects after this time
KEEPALIVE_S = 1.0  # a closed connection is only noticed when something is sent
SCRIPT, STYLE = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
TYPES = {
    "index.html": "text/html; charset=utf-8",
    "page.js": SCRIPT,
    "compare.js": SCRIPT,
    "course.js": SCRIPT,
    "diagnosis.js": SCRIPT,
    "icicle.js": SCRIPT,
    "names.js": SCRIPT,
    "outlook.js": SCRIPT,
    "plot.js": SCRIPT,
    "runs.js": SCRIPT,
    "series.js": SCRIPT,
    "state.js": SCRIPT,
    "surface.js": SCRIPT,
    "text.js": SCRIPT,
    "tree.js": SCRIPT,
    "uPlot.iife.min.js": SCRIPT,
    "page.css": STYLE,
    "uPlot.min.css": STYLE,
    "uPlot.LICENSE": "text/plain; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the campaign as JSON texts for the event stream.

    number: increases with every snapshot. board_number: the number of the first snapshot with the
    current `board`. board: everything that changes rarely. live: the values of runs in progress,
    which change with every heartbeat. trouble: an error message as JSON, or "".
    """

    number: int = 0
    board_number: int = 0
    board: str = ""
    live: str = ""
    trouble: str = ""


class Feed:
    """Reads boards in a thread and hands the newest snapshot to all open event streams.

    The full board is serialised only when something other than live values changes.
    """

    def __init__(self, campaign: str, thread: ThreadPoolExecutor) -> None:
        self._campaign = campaign
        self._thread = thread
        self._changed = asyncio.Condition()
        self._snapshot = Snapshot()
        self._board_state: tuple[object, ...] = ()  # what `Snapshot.board` was made from
        self.board = Board()
        self.is_live = False
        self._activity = ""  # of the campaign runner
        self._history = History()

    async def after(self, number: int) -> Snapshot:
        """Wait until the newest snapshot has a number other than `number`, and return it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._snapshot.number != number)
            return self._snapshot

    async def read(self, source: BoardSource) -> None:
        """Read boards until cancelled. A read error goes into the snapshot and is retried."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                snapshot = await loop.run_in_executor(self._thread, self._next, source)
            except InsituError as error:
                number = self._snapshot.number + 1
                snapshot = replace(self._snapshot, number=number, trouble=json.dumps(str(error)))
                await asyncio.sleep(RETRY_MS / 1000)

            if replace(snapshot, number=0) != replace(self._snapshot, number=0):
                async with self._changed:
                    self._snapshot = snapshot
                    self._changed.notify_all()

    def _next(self, source: BoardSource) -> Snapshot:
        """Wait up to `BOARD_WAIT_S` for a board and make a snapshot of it."""
        board = source.newest(BOARD_WAIT_S)
        activity = source.activity()
        is_unchanged = board is None and activity == self._activity
        if is_unchanged or (board is None and not self._snapshot.number):
            return self._snapshot
        board = self.board if board is None else board
        self.board, self.is_live, self._activity = board, source.is_live, activity
        self._history.add(self._runs_in_progress(), time.time())

        agenda, agenda_json = _read_agenda(source)
        target = board_target(board, source.target())
        finished = tuple(run for run in board.runs if run.state in FINISHED_STATES)
        rows = tuple(replace(row, live=None, expected=None, verdict="") for row in board.series)
        state = (finished, rows, board.findings, board.omitted, agenda_json, target)

        number = self._snapshot.number + 1
        board_number, text = self._snapshot.board_number, self._snapshot.board
        if state != self._board_state:
            content = {
                "campaign": self._campaign,
                "board": replace(board, runs=finished, series=rows).to_dict(),
                "agenda": agenda_json,
                "target": target,
                "first_run": describe_first_run(self._campaign, agenda),
            }
            board_number, text, self._board_state = number, json.dumps(content), state

        return Snapshot(number, board_number, board=text, live=json.dumps(self._live_values()))

    def _live_values(self) -> Json:
        """The runs in progress and the values of their call paths, by row of the board."""
        rows = []
        for index, row in enumerate(self.board.series):
            if row.live is not None:
                rows.append([index, row.live, row.expected, row.verdict])

        newest = next(iter(self._runs_in_progress()), None)
        return {
            "live": self.is_live,
            "activity": self._activity,
            "at": time.time(),
            "runs": [asdict(run) for run in self._runs_in_progress()],
            "course": self._history.samples(newest.id) if newest is not None else [],
            "rows": rows,
        }

    def _runs_in_progress(self) -> list[RunRow]:
        """The runs that are being measured, the newest first."""
        return [run for run in self.board.runs if run.state not in FINISHED_STATES]


def make_app(
    campaign: str,
    token: str,
    is_ending: Callable[[], bool],
    open_source: Callable[[], BoardSource],
) -> ASGIApp:
    """Make the web application of a campaign. It only reads.

    Args:
        campaign: the directory, as shown to the user.
        token: the secret that a browser must present.
        is_ending: event streams end soon after this returns True.
        open_source: opens the campaign when the server starts; the source is closed at its end.
    """
    thread = ThreadPoolExecutor(1)  # one thread uses the source and the cached models
    diagnosing = ThreadPoolExecutor(1)  # reads all values of all runs, which may take seconds
    feed = Feed(campaign, thread)
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[Mapping[str, Any]]:  # Any: of Starlette
        loop = asyncio.get_running_loop()
        source = await loop.run_in_executor(thread, open_source)
        reading = asyncio.create_task(feed.read(source))

        yield {"queries": ModelQueries(source.models), "source": source}

        reading.cancel()
        await asyncio.wait([reading])
        await loop.run_in_executor(thread, source.close)
        thread.shutdown()
        diagnosing.shutdown()

    async def events(_: Request) -> Response:
        return StreamingResponse(_events(feed, is_ending), media_type="text/event-stream")

    async def link(_: Request) -> Response:
        return JSONResponse({"token": token})

    async def scrape(request: Request) -> Response:
        await feed.after(0)  # the first board may not have been read yet
        loop = asyncio.get_running_loop()
        try:
            models = await loop.run_in_executor(thread, request.state.queries.models)
        except InsituError as error:
            return PlainTextResponse(f"{error}\n", 503)

        make_text = partial(metrics.text, feed.board, models, is_live=feed.is_live)
        text = await loop.run_in_executor(thread, make_text)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def diagnosis(request: Request) -> Response:
        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(diagnosing, request.state.source.diagnosis)
        except InsituError as error:
            return JSONResponse({"trouble": str(error)}, 503)
        return JSONResponse(diagnosis_json(result))

    routes = [
        Route("/events", events),
        Route("/link", link),
        Route("/metrics", scrape),
        Route("/diagnosis", diagnosis),
        _run_query_route("/icicle", _icicle, thread, diagnosing),
        _run_query_route("/repetitions", _repetitions, thread, diagnosing),
        _query_route("/series", _series, thread),
        _query_route("/surface", _surface, thread),
        _query_route("/shares", _shares, thread),
        _query_route("/outlook", _outlook, thread),
        Route("/", _static("index.html")),
    ]
    routes += [Route(f"/{name}", _static(name)) for name in TYPES if name != "index.html"]
    return Guard(Starlette(routes=routes, lifespan=lifespan), token)


class Arguments:
    """The query string of a request."""

    def __init__(self, values: QueryParams) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """The value of an argument, or "" if it is absent."""
        return self._values.get(name, "")

    def number(self, name: str) -> float:
        """The value of an argument as a finite number.

        Raises:
            ValueError: it is not a finite number.
        """
        return parse_assignment(f"{name}={self.text(name)}")[1]

    def fixed_parameters(self) -> dict[str, float]:
        """The parameter values given as `at=NAME=VALUE`.

        Raises:
            ValueError: an `at` is malformed.
        """
        return dict(parse_assignment(text) for text in self._values.getlist("at"))


Query = Callable[[ModelQueries, Arguments], Json]


def _query_route(path: str, query: Query, thread: ThreadPoolExecutor) -> Route:
    """An end point that answers a query about the models."""

    async def answer(request: Request) -> Response:
        run_query = partial(query, request.state.queries, Arguments(request.query_params))
        loop = asyncio.get_running_loop()
        try:
            return JSONResponse(await loop.run_in_executor(thread, run_query))
        except ValueError as error:
            return JSONResponse({"trouble": str(error)}, 400)
        except InsituError as error:
            return JSONResponse({"trouble": str(error)}, 503)

    return Route(path, answer)


RunQuery = Callable[[BoardSource, ModelSet, Arguments], Json]


def _run_query_route(
    path: str, query: RunQuery, thread: ThreadPoolExecutor, reading: ThreadPoolExecutor
) -> Route:
    """An end point about values of runs: `thread` has the models, `reading` reads the values."""

    async def answer(request: Request) -> Response:
        loop = asyncio.get_running_loop()
        try:
            models = await loop.run_in_executor(thread, request.state.queries.models)
            arguments = Arguments(request.query_params)
            run_query = partial(query, request.state.source, models, arguments)
            return JSONResponse(await loop.run_in_executor(reading, run_query))
        except ValueError as error:
            return JSONResponse({"trouble": str(error)}, 400)
        except InsituError as error:
            return JSONResponse({"trouble": str(error)}, 503)

    return Route(path, answer)


def _icicle(source: BoardSource, models: ModelSet, arguments: Arguments) -> Json:
    fixed = arguments.fixed_parameters()
    return icicle_json(source, models, run_id=arguments.text("run"), fixed=fixed)


def _repetitions(source: BoardSource, models: ModelSet, arguments: Arguments) -> Json:
    return repetitions_json(source, models, arguments.text("callpath"), arguments.text("metric"))


def _series(queries: ModelQueries, arguments: Arguments) -> Json:
    return queries.series(
        arguments.text("callpath"),
        arguments.text("metric"),
        arguments.text("axis"),
        arguments.fixed_parameters(),
    )


def _surface(queries: ModelQueries, arguments: Arguments) -> Json:
    return queries.surface(
        arguments.text("callpath"),
        arguments.text("metric"),
        arguments.text("class"),
        axes=(arguments.text("x"), arguments.text("y")),
        fixed=arguments.fixed_parameters(),
    )


def _shares(queries: ModelQueries, arguments: Arguments) -> Json:
    return queries.shares(
        arguments.text("axis"), arguments.number("to"), arguments.fixed_parameters()
    )


def _outlook(queries: ModelQueries, arguments: Arguments) -> Json:
    return queries.outlook(arguments.fixed_parameters())


def _static(name: str) -> Any:  # Any: an end point of Starlette
    content = files("insitu.views.web").joinpath("static", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, headers={"content-type": TYPES[name]})

    return answer


async def _events(feed: Feed, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
    """Server-sent events: `board` when the board changes, `now` for live values, `trouble`."""
    number = board_number = 0
    yield f"retry: {RETRY_MS}\n\n"

    while not is_ending():
        try:
            snapshot = await asyncio.wait_for(feed.after(number), KEEPALIVE_S)
        except TimeoutError:
            yield ":\n\n"
            continue

        number = snapshot.number
        if snapshot.board_number != board_number:
            board_number = snapshot.board_number
            yield f"event: board\ndata: {snapshot.board}\n\n"
        if snapshot.live:
            yield f"event: now\ndata: {snapshot.live}\n\n"
        if snapshot.trouble:
            yield f"event: trouble\ndata: {snapshot.trouble}\n\n"


def _read_agenda(source: BoardSource) -> tuple[Agenda | None, Json | None]:
    """The progress of the campaign, and the same as JSON; the JSON holds the error if it fails."""
    try:
        agenda = source.agenda()
    except InsituError as error:
        return None, {"trouble": str(error)}
    return agenda, None if agenda is None else _agenda_json(agenda)


def _agenda_json(agenda: Agenda) -> Json:
    lines = []
    for progress in agenda.lines:
        line = {
            "at": str(progress.point),
            "done": progress.done,
            "wanted": progress.wanted,
            "failed": progress.failed,
            "seconds": finite(progress.seconds),
        }
        lines.append(line)

    return {
        "done": agenda.done,
        "left": agenda.left,
        "seconds": finite(agenda.seconds),
        "core_hours": finite(agenda.core_hours),
        "lines": lines,
    }
