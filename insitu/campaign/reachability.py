"""Who listens for the agents of a campaign: the one answer for run, relay, watch and campaign."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from insitu.campaign.layout import AGGREGATOR_ADDRESS, AGGREGATOR_LOCK, CLIENT_KEY, SERVER_KEY
from insitu.campaign.listener import (
    ListenerAddress,
    LockState,
    find_address,
    is_on_this_host,
    lock_state,
    remove_stale_address,
)
from insitu.errors import WireError
from insitu.private_files import read_private_file

if TYPE_CHECKING:
    import zmq

ANSWER_S = 1.0  # an idle aggregator answers within 1 ms; this leaves time for a loaded machine
STOPPED = "T"  # by a signal, in proc(5); strace stops a process at each system call, as "t"
NOBODY = 0xFFFF_FFFF  # a sequence number that no agent reaches


class Reachability(StrEnum):
    """Whether agents on this machine can reach the listener of a campaign."""

    ABSENT = "absent"  # nobody listens
    STARTING = "starting"  # a process holds the lock and has not published its address yet
    REACHABLE = "reachable"  # it has just answered
    UNREACHABLE = "unreachable"  # it is there but does not answer


@dataclass(frozen=True, slots=True)
class ListenerStatus:
    """Who listens for agents, and what is known about it.

    Attributes:
        reachability: whether agents on this machine can reach it.
        address: what it has published; None if nothing was published, or nobody listens.
        holder: "pid 12 on host a" from the lock file; "" if it is unknown.
        reason: why it does not answer, if it is UNREACHABLE.
    """

    reachability: Reachability
    address: ListenerAddress | None = None
    holder: str = ""
    reason: str = ""


def find_listener(campaign: str, *, answer_s: float = ANSWER_S) -> ListenerStatus:
    """Find out who listens for the agents of a campaign.

    The answer of the listener counts first. Without one, its lock tells a listener that is gone
    from a listener that is stopped, busy, or cannot be reached from this machine. The address file
    of a listener that is gone is removed.

    Args:
        campaign: the campaign's directory.
        answer_s: how long to wait for an answer.
    """
    path = os.path.join(campaign, AGGREGATOR_ADDRESS)
    lock_path = os.path.join(campaign, AGGREGATOR_LOCK)

    address = find_address(path)
    if address is not None and does_answer(address, answer_s):
        return ListenerStatus(Reachability.REACHABLE, address, _holder_of(address))

    state = lock_state(lock_path)
    holder = _read_holder(lock_path)
    if state is LockState.HELD:
        if address is None or holder not in ("", _holder_of(address)):
            return ListenerStatus(Reachability.STARTING, None, holder)
        return ListenerStatus(Reachability.UNREACHABLE, address, holder, why_silent(address))

    if address is None:
        return ListenerStatus(Reachability.ABSENT)
    if state is LockState.FREE:
        remove_stale_address(path, lock_path, address)
        return ListenerStatus(Reachability.ABSENT)
    return _without_locks(path, address)


def _without_locks(path: str, address: ListenerAddress) -> ListenerStatus:
    """The status of a silent listener on a file system that has no locks.

    Its process proves that it is there, if it runs on this host. A process that was started after
    the address was published only has the same id.
    """
    is_alive = is_on_this_host(address) and is_process(address.pid, address.started)
    if is_alive:
        holder = _holder_of(address)
        return ListenerStatus(Reachability.UNREACHABLE, address, holder, why_silent(address))

    if find_address(path) == address:
        with suppress(OSError):  # whoever only looks may not write to the campaign
            os.unlink(path)
    return ListenerStatus(Reachability.ABSENT)


def does_answer(address: ListenerAddress, wait_s: float) -> bool:
    """Whether a listener answers within `wait_s` seconds.

    The question is a Bye of an agent that never said Hello. Every version answers it that there is
    no such session, and neither stores nor logs anything.
    """
    # `insitu run` seldom asks, and would take a sixth longer to start with these.
    import zmq

    from insitu.wire.codec import decode, encode
    from insitu.wire.messages import MAX_FRAME_BYTES, Bye

    question = encode(Bye(final_seq=NOBODY, ends=(), ended_ns=0, cost="{}"))
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
        try:
            if address.curve:
                use_client_keys(socket, address.curve)
            socket.connect(address.endpoint)
            socket.send(question, zmq.NOBLOCK)  # libzmq sends it once it is connected
            if not socket.poll(round(1000 * wait_s)):
                return False
            decode(socket.recv(zmq.NOBLOCK))
        except (zmq.ZMQError, OSError, ValueError, WireError):
            return False

    return True


def use_client_keys(socket: "zmq.Socket[bytes]", keys: str) -> None:
    """Encrypt a socket with the campaign's keys, for connections between machines.

    Raises:
        OSError: a key cannot be read, or another user may have written the secret key.
        ValueError: a file holds no key.
    """
    import zmq.auth

    secret_path = os.path.join(keys, f"{CLIENT_KEY}.key_secret")
    read_private_file(secret_path)
    server, _ = zmq.auth.load_certificate(os.path.join(keys, f"{SERVER_KEY}.key"))
    public, secret = zmq.auth.load_certificate(secret_path)
    socket.curve_serverkey = server
    socket.curve_publickey = public
    socket.curve_secretkey = secret or b""


def why_silent(address: ListenerAddress) -> str:
    """Why a listener whose lock is held does not answer, as far as this host can tell."""
    if not is_on_this_host(address):
        if address.endpoint.startswith("ipc://"):
            return (
                f"it runs on {address.host} and listens to that machine only; serve the campaign"
                " with --bind tcp://0.0.0.0:PORT"
            )
        return f"{address.endpoint} cannot be reached from this machine"
    if is_stopped(address.pid):
        return f"its process is stopped; continue it with: kill -CONT {address.pid}"
    return "it is busy"


def is_stopped(pid: int) -> bool:
    """Whether a process of this host is stopped by a signal."""
    fields = _process_fields(pid)
    return bool(fields) and fields[0] == STOPPED


def is_process(pid: int, published_at: float) -> bool:
    """Whether a process of this host exists and began before a time in seconds since 1970."""
    fields = _process_fields(pid)
    if not fields or fields[0] == "Z":
        return False
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s < published_at + 1.0  # start times have a resolution of 10 ms


def _process_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on, which is field 3 of proc(5); [] if gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _holder_of(address: ListenerAddress) -> str:
    return f"pid {address.pid} on host {address.host}"


def _read_holder(lock_path: str) -> str:
    try:
        with open(lock_path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""
