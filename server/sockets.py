"""The aggregator's sockets, one for agents and one for boards, encrypted between machines."""

import os
import resource
import socket
from dataclasses import dataclass
from typing import Self

import zmq
import zmq.asyncio
import zmq.auth
from zmq.auth.asyncio import AsyncioAuthenticator

from insitu.campaign.layout import ALLOWED_CLIENTS, CLIENT_KEY, KEYS, SERVER_KEY
from insitu.collectors.connection import TCP_KEEPALIVE
from insitu.errors import CampaignError, UsageError
from insitu.server.discovery import (
    make_private_directory,
    read_private_file,
    socket_directory,
    socket_paths,
)
from insitu.wire.messages import MAX_FRAME_BYTES

OPTIONS = (
    (zmq.LINGER, 0),
    (zmq.MAXMSGSIZE, MAX_FRAME_BYTES),
    *TCP_KEEPALIVE,
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
    boards: zmq.asyncio.Socket  # XPUB: reports who subscribes
    endpoint: str
    boards_endpoint: str
    curve: str = ""  # the directory of the keys if the sockets are encrypted
    authenticator: AsyncioAuthenticator | None = None

    def close(self) -> None:
        """Close the sockets after the last answers have left."""
        self.agents.close(linger=CLOSING_MS)
        self.boards.close(linger=0)
        if self.authenticator is not None:
            self.authenticator.stop()
        self.context.term()

        for endpoint in (self.endpoint, self.boards_endpoint):
            path = endpoint.removeprefix("ipc://")
            if path != endpoint and os.path.exists(path):
                os.unlink(path)

    def __enter__(self) -> Self:
        """Return the sockets themselves."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the sockets."""
        self.close()


def bind(campaign: str, address: str = "", *, relay: str = "") -> Sockets:
    """Bind the sockets of a campaign; must be called in a running asyncio loop.

    Args:
        campaign: the campaign's directory.
        address: `tcp://HOST:PORT` to listen to other machines; default: UNIX sockets.
        relay: the name of a relay, which has sockets of its own.

    Raises:
        UsageError: the address is of another kind.
        CampaignError: the address cannot be bound, or the keys are not private to this user.
    """
    if address and not address.startswith("tcp://"):
        raise UsageError(f"--bind {address}: must be tcp://HOST:PORT, as in tcp://0.0.0.0:5555")
    _raise_file_limit()

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
            agents.bind(address)
            boards.bind(address.rpartition(":")[0] + ":*")
        else:
            directory = socket_directory(dict(os.environ))
            agents_path, boards_path = socket_paths(campaign, directory, relay)
            agents.bind(f"ipc://{agents_path}")
            boards.bind(f"ipc://{boards_path}")
    except zmq.ZMQError as error:
        sockets.close()
        raise CampaignError(
            f"{campaign}: cannot bind {address or 'its sockets'}: {error}"
        ) from error

    sockets.endpoint, sockets.boards_endpoint = _public_endpoint(agents), _public_endpoint(boards)
    return sockets


def _raise_file_limit() -> None:
    """Allow as many open files as the system permits: each agent needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _public_endpoint(bound: zmq.asyncio.Socket) -> str:
    """The endpoint for other processes: the host's name stands for "all interfaces"."""
    endpoint = bound.getsockopt_string(zmq.LAST_ENDPOINT)
    for all_interfaces in ("tcp://0.0.0.0:", "tcp://[::]:"):
        if endpoint.startswith(all_interfaces):
            return f"tcp://{socket.gethostname()}:{endpoint.removeprefix(all_interfaces)}"
    return endpoint


def _encrypt(sockets: Sockets, campaign: str) -> None:
    """Admit only clients with the campaign's key; without a list, CURVE would admit any client."""
    keys = make_keys(campaign)
    public, secret = zmq.auth.load_certificate(os.path.join(keys, f"{SERVER_KEY}.key_secret"))

    sockets.authenticator = AsyncioAuthenticator(sockets.context)
    sockets.authenticator.start()
    sockets.authenticator.configure_curve(domain="*", location=os.path.join(keys, ALLOWED_CLIENTS))

    for unbound in (sockets.agents, sockets.boards):
        unbound.curve_server = True
        unbound.curve_publickey, unbound.curve_secretkey = public, secret
    sockets.curve = keys


def make_keys(campaign: str) -> str:
    """The directory of the campaign's CURVE keys, which are created on first use.

    Raises:
        CampaignError: it is not private to this user.
    """
    keys = os.path.join(os.path.realpath(campaign), KEYS)
    allowed = os.path.join(keys, ALLOWED_CLIENTS)
    for directory in (keys, allowed):
        make_private_directory(directory)

    if not os.path.exists(os.path.join(allowed, f"{CLIENT_KEY}.key")):
        old_mask = os.umask(0o077)
        try:
            for name in (SERVER_KEY, CLIENT_KEY):
                zmq.auth.create_certificates(keys, name)
            with open(os.path.join(keys, f"{CLIENT_KEY}.key"), "rb") as public:
                content = public.read()
            with open(os.path.join(allowed, f"{CLIENT_KEY}.key"), "wb") as copy:
                copy.write(content)
        finally:
            os.umask(old_mask)

    for name in (SERVER_KEY, CLIENT_KEY):
        read_private_file(os.path.join(keys, f"{name}.key_secret"))  # fails unless it is private
    return keys
