"""The memory of an aggregator that serves for weeks: `python -m tests.benchmarks.serve_memory`.

Runs of 100 nodes begin and end in the aggregator's own writer and refitter, as if their messages
had arrived: it writes the journal, stores the runs and fits their models. Printed are the resident
memory and the CPU seconds after 1, 2, 5, 10, … % of them.

With --sockets, the nodes connect to `insitu serve` in a process of its own, whose memory and CPU
seconds are printed.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
import zmq

from insitu.campaign.store import open_store
from insitu.entities import RunState
from insitu.server.events import Effect, MessageArrived, RefitModels
from insitu.server.refitter import Refitter
from insitu.server.writer import CampaignWriter
from insitu.wire.codec import decode, encode
from insitu.wire.messages import Ack, Welcome
from tests.support.listeners import Server
from tests.support.nodes import ModelNode

ANSWER_MS = 120_000
NUMBERS_OF_RANKS = 5  # distinct; the aggregator models their repetitions
MARKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def converse(
    context: "zmq.Context[zmq.Socket[bytes]]", endpoint: str, nodes: list[ModelNode]
) -> None:
    """Let all nodes of a run send what they have, each on a connection of its own.

    Raises:
        RuntimeError: an answer is missing, or not that of an aggregator that has understood.
    """
    with ExitStack() as stack:
        sockets = []
        for _ in nodes:
            socket = stack.enter_context(context.socket(zmq.DEALER))
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RCVTIMEO, ANSWER_MS)
            socket.connect(endpoint)
            sockets.append(socket)

        by_node = [node.messages() for node in nodes]
        for step in range(len(by_node[0])):
            for socket, messages in zip(sockets, by_node, strict=True):
                socket.send(encode(messages[step]))
            for socket in sockets:
                answer = decode(socket.recv())
                if not isinstance(answer, Ack | Welcome):
                    raise RuntimeError(f"an answer that was not expected: {answer}")


def serve_over_sockets(
    n_runs: int, n_nodes: int, report: Callable[[int, float, float], None]
) -> None:
    """Send runs to an aggregator, and report its memory in MiB and CPU seconds after marks."""
    with tempfile.TemporaryDirectory() as folder, zmq.Context() as context:
        campaign = Path(folder, "serve.insitu")
        open_store(str(campaign), create=True).close()
        server = Server(campaign, beat="1").wait()
        address = json.loads(server.file.read_text())
        process = psutil.Process(server.process.pid)
        marks = {max(int(n_runs * share), 1) for share in MARKS}
        for number in range(1, n_runs + 1):
            size = n_nodes - number % NUMBERS_OF_RANKS
            nodes = []
            for index in range(size):
                node = ModelNode(f"n{index}", [index], size, run=f"{number:032x}")
                node.token = address["token"]
                nodes.append(node)
            converse(context, address["endpoint"], nodes)
            if number in marks:
                cpu = process.cpu_times()
                report(number, process.memory_info().rss / 2**20, cpu.user + cpu.system)

        server.end()
        with open_store(str(campaign)) as store:
            states = {run.state for run in store.runs()}
            if len(store.runs()) != n_runs or states != {RunState.COMPLETE}:
                raise RuntimeError(f"{len(store.runs())} runs are stored: {states}")


def main() -> None:
    """Print a line of JSON per mark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--sockets", action="store_true")
    options = parser.parse_args()

    def report(number: int, memory: float, cpu_s: float) -> None:
        line = {"runs": number, "rss_mib": round(memory, 1), "cpu_s": round(cpu_s, 1)}
        print(json.dumps(line), flush=True)

    if options.sockets:
        serve_over_sockets(options.runs, options.nodes, report)
    else:
        serve_here(options.runs, options.nodes, report)


def serve_here(n_runs: int, n_nodes: int, report: Callable[[int, float, float], None]) -> None:
    """Give runs to writer and refitter; report memory in MiB and CPU seconds after marks."""
    with (
        tempfile.TemporaryDirectory() as folder,
        CampaignWriter(f"{folder}/serve.insitu", instance="i1", heartbeat_s=1.0) as writer,
    ):
        refitter = Refitter(writer.store, writer.campaign)
        marks = {max(int(n_runs * share), 1) for share in MARKS}
        for number in range(1, n_runs + 1):
            size = n_nodes - number % NUMBERS_OF_RANKS
            effects: list[Effect] = []
            for index in range(size):
                node = ModelNode(f"n{index}", [index], size, f"{number:032x}", writer.token)
                peer = b"%d %d" % (number, index)
                for message in node.messages():
                    event = MessageArrived(peer, message, float(number))
                    effects += writer.handle_unsynced(event)
            effects += writer.sync()

            for effect in effects:
                if isinstance(effect, RefitModels):
                    refitter.add_run(effect.run)
            refit_in_thread(refitter)
            writer.read_records()
            if number in marks:
                report(number, psutil.Process().memory_info().rss / 2**20, time.process_time())

        states = {run.state for run in writer.records}
        if len(writer.records) != n_runs or states != {RunState.COMPLETE}:
            raise RuntimeError(f"{len(writer.records)} runs are stored: {states}")


def refit_in_thread(refitter: Refitter) -> None:
    """Fit what is pending in a thread, as the loop of the aggregator does."""
    fit = refitter.begin()
    with ThreadPoolExecutor(1) as pool:
        refitter.finish(pool.submit(fit).result())


if __name__ == "__main__":
    main()
