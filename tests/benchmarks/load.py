"""What many ranks cost the aggregator: CPU per beat, bytes, memory, and how long an answer takes.

    python tests/benchmarks/load.py [formats] [ranks] [connections] [tree]
        [--connections 1000] [--ranks 1] [--rows 500] [--beats 5]
        [--nodes 7816] [--relays 16] [--rows-of-tree 8] [--beat 20]

formats: a message as it is and as a list of dictionaries, in CPU microseconds.
ranks: 100,000 ranks on 1,000 nodes, decoded and taken in this process, without sockets.
connections: so many agents with a message each second, each at a moment of its own.
tree: 128 ranks on each of so many simulated nodes (7,816 make a million), through real relays that
send sketches to a real aggregator; then the end of the run, with every value.
CPU time is that of the process named; on a machine that others use, only it can be compared.
"""

import argparse
import itertools
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgpack
import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from insitu.server.events import MessageArrived
from insitu.server.state import CampaignState
from insitu.server.totals import table_of
from insitu.wire.codec import decode, encode
from insitu.wire.messages import Column, Group, Totals
from tests.benchmarks.load_crowd import Crowd
from tests.benchmarks.load_tree import Tree, tree
from tests.support.listeners import Server
from tests.support.nodes import TOKEN, ModelNode

METRICS = 6
COLUMNS = tuple(Column(f"m{i}", "s", "total", "u8") for i in range(METRICS))
RANKS_OF_NODE = 128  # in the tree


def node_of(number: int, ranks: int, size: int, rows: int) -> ModelNode:
    """A node with so many ranks and call paths."""
    numbers = list(range(ranks * number, ranks * (number + 1)))
    node = ModelNode(f"n{number}", numbers, size, token=TOKEN)
    node.paths = [f"function_{i}" for i in range(rows)]
    return node


def totals_of(node: ModelNode, seq: int, matrices: tuple[bytes, ...]) -> Totals:
    """A message with six metrics of every rank and call path."""
    rows = np.arange(len(node.paths), dtype="<u4").tobytes()
    ranks = np.array(node.ranks, "<i4").tobytes()
    ticks = np.full(len(node.ranks), 1e-9).tobytes()
    return Totals(seq, 1, (Group(ranks, rows, ticks, tuple(range(METRICS)), matrices),))


def matrices_of(ranks: int, rows: int) -> tuple[bytes, ...]:
    """Made-up counts."""
    rng = np.random.default_rng(ranks * rows)
    return tuple(
        rng.integers(1, 1 << 40, (ranks, rows), dtype="<u8").tobytes() for _ in range(METRICS)
    )


def spent(work: Callable[[], object], times: int) -> float:
    """CPU seconds of this process for one round of some work."""
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def formats() -> None:
    """Columns against a list of dictionaries: one rank × 500 call paths × 6 metrics."""
    node = node_of(0, 1, 1, 500)
    message = totals_of(node, 1, matrices_of(1, 500))
    numbers = [np.frombuffer(matrix, "<u8").tolist() for matrix in message.groups[0].matrices]
    rows = [
        {"path": path, **{f"m{k}": numbers[k][i] for k in range(METRICS)}}
        for i, path in enumerate(node.paths)
    ]
    frame, naive = encode(message), msgpack.packb(rows)

    def to_columns() -> None:
        found = msgpack.unpackb(naive)
        for k in range(METRICS):
            np.array([row[f"m{k}"] for row in found], dtype="<u8")

    for name, size, write, read in (
        ("columns", len(frame), lambda: encode(message), lambda: decode(frame)),
        ("list of dicts", len(naive), lambda: msgpack.packb(rows), to_columns),
    ):
        print(
            f"formats: {name}: {size:,} bytes, write {1e6 * spent(write, 300):.1f} µs,"
            f" read {1e6 * spent(read, 300):.1f} µs"
        )


