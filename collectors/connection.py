"""The agent's connection to a relay or to the aggregator."""

import contextlib
import os

import zmq

from insitu.campaign import layout
from insitu.campaign.listener import (
    ListenerAddress,
    LockState,
    find_address,
    is_on_this_host,
    lock_state,
    remove_stale_address,
)
from insitu.collectors.discovery import address_files, lock_file
from insitu.errors import WireError
from insitu.private_files import is_private
from insitu.wire.codec import decode, encode
from insitu.wire.messages import MAX_FRAME_BYTES, Message

# The kernel detects dead peers, in 20 s of silence and 4 probes. Nobody sends libzmq's heartbeats:
# they make libzmq 4.3.5 go through the timers of all peers with each message, 1 ms at 10,000
# connections. It aborts the receiver where one lies behind more messages than fit in the queue and
# the peer ends before these are read: an assertion `!_io_error`, as the answer cannot be sent.
TCP_KEEPALIVE = (
    (zmq.TCP_KEEPALIVE, 1),
    (zmq.TCP_KEEPALIVE_IDLE, 20),
    (zmq.TCP_KEEPALIVE_INTVL, 5),
    (zmq.TCP_KEEPALIVE_CNT, 4),
)
SOCKET_OPTIONS = (
    (zmq.LINGER, 0),
    (zmq.IMMEDIATE, 1),  # queue nothing while nobody is connected
    (zmq.SNDHWM, 8),
    (zmq.MAXMSGSIZE, MAX_FRAME_BYTES),
    (zmq.RECONNECT_IVL, 50),  # these are milliseconds
    (zmq.RECONNECT_IVL_MAX, 2000),
    *TCP_KEEPALIVE,
)


class Connection:
    """A socket whose peer is found through address files in the campaign; it never blocks."""

    def __init__(self, campaign: str, node: str) -> None:
        self.campaign = campaign
        self.node = node
        self.context = zmq.Context()
        self.socket: zmq.Socket[bytes] | None = None
        self.monitor: zmq.Socket[bytes] | None = None
        self.address: ListenerAddress | None = None
        self.address_file = ""  # where the address was found
        self.n_addresses = 0  # address files when the last one was looked for

    @property
    def token(self) -> str:
        """The campaign's token; empty until an address was found."""
        return self.address.token if self.address is not None else ""

    def is_aggregator_expected(self) -> bool:
        """Whether the launcher of the run starts an aggregator or waits for one."""
        return os.path.exists(os.path.join(self.campaign, layout.AGGREGATOR_EXPECTED))

    def is_aggregator_there(self) -> bool:
        """Whether an aggregator holds its lock, even if this node cannot reach it."""
        lock = os.path.join(self.campaign, layout.AGGREGATOR_LOCK)
        return self.address is not None and lock_state(lock) is LockState.HELD

    def connect(self, *, is_unresponsive: bool = False) -> bool:
        """Connect to the listener that is there now.

        The current listener is kept as long as its address file exists.

        Args:
            is_unresponsive: the current listener does not answer; try the next one.

        Returns:
            Whether the listener is another one than before.
        """
        if is_unresponsive:
            self._remove_stale_address()
        address = None if is_unresponsive else find_address(self.address_file)
        if address is None:
            address = self._find_next_address()
        if address is None:
            return False
        if self.address is not None and address.target == self.address.target:
            return False
        self._open(address)
        return True

    def _remove_stale_address(self) -> None:
        """Remove the current address file if the lock proves that its listener is gone."""
        if self.address is not None and is_on_this_host(self.address):
            remove_stale_address(self.address_file, lock_file(self.address_file), self.address)

    def _find_next_address(self) -> ListenerAddress | None:
        """The first valid address after the current one, in the node's order."""
        files = address_files(self.campaign, self.node)
        self.n_addresses = len(files)
        start = files.index(self.address_file) + 1 if self.address_file in files else 0
        for file in files[start:] + files[:start]:
            address = find_address(file)
            if address is not None:
                self.address_file = file
                return address
        return None

    def _open(self, address: ListenerAddress) -> None:
        self.close()
        self.address = address
        socket = self.context.socket(zmq.DEALER)
        for option, value in SOCKET_OPTIONS:
            socket.setsockopt(option, value)
        if address.curve:
            self._encrypt(socket, address.curve)
        self.monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        socket.connect(address.endpoint)
        self.socket = socket

    def _encrypt(self, socket: "zmq.Socket[bytes]", keys: str) -> None:
        """Use CURVE with the campaign's keys, for connections between machines.

        Raises:
            WireError: another user may have written the secret key.
        """
        import zmq.auth

        secret_path = os.path.join(keys, f"{layout.CLIENT_KEY}.key_secret")
        with open(secret_path, "rb") as secret_file:
            if not is_private(os.fstat(secret_file.fileno())):
                raise WireError(
                    f"{secret_path}: must belong to you and be readable only by you (mode 0600)"
                )
        server_path = os.path.join(keys, f"{layout.SERVER_KEY}.key")
        server, _ = zmq.auth.load_certificate(server_path)
        public, secret = zmq.auth.load_certificate(secret_path)
        socket.curve_serverkey = server
        socket.curve_publickey = public
        socket.curve_secretkey = secret

    def send(self, message: Message) -> bool:
        """Send a message; return False if nobody is connected or the queue is full."""
        if self.socket is None:
            return False
        try:
            self.socket.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self) -> tuple[list[Message], bool]:
        """Return the answers that have arrived, and whether the connection was lost."""
        messages: list[Message] = []
        if self.socket is None:
            return messages, False
        with contextlib.suppress(zmq.Again):
            while True:
                messages.append(decode(self.socket.recv(zmq.NOBLOCK)))

        was_lost = False
        with contextlib.suppress(zmq.Again):
            while self.monitor is not None:
                self.monitor.recv_multipart(zmq.NOBLOCK)  # it reports disconnections only
                was_lost = True
        return messages, was_lost

    def close(self) -> None:
        """Close the socket without waiting."""
        if self.socket is not None:
            self.socket.disable_monitor()
            self.socket.close(0)
            if self.monitor is not None:
                self.monitor.close(0)
        self.socket = self.monitor = None
