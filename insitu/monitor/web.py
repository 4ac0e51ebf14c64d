"""The board of a campaign as a page in a browser of the same machine."""

import asyncio
import hashlib
import json
import math
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from typing import Any, Self
from urllib.parse import parse_qs

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from insitu.campaign.store import SqliteStore, open_store
from insitu.errors import InsituError
from insitu.measurement import FloatArray
from insitu.modeling.base import Clusters, ModelSet, SeriesModel
from insitu.monitor.client import BoardClient

BEAT_S = 0.5
SILENT_S = 1.0  # a page that has gone is found when something is sent to it
STEPS = 64  # points of a curve
FARTHER = 2.0  # times the largest coordinate measured, where a curve ends
MOST_RANKS = 4_096  # whose classes are told one by one
HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]+)?")
TYPES = {
    "index.html": "text/html; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
}
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",  # the first address holds the token
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


class Feed:
    """The newest board as JSON, read in a thread of its own, and told to all who wait."""

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._thread = ThreadPoolExecutor(1)  # a board client belongs to one thread
        self._changed = asyncio.Condition()
        self._number = 0
        self._text = ""

    async def after(self, number: int) -> tuple[int, str]:
        """Wait for a state with another number than this; answers the newest one."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._number != number)
            return self._number, self._text

    async def read(self) -> None:
        """Read boards until cancelled; a board that cannot be read is told, and tried again."""
        loop = asyncio.get_running_loop()
        client: BoardClient | None = None
        try:
            while True:
                try:
                    if client is None:
                        client = await loop.run_in_executor(self._thread, self._open)
                    board = await loop.run_in_executor(self._thread, client.newest, BEAT_S)
                except InsituError as error:
                    await self._tell({"trouble": str(error)})
                    await asyncio.sleep(BEAT_S)
                    continue
                if board is not None:
                    await self._tell({"live": client.is_live, "board": board.to_dict()})
        finally:
            if client is not None:
                self._thread.submit(client.close)
            self._thread.shutdown()

    def _open(self) -> BoardClient:
        return BoardClient(self._campaign)

    async def _tell(self, state: Mapping[str, Any]) -> None:  # Any: JSON
        text = json.dumps({"campaign": self._campaign, **state})
        if text == self._text:
            return
        async with self._changed:
            self._number, self._text = self._number + 1, text
            self._changed.notify_all()


class Curves:
    """The kept models of a campaign as curves; one thread uses it."""

    def __init__(self, campaign: str) -> None:
        """Open the campaign.

        Raises:
            CampaignError: there is none, or it cannot be read.
        """
        self._store: SqliteStore = open_store(campaign)
        self._seen = -1
        self._models = ModelSet()

    def of(self, callpath: str, metric: str, axis: str) -> dict[str, Any]:  # Any: JSON
        """All classes of a metric of a call path along a parameter, and which ranks they are.

        Raises:
            CampaignError: the campaign cannot be read any more.
        """
        changes = self._store.changes()
        if changes != self._seen:
            self._models, self._seen = self._store.models(), changes
        parameters = self._models.parameters
        along = parameters.index(axis) if axis in parameters else 0
        series = [
            one
            for one in self._models.models
            if one.key.metric == metric and str(one.key.callpath) == callpath
        ]
        ranks = [
            one
            for one in self._models.clusters
            if one.metric == metric and str(one.callpath) == callpath
        ]
        return {
            "axis": parameters[along] if parameters else "",
            "classes": [_curve(one, along) for one in series if len(one.model.values)],
            "ranks": None
            if not ranks
            else _ranks(max(ranks[::-1], key=lambda one: len(one.labels))),
        }

    def close(self) -> None:
        """Let go of the files."""
        self._store.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


class Guard:
    """Lets in who asks this machine by its own name and knows the token.

    Other users of the machine may connect to its ports, and other pages of the browser may ask
    under a name of theirs that leads here; both are refused with 403.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()
        # Cookies do not tell ports apart: one name per token, so that two pages live together.
        self._cookie = f"insitu-{hashlib.sha256(self._token).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        cookies = [self._kept(value) for name, value in headers if name == b"cookie"]
        is_known = any(self._is_token(one) for one in (given, *cookies))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = dict(HEADERS)
                if is_known and given:
                    value = self._token.decode()
                    more["set-cookie"] = (
                        f"{self._cookie}={value}; Path=/; HttpOnly; SameSite=Strict"
                    )
                encoded = [(name.encode(), value.encode()) for name, value in more.items()]
                message = {**message, "headers": [*message["headers"], *encoded]}
            await send(message)

        answer = self._app
        if len(hosts) != 1 or HOST.fullmatch(hosts[0]) is None:
            is_known = False
            answer = PlainTextResponse("ask for 127.0.0.1 or localhost\n", 403)
        elif not is_known:
            answer = PlainTextResponse("open the address that `insitu watch --web` printed\n", 403)
        await answer(scope, receive, send_guarded)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self._token)

    def _kept(self, header: str) -> str:
        """The token in a header of cookies, or nothing."""
        try:
            found = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


