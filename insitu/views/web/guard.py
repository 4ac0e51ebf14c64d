"""Who is let in to the page, and what the answers forbid a browser."""

import hashlib
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]+)?")
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
        bearers = [value[7:] for name, value in headers if name == b"authorization"]
        is_known = any(self._is_token(one) for one in (given, *cookies, *bearers))

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
            answer = PlainTextResponse(
                "open the address that was printed when this page was started\n", 403
            )
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
