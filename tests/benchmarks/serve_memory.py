"""The memory of an aggregator that serves for weeks: `python -m tests.benchmarks.serve_memory`.

Runs of 100 nodes begin and end in the state machine of the aggregator, as if their messages had
arrived and every disk had worked. Printed is the resident memory after 1, 2, 5, 10, … % of them.
The table of a complete run is dropped here, as the writer drops it when it is stored.
"""

import argparse
import json
import time

import psutil

from insitu.entities import RunState
from insitu.server.events import (
    AppendToJournal,
    Effect,
    JournalSynced,
    MessageArrived,
    RunStored,
    StoreRun,
)
from insitu.server.state import CampaignState
from tests.support.nodes import TOKEN, ModelNode

MARKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def settle(state: CampaignState, effects: list[Effect]) -> None:
    """Carry out the effects on files."""
    for effect in effects:
        match effect:
            case AppendToJournal(run, node, incarnation, _):
                settle(state, state.handle(JournalSynced(run, node, incarnation)))
            case StoreRun(record, _):
                is_incomplete = record.state is RunState.INCOMPLETE
                settle(state, state.handle(RunStored(record.id, is_incomplete)))


def main() -> None:
    """Print a line of JSON per mark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=100)
    options = parser.parse_args()

    state = CampaignState(instance="i1", token=TOKEN, heartbeat_s=1.0)
    marks = {max(int(options.runs * share), 1) for share in MARKS}
    for number in range(1, options.runs + 1):
        for index in range(options.nodes):
            node = ModelNode(f"n{index}", [index], options.nodes, run=f"{number:032x}")
            peer = b"%d %d" % (number, index)
            for message in node.messages():
                settle(state, state.handle(MessageArrived(peer, message, float(number), False)))
        if number in marks:
            memory = psutil.Process().memory_info().rss / 2**20
            cpu_s = time.process_time()
            line = {"runs": number, "rss_mib": round(memory, 1), "cpu_s": round(cpu_s, 1)}
            print(json.dumps(line | {"complete": len(state.complete)}), flush=True)


if __name__ == "__main__":
    main()
