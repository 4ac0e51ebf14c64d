"""The node's agent: reads the tables of its ranks at every beat and streams their totals to a relay
or the aggregator."""

import contextlib
import fcntl
import os
import resource
import time
from dataclasses import replace
from typing import Any

import zmq

from insitu.campaign import layout
from insitu.campaign.listener import ListenerAddress, find_address
from insitu.collectors import phases, spool, table_directory
from insitu.collectors.discovery import address_files
from insitu.collectors.node import Node
from insitu.collectors.processes import Processes
from insitu.collectors.session import AgentSession, Step
from insitu.errors import WireError
from insitu.private_files import is_private
from insitu.wire.codec import decode, encode
from insitu.wire.messages import MAX_FRAME_BYTES, Ack, Message, Totals
from insitu.wire.split import split_totals

LOCK = 3  # the descriptor that the first rank hands over
LINGER_S = 2.0  # how long the agent outlives its last rank while the aggregator answers
LONELY_S = 0.5  # and while it never did
COMING_S = 20.0  # and while whoever started the run sees to it that one is there
PATIENT_S = 60.0  # and at most while its answers say that the totals are on their way to a disk
MUTE_S = 5.0  # without a welcome, before another address is tried
EAGER_S = 5.0  # how long a new agent looks for the aggregator ten times a second
LOOK_S = 0.1
LOST_FACTOR = 10  # a beat of one second looks for the aggregator every ten beats at the least


class Link:
    """The socket to a relay or the aggregator, found through the campaign; never blocks."""

    def __init__(self, campaign: str, node: str) -> None:
        self.campaign = campaign
        self.node = node
        self.context = zmq.Context()
        self.socket: zmq.Socket[bytes] | None = None
        self.monitor: zmq.Socket[bytes] | None = None
        self.file = ""  # that names who is spoken to
        self.address: ListenerAddress | None = None

    @property
    def token(self) -> str:
        """That of the campaign; empty before an address was found."""
        return self.address.token if self.address is not None else ""

    def is_coming(self) -> bool:
        """Whether whoever started the run sees to it that there is an aggregator."""
        return os.path.exists(os.path.join(self.campaign, layout.AGGREGATOR_EXPECTED))

    def look(self, *, is_mute: bool = False) -> bool:
        """Connect to who is there now; whether it is another one than before.

        The one that was found stays, as long as it has an address and does not stay mute.
        """
        found = None if is_mute else find_address(self.file)
        if found is None:
            files = address_files(self.campaign, self.node)
            after = files.index(self.file) + 1 if self.file in files else 0
            for file in files[after:] + files[:after]:
                found = find_address(file)
                if found is not None:
                    self.file = file
                    break
        if found is None or (self.address is not None and found.target == self.address.target):
            return False
        self._connect(found)
        return True

    def _connect(self, address: ListenerAddress) -> None:
        self.close()
        self.address = address
        socket = self.context.socket(zmq.DEALER)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.IMMEDIATE, 1),
            (zmq.SNDHWM, 8),
            (zmq.MAXMSGSIZE, MAX_FRAME_BYTES),
            (zmq.RECONNECT_IVL, 50),
            (zmq.RECONNECT_IVL_MAX, 2000),
            (zmq.HEARTBEAT_IVL, 5000),
            (zmq.HEARTBEAT_TIMEOUT, 15000),
        ):
            socket.setsockopt(option, value)
        if address.curve:
            self._secure(socket, address.curve)
        self.monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        socket.connect(address.endpoint)
        self.socket = socket

    def _secure(self, socket: "zmq.Socket[bytes]", keys: str) -> None:
        """Between machines: CURVE with the campaign's keys, which lie beside the campaign."""
        import zmq.auth

        with open(os.path.join(keys, "client.key_secret"), "rb") as secret_file:
            if not is_private(os.fstat(secret_file.fileno())):
                raise WireError(
                    f"{keys}/client.key_secret: must belong to you and be readable only by you"
                    " (mode 0600)"
                )
        server, _ = zmq.auth.load_certificate(os.path.join(keys, "server.key"))
        public, secret = zmq.auth.load_certificate(os.path.join(keys, "client.key_secret"))
        socket.curve_serverkey, socket.curve_publickey = server, public
        socket.curve_secretkey = secret

    def send(self, message: Message) -> bool:
        """False when the pipe is full or nobody is connected: this beat is dropped."""
        if self.socket is None:
            return False
        try:
            self.socket.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def received(self) -> tuple[list[Message], bool]:
        """The answers that have arrived, and whether the connection was lost."""
        messages: list[Message] = []
        if self.socket is None:
            return messages, False
        with contextlib.suppress(zmq.Again):
            while True:
                messages.append(decode(self.socket.recv(zmq.NOBLOCK)))
        was_lost = False
        with contextlib.suppress(zmq.Again):
            while self.monitor is not None:
                self.monitor.recv_multipart(zmq.NOBLOCK)  # it tells of nothing else
                was_lost = True
        return messages, was_lost

    def close(self) -> None:
        """Drop the connection; nothing waits."""
        if self.socket is not None:
            self.socket.disable_monitor()
            self.socket.close(0)
            if self.monitor is not None:
                self.monitor.close(0)
        self.socket = self.monitor = None


