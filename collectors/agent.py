"""The node's agent: reads the tables of its ranks at every heartbeat and sends their totals."""

import contextlib
import fcntl
import os
import resource
import time
from dataclasses import replace
from typing import Any

import zmq

from insitu.collectors import phases, spool, table_directory
from insitu.collectors.builds import identify_build
from insitu.collectors.connection import Connection
from insitu.collectors.energy import EnergyMeter
from insitu.collectors.leftovers import has_live_ranks
from insitu.collectors.node import Node
from insitu.collectors.node_facts import read_node_facts
from insitu.collectors.priority import take_back
from insitu.collectors.processes import Processes
from insitu.collectors.round_trips import RoundTrips
from insitu.collectors.session import AgentSession, Step
from insitu.errors import WireError
from insitu.wire.messages import Ack, Message, Totals, Welcome
from insitu.wire.split import split_totals

LOCK = 3  # the descriptor of the run directory's lock, inherited from the first rank

# How long the agent outlives its last rank:
LINGER_S = 2.0  # after the last answer of the aggregator,
LINGER_UNREACHABLE_S = 0.5  # if no aggregator was ever reached,
LINGER_EXPECTED_S = 20.0  # unless the launcher of the run starts or awaits one,
LINGER_AT_MOST_S = 60.0  # while answers say that the totals are on their way to disk.

# Without a Welcome, before another listener is tried. The time doubles with each round through all
# of them, so that listeners which are only slow are reached as well.
TRY_S = 0.2
TRY_AT_MOST_S = 5.0
# How often the agent looks for a listener: often when it is new, rarely while it has a session.
LOOK_OFTEN_UNTIL_S = 5.0  # age of the agent
LOOK_OFTEN_S = 0.1
LOOK_S = 0.5
LOOK_WITH_SESSION_S = 5.0

MAX_ERRORS = 1000  # heartbeats that fail before the agent gives up
MAX_SPOOL_ERRORS = 10


