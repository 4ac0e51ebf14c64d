"""A million simulated ranks through a real tree: agents, relays, one aggregator, all with sockets.

Agents are simulated, one socket each, many in a process; relays and the aggregator are those that
people start. Relays run in a wrapper that counts the bytes that they send up.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import zmq
import zmq.asyncio

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from insitu.campaign.listener import find_address
from insitu.campaign.store import open_store
from insitu.collectors.discovery import address_files
from insitu.entities import RunState
from insitu.server.relay import uplink
from insitu.server.relay.loop import relay
from insitu.wire.codec import decode, encode
from insitu.wire.messages import Ack, Column, Group, Message, Reject, Sketches, Totals
from tests.support.listeners import Server, until
from tests.support.nodes import RUN, ModelNode
from tests.support.processes import HERE

METRICS = (("visits", "1"), ("time", "s"), ("time_exclusive", "s"), ("bytes_sent", "B"))
COLUMNS = tuple(Column(name, unit, "total", "u8") for name, unit in METRICS)
LEVELS = (1.0, 1.15, 3.0, 40.0)  # of the four classes: a quarter of the ranks each
KINDS_OF_NODE = 16  # different values; the rest repeat
PROCESSES = 2
WAIT_S = 1200.0


@dataclass(frozen=True)
class Tree:
    """How large the tree is."""

    nodes: int
    relays: int
    ranks: int  # of each node
    rows: int
    heartbeat_s: float
    beats: int

    @property
    def size(self) -> int:
        """All ranks."""
        return self.nodes * self.ranks


def values_of(number: int, tree: Tree) -> np.ndarray:
    """The numbers of a node, (metric × rank × row): classes by rank, 2 % of noise."""
    rng = np.random.default_rng(number % KINDS_OF_NODE)
    level = np.array(LEVELS)[np.arange(tree.ranks) % len(LEVELS)]
    noise = rng.uniform(0.98, 1.02, (len(METRICS), tree.ranks, tree.rows))
    return (1e6 * level[None, :, None] * noise).astype("<u8")


def node_of(number: int, tree: Tree, token: str) -> ModelNode:
    """A node of the tree."""
    ranks = list(range(tree.ranks * number, tree.ranks * (number + 1)))
    node = ModelNode(f"n{number}", ranks, tree.size, token=token)
    node.paths = ["main", *(f"function_{i}" for i in range(1, tree.rows))]
    return node


class Speaker:
    """One simulated agent."""

    def __init__(self, context: zmq.asyncio.Context, campaign: str, number: int, tree: Tree):
        """Find a relay, as a real agent does."""
        name = f"n{number}"
        found = next(filter(None, map(find_address, address_files(campaign, name))))
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(found.endpoint)
        self.node = node_of(number, tree, found.token)
        self.number, self.tree = number, tree
        self.waits: list[float] = []

    async def say(self, message: Message) -> Message:
        """Send a message and wait for its answer."""
        began = time.monotonic()
        await self.socket.send(encode(message))
        answer = decode(await self.socket.recv())
        self.waits.append(time.monotonic() - began)
        if isinstance(answer, Reject):
            raise RuntimeError(f"{self.node.name}: {answer.text}")
        return answer

    async def greet(self) -> None:
        """Hello and the dictionary."""
        for message in (
            replace(self.node.hello(), columns=COLUMNS),
            self.node.digest(),
            self.node.dictionary(),
        ):
            answer = await self.say(message)
            if isinstance(answer, Ack) and answer.known == self.tree.rows:
                return

    async def beat(self, seq: int) -> None:
        """The totals of all ranks; they grow."""
        values = values_of(self.number, self.tree) * seq
        matrices = tuple(values[i].tobytes() for i in range(len(METRICS)))
        ranks = np.array(self.node.ranks, "<i4").tobytes()
        ticks = np.full(self.tree.ranks, 1e-9).tobytes()
        rows = np.arange(self.tree.rows, dtype="<u4").tobytes()
        columns = tuple(range(len(METRICS)))
        await self.say(Totals(seq, 1, (Group(ranks, rows, ticks, columns, matrices),)))

    async def end(self, seq: int) -> float:
        """Bye, until it is durable; how long that took."""
        began = time.monotonic()
        answer = await self.say(self.node.bye(seq))
        while not (isinstance(answer, Ack) and answer.is_durable):
            answer = decode(await self.socket.recv())
            if isinstance(answer, Reject):
                raise RuntimeError(f"{self.node.name}: {answer.text}")
        return time.monotonic() - began


def agents(folder: Path, k: int, tree: Tree) -> tuple[float, float, float]:
    """Every PROCESSES-th agent from k on: p50 and p99 of waiting, the longest for durability.

    All of them have greeted, or spoken, before the next beat begins.
    """

    async def after(speaker: Speaker, work: Callable[[], Awaitable[float | None]]) -> float:
        await asyncio.sleep(tree.heartbeat_s * speaker.number / tree.nodes)
        return await work() or 0.0

    async def all_of_them() -> tuple[list[float], list[float]]:
        numbers = range(k, tree.nodes, PROCESSES)
        context = zmq.asyncio.Context()
        context.set(zmq.MAX_SOCKETS, len(numbers) + 10)
        speakers = [Speaker(context, str(folder / "tree.insitu"), n, tree) for n in numbers]
        await asyncio.gather(*(after(s, s.greet) for s in speakers))
        for speaker in speakers:
            speaker.waits.clear()
        for seq in range(1, tree.beats + 1):
            await asyncio.to_thread(_meet, folder, f"{seq - 1}", str(k))
            await asyncio.gather(*(after(s, partial(s.beat, seq)) for s in speakers))
        await asyncio.to_thread(_meet, folder, f"{tree.beats}", str(k))
        await asyncio.to_thread(_meet, folder, "end", str(k))
        ends = await asyncio.gather(*(s.end(tree.beats) for s in speakers))
        return [w for s in speakers for w in s.waits], list(ends)

    waits, ends = asyncio.run(all_of_them())
    middle, late = np.quantile(waits, (0.5, 0.99))
    return float(middle), float(late), max(ends)


def _meet(folder: Path, what: str, who: str) -> None:
    """Wait until every process of agents, and who watches, has come so far."""
    (folder / f"met-{what}-{who}").touch()
    if not until(lambda: len(list(folder.glob(f"met-{what}-*"))) > PROCESSES, WAIT_S):
        raise RuntimeError(f"not everybody came to {what}")


def counting_relay(campaign: str, name: str, heartbeat_s: str, log: str) -> None:
    """A relay that writes down the bytes that it sends up, sketches apart."""
    counts = {"sketches": 0, "bytes of sketches": 0, "bytes of all": 0}
    send = uplink.Uplink.send

    async def counted(self: uplink.Uplink, message: Message) -> None:
        size = len(encode(message))
        counts["bytes of all"] += size
        if isinstance(message, Sketches):
            counts["sketches"] += 1
            counts["bytes of sketches"] += size
            Path(log + ".new").write_text(json.dumps(counts))
            os.replace(log + ".new", log)
        await send(self, message)

    uplink.Uplink.send = counted  # type: ignore[method-assign]
    asyncio.run(
        relay(campaign, name=name, heartbeat_s=float(heartbeat_s), report=lambda text: None)
    )
    Path(log).write_text(json.dumps(counts))


def cpu_of(processes: list[psutil.Process]) -> list[float]:
    """CPU seconds that each has taken."""
    return [sum(process.cpu_times()[:2]) for process in processes]


def tree(size: Tree) -> None:
    """Measure a run of so many ranks while it lasts and at its end."""
    with tempfile.TemporaryDirectory(prefix="insitu-tree-") as name:
        folder = Path(name)
        campaign = folder / "tree.insitu"
        server = Server(campaign, beat=str(size.heartbeat_s)).wait()
        below = _relays(folder, campaign, size)
        with ProcessPoolExecutor(PROCESSES) as pool:
            parts = [pool.submit(agents, folder, k, size) for k in range(PROCESSES)]
            _watch(folder, campaign, size, server, below)
            for part in parts:
                middle, late, longest = part.result()
                print(
                    f"tree: agents: answer after {1e3 * middle:.0f} ms, p99 {1e3 * late:.0f} ms;"
                    f" durable {longest:.1f} s after the end at the latest"
                )
        _end(campaign, size, server, below)


def _relays(folder: Path, campaign: Path, size: Tree) -> list["subprocess.Popen[bytes]"]:
    words = [sys.executable, __file__, "--relay", str(campaign)]
    found = []
    for k in range(size.relays):
        with open(folder / "relays.log", "ab") as log:
            more = [f"r{k}", str(size.heartbeat_s), str(folder / f"r{k}.json")]
            found.append(subprocess.Popen([*words, *more], cwd=HERE, stderr=log))
    if not until(lambda: len(list((campaign / "relays").glob("*.json"))) == size.relays, WAIT_S):
        raise RuntimeError((folder / "relays.log").read_text())
    return found


def _watch(
    folder: Path,
    campaign: Path,
    size: Tree,
    server: Server,
    below: list["subprocess.Popen[bytes]"],
) -> None:
    """CPU and bytes over the beats in which all ranks speak, from the second on."""
    root = psutil.Process(server.process.pid)
    relays = [psutil.Process(relay.pid) for relay in below]
    for seq in (0, 1):
        _meet(folder, str(seq), "watch")
    before, bytes_before, began = cpu_of([root, *relays]), _sent(folder), time.monotonic()
    for seq in range(2, size.beats + 1):
        _meet(folder, str(seq), "watch")
    took = time.monotonic() - began
    after, bytes_after = cpu_of([root, *relays]), _sent(folder)
    beats = size.beats - 1
    spent = np.subtract(after, before) / beats
    sent = (bytes_after - bytes_before) / beats
    rss = [process.memory_info().rss / 1e6 for process in (root, *relays)]
    print(
        f"tree: {size.size:,} ranks, {size.nodes:,} agents, {size.relays} relays,"
        f" {size.rows} call paths × {len(METRICS)} metrics, a beat in {took / beats:.0f} s: the"
        f" root gets {sent / 1e6:.2f} MB a beat, {sent * beats / took / 1e3:.0f} kB/s, and takes"
        f" {spent[0]:.2f} s CPU a beat, {rss[0]:.0f} MB resident; a relay {spent[1:].mean():.2f} s"
        f" CPU a beat ({spent[1:].max():.2f} at most), {np.mean(rss[1:]):.0f} MB",
        flush=True,
    )
    shown = until(
        lambda: int(_board(campaign)["runs"][0]["seen"]) == size.size, 3 * size.heartbeat_s
    )
    time.sleep(size.heartbeat_s)
    seen = _board(campaign)
    (run,) = seen["runs"]
    classes = [row["behaviour"] for row in seen["series"] if row["behaviour"].startswith("now")]
    quarter = f"{size.size // len(LEVELS):,} ranks"
    right = sum(name.endswith(quarter) for name in classes)
    print(
        f"tree: the board shows {run['seen']:,} of {run['size']:,} ranks ({shown}) and"
        f" {len(classes)} clusters of {size.rows} call paths, {right} of them with the {quarter}"
        " that they have",
        flush=True,
    )
    _meet(folder, "end", "watch")


def _sent(folder: Path) -> int:
    texts = (file.read_text() for file in folder.glob("r*.json"))
    return sum(int(json.loads(text)["bytes of sketches"]) for text in texts if text)


def _board(campaign: Path) -> dict[str, list[dict[str, str]]]:
    address = json.loads((campaign / "aggregator.json").read_text())
    context = zmq.Context()
    socket = context.socket(zmq.SUB)
    socket.connect(address["boards"])
    socket.subscribe(b"")
    for _ in range(2):
        found = json.loads(socket.recv())
    socket.close(0)
    context.term()
    return found  # type: ignore[no-any-return]


def _end(
    campaign: Path, size: Tree, server: Server, below: list["subprocess.Popen[bytes]"]
) -> None:
    """What the campaign holds of the run, against what its ranks measured."""
    root = psutil.Process(server.process.pid)

    def is_sealed() -> bool:
        with open_store(str(campaign)) as store:
            return any(r.id == RUN and r.state is RunState.COMPLETE for r in store.runs())

    began = time.monotonic()
    sealed = until(is_sealed, WAIT_S)
    print(
        f"tree: sealed: {sealed}, {time.monotonic() - began:.0f} s after the last agent left;"
        f" the root has taken {cpu_of([root])[0]:.0f} s CPU in all and"
        f" {root.memory_info().rss / 1e6:.0f} MB are resident"
    )
    if sealed:
        with open_store(str(campaign)) as store:
            table = store.table(RUN)
        truth = np.concatenate(
            [values_of(k, size)[0] * size.beats for k in range(size.nodes)]
        ).T.astype(float)
        rows = [str(c).rpartition("->")[2] for c in table.callpaths]
        places = [
            rows.index(f"function_{i}") if i else rows.index("main") for i in range(size.rows)
        ]
        wrong = int(np.count_nonzero(table.values["visits"][places] != truth))
        print(f"tree: {truth.size:,} values compared, {wrong} wrong")
    for process in below:
        process.terminate()
    for process in below:
        process.wait()
    server.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--relay"]:
        counting_relay(*sys.argv[2:])
