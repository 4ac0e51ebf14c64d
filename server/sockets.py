"""The aggregator's sockets: one for agents, one for boards; encrypted between machines."""

import os
import resource
import socket
from dataclasses import dataclass
from typing import Self

import zmq
import zmq.asyncio
import zmq.auth
from zmq.auth.asyncio import AsyncioAuthenticator

from insitu.errors import CampaignError, UsageError
from insitu.server.discovery import (
    KEYS,
    make_private_directory,
    read_secret,
    socket_directory,
    socket_paths,
)
from insitu.wire.messages import MAX_FRAME_BYTES

SERVER_KEY, CLIENT_KEY, ALLOWED = "server", "client", "clients"
OPTIONS = (
    (zmq.LINGER, 0),
    (zmq.MAXMSGSIZE, MAX_FRAME_BYTES),
    # who is gone is told by the kernel: for each message of a peer that it asks for heartbeats,
    # libzmq goes through the timers of all of them
    (zmq.TCP_KEEPALIVE, 1),
    (zmq.TCP_KEEPALIVE_IDLE, 20),
    (zmq.TCP_KEEPALIVE_INTVL, 5),
    (zmq.TCP_KEEPALIVE_CNT, 4),
    (zmq.HANDSHAKE_IVL, 5_000),
    (zmq.BACKLOG, 4_096),
    (zmq.RCVHWM, 8),  # per agent, which has one message outstanding
    (zmq.SNDHWM, 16),
)
CLOSING_MS = 500  # for the last answers to leave


@dataclass(slots=True)
class Sockets:
    """Bound sockets with their addresses."""

    context: zmq.asyncio.Context
    agents: zmq.asyncio.Socket
    boards: zmq.asyncio.Socket  # tells who subscribes
    endpoint: str
    boards_endpoint: str
    curve: str = ""
    authenticator: AsyncioAuthenticator | None = None

    def close(self) -> None:
        """Let the last answers leave, then close."""
        self.agents.close(linger=CLOSING_MS)
        self.boards.close(linger=0)
        if self.authenticator is not None:
            self.authenticator.stop()
        self.context.term()
        for endpoint in (self.endpoint, self.boards_endpoint):
            if endpoint.startswith("ipc://") and os.path.exists(endpoint[6:]):
                os.unlink(endpoint[6:])

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def bind(campaign: str, address: str = "", *, relay: str = "") -> Sockets:
    """Bind the sockets of a campaign; must be called in a running asyncio loop.

    Args:
        campaign: its directory.
        address: `tcp://HOST:PORT` for other machines; without it, sockets of this machine.
        relay: the name of a relay, which has sockets of its own.

    Raises:
        UsageError: an address of another kind.
        CampaignError: the address cannot be bound, or the keys are open to others.
    """
    if address and not address.startswith("tcp://"):
        raise UsageError(f"--bind {address}: must be tcp://HOST:PORT, as in tcp://0.0.0.0:5555")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    context = zmq.asyncio.Context()
    agents, boards = context.socket(zmq.ROUTER), context.socket(zmq.XPUB)
    sockets = Sockets(context, agents, boards, "", "")
    for unbound in (agents, boards):
        for option, value in OPTIONS:
            unbound.setsockopt(option, value)
    agents.setsockopt(zmq.ROUTER_MANDATORY, 1)
    try:
        if address:
            _encrypt(sockets, campaign)
            wishes = (address, address.rpartition(":")[0] + ":*")
        else:
            paths = socket_paths(campaign, socket_directory(dict(os.environ)), relay)
            wishes = (f"ipc://{paths[0]}", f"ipc://{paths[1]}")
        for unbound, wish in zip((agents, boards), wishes, strict=True):
            unbound.bind(wish)
    except zmq.ZMQError as error:
        sockets.close()
        raise CampaignError(
            f"{campaign}: cannot bind {address or 'its sockets'}: {error}"
        ) from error
    sockets.endpoint, sockets.boards_endpoint = _reached_at(agents), _reached_at(boards)
    return sockets


def _reached_at(bound: zmq.asyncio.Socket) -> str:
    """Where others reach a socket: one that is bound to every interface, by the host's name."""
    endpoint = bound.getsockopt_string(zmq.LAST_ENDPOINT)
    for everywhere in ("tcp://0.0.0.0:", "tcp://[::]:"):
        if endpoint.startswith(everywhere):
            return f"tcp://{socket.gethostname()}:{endpoint.removeprefix(everywhere)}"
    return endpoint


def _encrypt(sockets: Sockets, campaign: str) -> None:
    """Admit only who has the campaign's client key; without a list CURVE admits any stranger."""
    keys = make_keys(campaign)
    public, secret = zmq.auth.load_certificate(os.path.join(keys, f"{SERVER_KEY}.key_secret"))
    sockets.authenticator = AsyncioAuthenticator(sockets.context)
    sockets.authenticator.start()
    sockets.authenticator.configure_curve(domain="*", location=os.path.join(keys, ALLOWED))
    for unbound in (sockets.agents, sockets.boards):
        unbound.curve_server = True
        unbound.curve_publickey, unbound.curve_secretkey = public, secret
    sockets.curve = keys


def make_keys(campaign: str) -> str:
    """The directory of the campaign's keys, made at first use.

    Raises:
        CampaignError: it is another's or open to others.
    """
    keys = os.path.join(os.path.realpath(campaign), KEYS)
    allowed = os.path.join(keys, ALLOWED)
    for directory in (keys, allowed):
        make_private_directory(directory)
    if not os.path.exists(os.path.join(allowed, f"{CLIENT_KEY}.key")):
        before = os.umask(0o077)
        try:
            for name in (SERVER_KEY, CLIENT_KEY):
                zmq.auth.create_certificates(keys, name)
            with open(os.path.join(keys, f"{CLIENT_KEY}.key"), "rb") as public:
                content = public.read()
            with open(os.path.join(allowed, f"{CLIENT_KEY}.key"), "wb") as copy:
                copy.write(content)
        finally:
            os.umask(before)
    for name in (SERVER_KEY, CLIENT_KEY):
        read_secret(os.path.join(keys, f"{name}.key_secret"))
    return keys