def app_of(campaign: str, token: str, is_ending: Callable[[], bool]) -> ASGIApp:
    """The page of a campaign for those who know `token`; nothing is written.

    The campaign is opened when the server starts and closed when it ends; streams end soon after
    `is_ending` says so.
    """
    feed = Feed(campaign)
    thread = ThreadPoolExecutor(1)  # a store belongs to one thread

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[Mapping[str, Any]]:  # Any: of Starlette
        loop = asyncio.get_running_loop()
        curves = await loop.run_in_executor(thread, Curves, campaign)
        reading = asyncio.create_task(feed.read())
        yield {"curves": curves}
        reading.cancel()
        await asyncio.wait([reading])
        await loop.run_in_executor(thread, curves.close)
        thread.shutdown()

    async def events(_: Request) -> Response:
        return StreamingResponse(_events(feed, is_ending), media_type="text/event-stream")

    async def series(request: Request) -> Response:
        asked = [request.query_params.get(name, "") for name in ("callpath", "metric", "axis")]
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(thread, request.state.curves.of, *asked)
        except InsituError as error:
            return JSONResponse({"trouble": str(error)}, 503)
        return JSONResponse(found)

    routes = [Route("/events", events), Route("/series", series), Route("/", _static("index.html"))]
    routes += [Route(f"/{name}", _static(name)) for name in ("page.js", "page.css")]
    return Guard(Starlette(routes=routes, lifespan=lifespan), token)


def _static(name: str) -> Any:  # Any: an end point of Starlette
    content = files("insitu.monitor").joinpath("static", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, headers={"content-type": TYPES[name]})

    return answer


async def _events(feed: Feed, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
    number = 0
    while not is_ending():
        try:
            number, text = await asyncio.wait_for(feed.after(number), SILENT_S)
        except TimeoutError:
            yield ":\n\n"
        else:
            yield f"data: {text}\n\n"


def _curve(one: SeriesModel, along: int) -> dict[str, Any]:  # Any: JSON
    """Points and curve along one parameter, the others at their largest values."""
    model = one.model
    rest = np.delete(model.coordinates, along, axis=1)
    here = (rest == rest.max(axis=0)).all(axis=1) & np.isfinite(model.values)
    low, high = float(model.coordinates[:, along].min()), float(model.coordinates[:, along].max())
    space = np.geomspace if low > 0 else np.linspace
    at = np.unique([*space(low, max(high * FARTHER, low + 1), STEPS), high])
    table = np.tile(model.coordinates.max(axis=0), (len(at), 1))
    table[:, along] = at
    x, y = model.coordinates[here, along], model.values[here]
    return {
        "name": one.key.behaviour,
        "text": str(model),
        "unit": one.metric.unit,
        "last": high,
        "points": sorted(zip(x.tolist(), y.tolist(), strict=True)),
        "at": _json(at),
        "values": _json(model.predict(table)),
        "bounds": [_json(side) for side in model.interval(table).T],
    }


def _ranks(clusters: Clusters) -> dict[str, Any]:  # Any: JSON
    """Which class each rank of the largest run is; -1 is none."""
    labels = clusters.labels
    return {
        "run": str(clusters.run),
        "names": clusters.names,
        "counts": [int((labels == i).sum()) for i in range(len(clusters.names))],
        "labels": labels[:MOST_RANKS].tolist(),
    }


def _json(values: FloatArray) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