class Agent:
    """Runs until its ranks have ended and the aggregator has their totals, or the linger is over.

    In the mode `spool` it sends nothing and copies the tables into the campaign instead.
    """

    def __init__(self, directory: str) -> None:
        self.node = Node(directory, facts=read_node_facts(), meter=EnergyMeter())
        self.directory = directory
        self.session = AgentSession()
        self.connection: Connection | None = None

        self.beats = 0
        self.dropped = 0  # totals that could not be sent
        self.errors: list[str] = []
        self.unsent: list[Totals] = []  # the rest of totals that are larger than a frame
        self.round_trips = RoundTrips()

        # Monotonic times in seconds.
        self.started_at = time.monotonic()
        self.totals_at = 0.0
        self.looked_at = -1e9
        self.ended_at: float | None = None  # when the last rank had ended
        self.answered_at = 0.0
        self.unwelcome_since = 0.0
        self.tries = 0  # listeners that did not answer since the last Welcome

        self.is_spooling = os.environ.get("INSITU_AGENT") == "spool"
        if self.is_spooling:
            self._mark_welcomed()
        self.wake_pipe = self._open_wake_pipe()
        self.processes = Processes()

    def _open_wake_pipe(self) -> int:
        path = os.path.join(self.directory, table_directory.WAKE)
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)  # both ends: it never reaches end of file

    def run(self) -> None:
        """Run heartbeats until the work is done. A heartbeat that fails is counted and repeated."""
        max_errors = MAX_SPOOL_ERRORS if self.is_spooling else MAX_ERRORS
        while True:
            try:
                if self.beat(time.monotonic()):
                    return
            except Exception as error:  # counted, written to the log, and reported in Bye
                self.errors.append(f"{type(error).__name__}: {error}")
                os.write(2, f"{self.errors[-1]}\n".encode())
                if len(self.errors) > max_errors:
                    return
            self.sleep()

    def beat(self, now: float) -> bool:
        """Run one heartbeat; return True when there is nothing left to do."""
        self.node.scan()
        for rank in self.node.live_ranks():
            head = rank.table.header
            self.processes.watch((head.pid, head.root_pid or head.pid))
        if not self.node.ranks:
            return self._is_over(now)
        running = [rank for rank in self.node.ranks.values() if rank.is_running]
        if running and self.node.build is None:
            self.node.build = identify_build(running[0].table.header.pid)
        if self.is_spooling:
            return self._spool()

        if self.connection is None:
            self.connection = Connection(str(self.node.meta.get("campaign", "")), self.node.name)
            self.session.heartbeat_s = float(self.node.meta.get("beat", 1.0))
        for rank in self.node.live_ranks():
            phases.probe_memory(rank, now_s=now)
        self._connect(now)
        self._receive(now)
        self._send(now)

        if self.session.is_durable:
            self.node.remove_tables()
            return True
        if not self._is_over(now):
            return False
        self._spool_undelivered()
        return True

    def _spool_undelivered(self) -> None:
        """Copy the tables into the campaign if an aggregator is there but cannot be reached.

        It takes them from the spool. Without an aggregator, the tables stay where `insitu run` and
        `insitu ingest` look for them.
        """
        if not self.node.ranks or self.connection is None:
            return
        if self.connection.is_aggregator_there():
            spool.copy_tables(self.directory, self.connection.campaign, self.node.facts)
            self.node.remove_tables()

    def _spool(self) -> bool:
        """Copy the tables into the campaign once all ranks have ended.

        Tables that cannot be copied are kept.
        """
        if self.node.live_ranks():
            return False
        campaign = str(self.node.meta.get("campaign", ""))
        spool.copy_tables(self.directory, campaign, self.node.facts)
        self.node.remove_tables()
        return True

    def _connect(self, now: float) -> None:
        """Look for a listener if it is time to, and begin a session with a new one."""
        assert self.connection is not None
        every_s = LOOK_OFTEN_S if self._is_looking() else LOOK_S
        if self.session.is_welcome:
            every_s = LOOK_WITH_SESSION_S
        if now - self.looked_at < every_s:
            return
        self.looked_at = now

        if self.session.is_welcome or self.connection.address is None:
            self.unwelcome_since = now
            self.tries = 0
        rounds = self.tries // max(self.connection.n_addresses, 1)
        try_s = min(TRY_S * 2 ** min(rounds, 10), TRY_AT_MOST_S)
        is_unresponsive = now - self.unwelcome_since >= try_s
        if is_unresponsive:
            self.unwelcome_since = now
            self.tries += 1
        if self.connection.connect(is_unresponsive=is_unresponsive):
            self.node.token = self.connection.token
            self.session.lose()
            self.session.is_refused = False

    def _receive(self, now: float) -> None:
        assert self.connection is not None
        messages, was_lost = self.connection.receive()
        for message in messages:
            if isinstance(message, Ack | Welcome):
                self.answered_at = now
            if isinstance(message, Ack):
                self.round_trips.end(message)
        if was_lost:
            self.session.lose()
        for message in messages:
            was_ever_welcome = self.session.was_ever_welcome
            self.session.receive(message)
            if self.session.was_ever_welcome and not was_ever_welcome:
                self._mark_welcomed()

    def _mark_welcomed(self) -> None:
        """Let ranks under a batch system wait for this agent: it has somewhere to send totals."""
        path = os.path.join(self.directory, table_directory.WELCOMED)
        with open(path, "w", encoding="ascii"):
            pass

    def _send(self, now: float) -> None:
        assert self.connection is not None
        if self.connection.socket is None:
            return

        has_ended = not self.node.live_ranks()
        is_due = has_ended or now - self.totals_at >= self.session.heartbeat_s * 0.9
        if self.session.is_behind:
            self._reset_totals()
        has_data = bool(self.unsent) or (is_due and self.node.has_pending_totals())
        rows = len(self.node.paths)

        match self.session.step(now, has_data=has_data, has_ended=has_ended, rows=rows):
            case Step.HELLO:
                self._reset_totals()
                self._send_message(self.node.hello())
            case Step.DIGEST:
                self._send_message(self.node.digest())
            case Step.PATHS:
                self._send_message(self.node.new_paths(self.session.known_rows)[0])
            case Step.TOTALS:
                self._send_totals(now)
            case Step.BYE:
                self._send_message(
                    self.node.bye(self.session.sequence, self.cost(), self.round_trips)
                )

    def _reset_totals(self) -> None:
        """Send the totals of all ranks again: a new session begins with everything."""
        self.unsent.clear()
        for rank in self.node.ranks.values():
            rank.is_final = False

    def _send_totals(self, now: float) -> None:
        """Send the totals of this heartbeat, or the next part of large ones."""
        if not self.unsent:
            self.beats += 1
            self.totals_at = now
            self.unsent = split_totals(self.node.totals(self.session.sequence))
        self.round_trips.begin(self.session.sequence, is_tsc=self.node.is_tsc())
        self._send_message(replace(self.unsent.pop(0), seq=self.session.sequence))

    def _send_message(self, message: Message) -> None:
        assert self.connection is not None
        if not self.connection.send(message):
            self.dropped += isinstance(message, Totals)
            self.session.lose()

    def cost(self) -> dict[str, Any]:  # Any: JSON
        """What the agent itself has cost the node."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "agent_cpu_s": round(usage.ru_utime + usage.ru_stime, 4),
            "agent_rss_bytes": usage.ru_maxrss * 1024,
            "beats": self.beats,
            "dropped": self.dropped,
            "errors": self.errors[:10],
        }

    def _is_over(self, now: float) -> bool:
        """Whether the agent gives up, because its ranks have ended and the linger is over."""
        if self.node.live_ranks():
            self.ended_at = None
            return False
        if self.ended_at is None:
            self.ended_at = now
            take_back(os.getpid())

        if not self.session.was_ever_welcome:
            is_expected = (
                not self.session.is_refused
                and self.connection is not None
                and self.connection.is_aggregator_expected()
            )
            linger_s = LINGER_EXPECTED_S if is_expected else LINGER_UNREACHABLE_S
            if self.connection is not None:  # long enough to try all listeners
                linger_s += TRY_S * self.connection.n_addresses
            return now - self.ended_at >= linger_s

        since = self.ended_at
        if now - self.ended_at < LINGER_AT_MOST_S:
            since = max(since, self.answered_at)
        return now - since >= LINGER_S

    def _is_looking(self) -> bool:
        """Whether to look for a listener often."""
        is_new = time.monotonic() - self.started_at < LOOK_OFTEN_UNTIL_S
        return self.ended_at is not None or (not self.session.is_welcome and is_new)

    def sleep(self) -> None:
        """Wait for an answer, the end of a rank, a connection, or the next heartbeat."""
        poller = zmq.Poller()
        poller.register(self.wake_pipe, zmq.POLLIN)
        for descriptor in self.processes.descriptors():
            poller.register(descriptor, zmq.POLLIN)

        if self.connection is not None and self.connection.socket is not None:
            # A Hello that found nobody connected is repeated as soon as the socket is writable.
            has_unsent_hello = (
                not self.session.is_welcome
                and self.session.sent_at is None
                and not self.session.is_refused
            )
            events = zmq.POLLIN | (zmq.POLLOUT if has_unsent_hello else 0)
            poller.register(self.connection.socket, events)
            poller.register(self.connection.monitor, zmq.POLLIN)

        limit_s = self.session.heartbeat_s
        if self._is_looking():
            limit_s = min(limit_s, LOOK_OFTEN_S)
        ready = dict(poller.poll(round(limit_s * 1000)))
        self.processes.forget(ready.keys())
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_pipe, 4096)


def main(directory: str) -> None:
    """Run the agent process; it holds the run directory's lock until it ends."""
    while True:
        agent = Agent(directory)
        agent.run()
        if agent.connection is not None:
            agent.connection.close()
        if not os.path.isdir(directory):
            return

        # A rank that started just now found the lock taken, and started no agent. Release the lock,
        # then look for such a rank.
        fcntl.flock(LOCK, fcntl.LOCK_UN)
        try:
            is_needed = has_live_ranks(directory)
            fcntl.flock(LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (OSError, WireError):
            return
        if not is_needed:
            return
