"""Access control of the web page, and the security headers of its responses."""

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
    "referrer-policy": "no-referrer",  # the first address contains the token
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


class Guard:
    """Admits requests that name this host as 127.0.0.1 or localhost and carry the token.

    Other users of the machine can connect to its ports. Other pages in the browser can send
    requests through a host name of their own that resolves to 127.0.0.1 (DNS rebinding). Both are
    refused with status 403.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()
        # Cookies ignore the port, so the name depends on the token: two pages can be open at once.
        self._cookie = f"insitu-{hashlib.sha256(self._token).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with 403 or pass it to the application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        in_address = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        in_cookies = [self._cookie_token(value) for name, value in headers if name == b"cookie"]
        bearers = [value[7:] for name, value in headers if name == b"authorization"]
        candidates = [in_address, *in_cookies, *bearers]
        is_authorised = any(self._is_token(candidate) for candidate in candidates)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = dict(HEADERS)
                if is_authorised and in_address:
                    value = self._token.decode()
                    more["set-cookie"] = (
                        f"{self._cookie}={value}; Path=/; HttpOnly; SameSite=Strict"
                    )
                encoded = [(name.encode(), value.encode()) for name, value in more.items()]
                message = {**message, "headers": [*message["headers"], *encoded]}
            await send(message)

        answer = self._app
        if len(hosts) != 1 or HOST.fullmatch(hosts[0]) is None:
            is_authorised = False
            answer = PlainTextResponse("use 127.0.0.1 or localhost in the address\n", 403)
        elif not is_authorised:
            answer = PlainTextResponse(
                "open the address that was printed when this page was started\n", 403
            )
        await answer(scope, receive, send_guarded)

    def _is_token(self, candidate: str) -> bool:
        return secrets.compare_digest(candidate.encode("utf-8", "replace"), self._token)

    def _cookie_token(self, header: str) -> str:
        """The token in a cookie header, or ""."""
        try:
            morsel = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return "" if morsel is None else morsel.value
