"""Limits of the connections to the web page, so that nobody on the machine can block it.

A connection needs no token before its first request. One that sends none would keep its file
descriptor for ever, and a thousand of them all descriptors of the process.
"""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_TIMEOUT_S = 5.0  # for a request to arrive completely
MAX_CONNECTIONS = 128  # a browser opens six for a page; of more, the longest idle one is closed
MAX_HEADER_BYTES = 16 * 1024


class LimitedProtocol(H11Protocol):
    """HTTP with a time-out for each request, and with a limit of connections."""

    idle_since = 0.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, and close the longest idle one if there are too many."""
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        self._await_request()

        if len(self.connections) > MAX_CONNECTIONS:
            idle = [other for other in self.connections if _is_idle(other)]
            if idle:
                oldest = min(idle, key=lambda other: getattr(other, "idle_since", 0.0))
                oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        super().data_received(data)
        if self._deadline is None and _is_idle(self):
            self._await_request()

    def _await_request(self) -> None:
        self._deadline = self.loop.call_later(HEADER_TIMEOUT_S, self._end_if_idle)

    def _end_if_idle(self) -> None:
        self._deadline = None
        if _is_idle(self):
            self.transport.abort()


def _is_idle(connection: object) -> bool:
    """Whether a connection has sent no request that is being answered."""
    cycle = getattr(connection, "cycle", None)
    return cycle is None or bool(cycle.response_complete)
