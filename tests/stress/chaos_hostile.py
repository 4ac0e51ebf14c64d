"""A client with key and token that says anything, beside honest nodes of another run."""

import contextlib
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import zmq

from insitu.campaign.store import open_store
from insitu.entities import RunState
from insitu.wire.codec import decode, encode
from insitu.wire.messages import Ack, Message
from tests.stress.fuzz import mutated
from tests.support.listeners import WAIT_S, Server
from tests.support.nodes import ModelNode, column

THEIRS = "f" * 32
AT_MOST_BYTES = 512 << 20  # of memory that the aggregator may gain
ANSWER_MS = int(1000 * WAIT_S)


def hostile(folder: Path, length: int) -> Counter[str]:
    """So many thousand messages of a client that was let in; what became of an honest run."""
    counts: Counter[str] = Counter()
    campaign = folder / "hostile.insitu"
    server = Server(campaign).wait()
    address = json.loads((campaign / "aggregator.json").read_text())
    honest = [ModelNode(f"n{k}", [k], 2, token=address["token"]) for k in range(2)]
    context = zmq.Context()
    ours, theirs = (context.socket(zmq.DEALER) for _ in range(2))
    for socket in (ours, theirs):
        socket.linger, socket.rcvtimeo, socket.sndtimeo = 0, ANSWER_MS, ANSWER_MS
        socket.connect(address["endpoint"])
    for message in honest[0].messages()[:3]:
        _asked(ours, message)
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    _attack(theirs, address["token"], 1000 * length, counts)
    for node in honest:
        node.work("solve")
        answers = [_asked(ours, message) for message in node.messages(9)]
        counts["nodes unfinished"] += not (isinstance(answers[-1], Ack) and answers[-1].is_durable)
    gained = process.memory_info().rss - before
    counts["MB gained"] = gained >> 20
    counts["aggregators harmed"] += gained > AT_MOST_BYTES
    for socket in (ours, theirs):
        socket.close()
    context.term()
    server.end()
    with open_store(str(campaign)) as store:
        states = {record.id: record.state for record in store.runs()}
        counts["runs lost"] += states.get(honest[0].run) is not RunState.COMPLETE
        table = store.table(honest[0].run)
    for node in honest:
        counts["values wrong"] += column(table, node.ranks[0]) != node.truth(node.ranks[0])
    return counts


def _asked(socket: "zmq.Socket[bytes]", message: Message) -> Message:
    socket.send(encode(message))
    return decode(socket.recv())


def _attack(socket: "zmq.Socket[bytes]", token: str, number: int, counts: Counter[str]) -> None:
    """Mutants of well-formed messages of a run of its own, huge claims, other nodes and runs."""
    rng = random.Random(number)
    node = ModelNode("x", [0, 1], 4, run=THEIRS, token=token)
    for path in ("../../etc/passwd", "<script>", "\x1b[2J", "a->b", "\u202e"):
        node.work(path)
    seeds = [encode(message) for message in node.messages()]
    huge = replace(node.hello(), size=4_000_000)
    for i in range(number):
        match rng.randint(0, 9):
            case 0:
                frame = encode(replace(huge, run=f"{rng.getrandbits(128):032x}"))
            case 1:
                frame = encode(replace(node.hello(), node=f"x{i}", incarnation=i))
            case 2:
                frame = rng.randbytes(rng.randint(0, 200))
            case 3:
                frame = rng.choice(seeds)
            case _:
                frame = mutated(seeds, rng)
        socket.send(frame)
        counts["messages"] += 1
        with contextlib.suppress(zmq.Again):
            while i % 64 == 0:
                counts[f"{type(decode(socket.recv(zmq.NOBLOCK))).__name__} answered"] += 1