def ranks(beats: int) -> None:
    """100,000 ranks on 1,000 nodes, 200 call paths × 6 metrics: CPU of a beat."""
    nodes, per_node, rows = 1_000, 100, 200
    state = CampaignState(instance="i", token=TOKEN, heartbeat_s=1.0, memory_bytes=1 << 36)
    matrices = matrices_of(per_node, rows)
    made = [node_of(k, per_node, nodes * per_node, rows) for k in range(nodes)]
    first = replace(made[0].hello(), columns=COLUMNS)

    def greet() -> None:
        for k, node in enumerate(made):
            peer = b"%d" % k
            hello = replace(first, node=node.name, ranks=tuple(node.ranks))
            for message in (hello, node.digest(), *([node.dictionary()] if k == 0 else [])):
                state.handle(MessageArrived(peer, message, 0.0))

    greeting = spent(greet, 1)
    taking = 0.0
    for seq in range(1, beats + 1):
        for k, node in enumerate(made):
            frame = encode(totals_of(node, seq, matrices))
            began = time.process_time()
            state.handle(MessageArrived(b"%d" % k, decode(frame), float(seq)))
            taking += time.process_time() - began
    run = next(iter(state.runs.values()))
    cells = nodes * per_node * rows
    rss = psutil.Process().memory_info().rss / 1e6
    print(
        f"ranks: {len(run.registers):,} ranks, {len(frame) * nodes / 1e6:.0f} MB a beat:"
        f" {taking / beats:.2f} s CPU a beat without sockets,"
        f" {beats * cells / taking / 1e6:.0f} M rows a CPU second; hello and dictionaries"
        f" {greeting:.2f} s once; {rss:.0f} MB resident"
    )
    print(
        f"ranks: the table of the run: {spent(lambda: table_of(run.size, run.registers), 1):.1f} s"
    )


@dataclass(frozen=True)
class Plan:
    """What every agent of a load test does."""

    agents: int
    ranks: int  # of each agent
    rows: int
    beats: int


def connections(plan: Plan) -> None:
    """So many agents at a real aggregator."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    nodes = [
        node_of(k, plan.ranks, plan.agents * plan.ranks, plan.rows) for k in range(plan.agents)
    ]
    matrices = matrices_of(plan.ranks, plan.rows)
    with tempfile.TemporaryDirectory(prefix="insitu-load-") as folder:
        server = Server(Path(folder) / "load.insitu", beat="1").wait()
        address = json.loads((server.campaign / "aggregator.json").read_text())
        for node in nodes:
            node.token = address["token"]
        crowd = Crowd(COLUMNS)
        process = psutil.Process(server.process.pid)
        times = [process.cpu_times()]
        crowd.greet(address["endpoint"].removeprefix("ipc://"), nodes)
        times.append(process.cpu_times())
        own = time.process_time()
        crowd.beat([totals_of(node, 0, matrices) for node in nodes], plan.beats)
        own = time.process_time() - own
        times.append(process.cpu_times())
        memory = process.memory_info().rss / 1e6
        crowd.close()
        server.kill()
    hello, beats = (b.user + b.system - a.user - a.system for a, b in itertools.pairwise(times))
    said = len(crowd.waits)
    middle, late, last = 1e3 * np.quantile(crowd.waits, (0.5, 0.99, 1.0))
    print(
        f"connections: {plan.agents:,} agents, {plan.agents * plan.ranks:,} ranks,"
        f" {plan.rows} call paths, {plan.beats} beats of 1 s: {1e6 * hello / plan.agents:.0f} µs"
        f" CPU each to greet, then {said:,} totals, {1e6 * cpu_of(beats, said):.0f} µs CPU each,"
        f" {crowd.skipped:,} beats skipped, {beats / plan.beats:.2f} s CPU a beat;"
        f" answer after {middle:.0f} ms, p99 {late:.0f} ms, at most {last:.0f} ms;"
        f" {memory:.0f} MB resident; the agents themselves {1e6 * cpu_of(own, said):.0f} µs each"
    )


def cpu_of(seconds: float, messages: int) -> float:
    """Seconds for each message."""
    return seconds / max(messages, 1)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help="formats, ranks, connections, tree"
    )
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--ranks", type=int, default=1, help="of each connection")
    parser.add_argument("--rows", type=int, default=500, help="call paths of each rank")
    parser.add_argument("--beats", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=7_816, help="of the tree")
    parser.add_argument("--relays", type=int, default=16)
    parser.add_argument("--rows-of-tree", type=int, default=8, help="call paths in the tree")
    parser.add_argument("--beat", type=float, default=20.0, help="of the tree, in seconds")
    options = parser.parse_args()
    kinds = {
        "formats": formats,
        "ranks": lambda: ranks(options.beats),
        "connections": lambda: connections(
            Plan(options.connections, options.ranks, options.rows, options.beats)
        ),
        "tree": lambda: tree(
            Tree(
                options.nodes,
                options.relays,
                RANKS_OF_NODE,
                options.rows_of_tree,
                options.beat,
                options.beats,
            )
        ),
    }
    for kind in options.kinds or kinds:
        kinds[kind]()


if __name__ == "__main__":
    main()