class Agent:
    """Beats until its ranks have ended and the aggregator has their totals, or the linger is
    over."""

    def __init__(self, directory: str) -> None:
        self.node = Node(directory)
        self.directory = directory
        self.session = AgentSession()
        self.link: Link | None = None
        self.beats = 0
        self.dropped = 0
        self.errors: list[str] = []
        self.last_totals = 0.0
        self.unsent: list[Totals] = []  # parts of totals that are larger than a frame
        self.looked_at = -1e9
        self.ended_at: float | None = None
        self.heard_at = 0.0  # from whom its ranks' totals go to
        self.mute_since = 0.0  # while it does not welcome us
        self.started_at = time.monotonic()
        self.is_silent = os.environ.get("INSITU_AGENT") == "spool"
        if self.is_silent:
            self._say_welcomed()
        self.wake = self._open_wake()
        self.processes = Processes()

    def _open_wake(self) -> int:
        path = os.path.join(self.directory, table_directory.WAKE)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)  # both ends: never at end of file

    def run(self) -> None:
        """Until done; whatever goes wrong in a beat is counted and the next beat tries again."""
        while True:
            try:
                if self.beat(time.monotonic()):
                    return
            except (
                Exception
            ) as error:  # the agent's beat: counted, written to its log, reported in Bye
                self.errors.append(f"{type(error).__name__}: {error}")
                os.write(2, f"{self.errors[-1]}\n".encode())
                if len(self.errors) > (10 if self.is_silent else 1000):
                    return
            self.sleep()

    def beat(self, now: float) -> bool:
        """One round; True when there is nothing left to do."""
        self.node.scan()
        self.processes.watch(rank.table.header.pid for rank in self.node.live())
        if not self.node.ranks:
            return self._is_over(now)
        if self.is_silent:
            return self._spool()
        if self.link is None:
            self.link = Link(str(self.node.meta.get("campaign", "")), self.node.name)
            self.session.heartbeat_s = float(self.node.meta.get("beat", 1.0))
        for rank in self.node.live():
            phases.probe(rank, now_s=now)
        self._look(now)
        self._receive(now)
        self._send(now)
        if self.session.is_durable:
            self.node.remove_tables()
            return True
        return self._is_over(now)

    def _spool(self) -> bool:
        """Copy the tables into the campaign once all ranks have ended; they stay if that fails."""
        if self.node.live():
            return False
        spool.copy_tables(self.directory, str(self.node.meta.get("campaign", "")))
        self.node.remove_tables()
        return True

    def _look(self, now: float) -> None:
        assert self.link is not None
        every_s = LOOK_S if self._is_looking() else 0.5
        if now - self.looked_at < (LOST_FACTOR * 0.5 if self.session.is_welcome else every_s):
            return
        self.looked_at = now
        if self.session.is_welcome or self.link.address is None:
            self.mute_since = now
        is_mute = now - self.mute_since >= MUTE_S
        if is_mute:
            self.mute_since = now
        if self.link.look(is_mute=is_mute):
            self.node.token = self.link.token
            self.session.lose()
            self.session.is_refused = False

    def _receive(self, now: float) -> None:
        assert self.link is not None
        messages, was_lost = self.link.received()
        if any(isinstance(message, Ack) for message in messages):
            self.heard_at = now
        if was_lost:
            self.session.lose()
        for message in messages:
            was_welcome = self.session.was_ever_welcome
            self.session.receive(message)
            if self.session.was_ever_welcome and not was_welcome:
                self._say_welcomed()

    def _say_welcomed(self) -> None:
        """Ranks under a batch system wait for an agent that has somewhere to bring their tables."""
        with open(os.path.join(self.directory, "welcomed"), "w", encoding="ascii"):
            pass

    def _send(self, now: float) -> None:
        assert self.link is not None
        if self.link.socket is None:
            return
        has_ended = not self.node.live()
        is_due = now - self.last_totals >= self.session.heartbeat_s * 0.9 or has_ended
        if self.session.is_behind:
            self._begin_again()
        has_data = bool(self.unsent) or (is_due and self.node.has_news())
        rows = len(self.node.paths)
        match self.session.step(now, has_data=has_data, has_ended=has_ended, rows=rows):
            case Step.HELLO:
                self._begin_again()  # a new session gets everything once
                self._say(self.node.hello())
            case Step.DIGEST:
                self._say(self.node.digest())
            case Step.PATHS:
                self._say(self.node.new_paths(self.session.known_rows)[0])
            case Step.TOTALS:
                self._say_totals(now)
            case Step.BYE:
                self._say(self.node.bye(self.session.sequence, self.cost()))

    def _begin_again(self) -> None:
        self.unsent.clear()
        for rank in self.node.ranks.values():
            rank.is_final = False

    def _say_totals(self, now: float) -> None:
        """The totals of this beat, or the next part of them: one message is outstanding."""
        if not self.unsent:
            self.beats += 1
            self.last_totals = now
            self.unsent = split_totals(self.node.totals(self.session.sequence))
        self._say(replace(self.unsent.pop(0), seq=self.session.sequence))

    def _say(self, message: Message) -> None:
        assert self.link is not None
        if not self.link.send(message):
            self.dropped += isinstance(message, Totals)
            self.session.lose()

    def cost(self) -> dict[str, Any]:
        """What the agent itself has cost the node."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "agent_cpu_s": round(used.ru_utime + used.ru_stime, 4),
            "agent_rss_bytes": used.ru_maxrss * 1024,
            "beats": self.beats,
            "dropped": self.dropped,
            "errors": self.errors[:10],
        }

    def _is_over(self, now: float) -> bool:
        if self.node.live():
            self.ended_at = None
            return False
        if self.ended_at is None:
            self.ended_at = now
        if not self.session.was_ever_welcome:
            is_coming = (
                not self.session.is_refused and self.link is not None and self.link.is_coming()
            )
            return now - self.ended_at >= (COMING_S if is_coming else LONELY_S)
        is_patient = now - self.ended_at < PATIENT_S
        return now - max(self.ended_at, self.heard_at if is_patient else 0.0) >= LINGER_S

    def _is_looking(self) -> bool:
        """Whether it is worth looking for the aggregator often."""
        is_young = time.monotonic() - self.started_at < EAGER_S
        return self.ended_at is not None or (not self.session.is_welcome and is_young)

    def sleep(self) -> None:
        """Until an answer arrives, a rank ends, somebody is connected, or the next beat is due."""
        poller = zmq.Poller()
        poller.register(self.wake, zmq.POLLIN)
        for process in self.processes.descriptors():
            poller.register(process, zmq.POLLIN)
        if self.link is not None and self.link.socket is not None:
            said = self.session.sent_at is not None or self.session.is_refused
            is_due = not self.session.is_welcome and not said  # its Hello found nobody connected
            poller.register(self.link.socket, zmq.POLLIN | (zmq.POLLOUT if is_due else 0))
            poller.register(self.link.monitor, zmq.POLLIN)
        limit_s = (
            min(self.session.heartbeat_s, LOOK_S)
            if self._is_looking()
            else self.session.heartbeat_s
        )
        ready = dict(poller.poll(round(limit_s * 1000)))
        self.processes.forget(ready.keys())
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 4096)


def main(directory: str) -> None:
    """The agent process; holds the run directory's lock through descriptor 3 until it ends."""
    while True:
        agent = Agent(directory)
        agent.run()
        if agent.link is not None:
            agent.link.close()
        if not os.path.isdir(directory):
            return
        # A rank that came while we were leaving found the lock taken: look once more after letting
        # go.
        fcntl.flock(LOCK, fcntl.LOCK_UN)
        late = Node(directory)
        try:
            late.scan()
            fcntl.flock(LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (OSError, WireError):
            return
        if not late.live():
            return
