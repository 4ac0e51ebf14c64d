"""One law planted in programs that have no limit otherwise: how often it is found, and first.

    python tests/evaluation/planted.py [--count 200] [--seed 1]

The programs are those of `healthy.py`, as tables of exact counts; each gets a further function with
a law, which is the first statement if it is found as a limit, or as a doubt where few scales leave
several laws. A law in proportion to p or log2(p) that 26 or six neighbours of a block explain as
well on so few ranks is not judged.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.statements import LIMIT, NOT_JUDGED, Statement
from tests.evaluation.healthy import Program, Rows, Sizes, exchange

MANY = 3000.0  # visits per step and unit of a law


def calls(count: Callable[[int], float]) -> Callable[[int], Rows]:
    """Every rank visits a function that often in a step."""
    return lambda p: {"visit": {"visits": np.full(p, MANY * count(p))}}


def on_one_rank(last: bool) -> Callable[[int], Rows]:
    """One rank does something for each rank."""
    return lambda p: {"visit": {"visits": MANY * p * (np.arange(p) == (p - 1) * last)}}


def collective(name: str, *, visits: bool) -> Callable[[int], Rows]:
    """A collective call for each rank, or with as many bytes as ranks."""

    def rows(p: int) -> Rows:
        n_calls, n_bytes = (10.0 * p, 80.0 * p) if visits else (1.0, 1e5 * p)
        return {name: {"visits": n_calls, "bytes_received": n_bytes, "comm_ranks": p}}

    return rows


def to_rank_0(p: int) -> Rows:
    """All ranks send to rank 0."""
    is_first = np.arange(p) == 0
    received = np.where(is_first, 20.0 * (p - 1), 0.0)
    sent = np.where(is_first, 0.0, 20.0)
    return {
        "MPI_Recv": {"messages_received": received, "bytes_received": 1e4 * received},
        "MPI_Send": {"messages_sent": sent, "bytes_sent": 1e4 * sent, "partners": sent / 20.0},
    }


def to_all(p: int) -> Rows:
    """Each rank exchanges a message with every other one."""
    counts = np.full(p, p - 1.0)
    rows = exchange("MPI_Isend", counts, 8e3 * counts, is_paired=False)
    rows["MPI_Isend"]["partners"] = counts
    return rows


def files(p: int) -> Rows:
    """Rank 0 opens files for each rank."""
    opened = np.where(np.arange(p) == 0, 5.0 * p, 0.0)
    return {"fopen": {"visits": opened, "files_opened": opened}}


def table(held: Callable[[int], np.ndarray | float]) -> Callable[[int], Rows]:
    """A function that leaves a table in the heap, whose small blocks differ between ranks."""

    def rows(p: int) -> Rows:
        heap = held(p) + 16.0 * (np.arange(p) % 5)
        return {"": {"heap_growth": heap, "bytes_allocated": heap, "allocations": 3.0}}

    return rows


# What is planted, and the term of its law.
PLANTS: dict[str, tuple[Callable[[int], Rows], str]] = {
    "linear": (calls(lambda p: p), "p"),
    "linear_beside_a_constant": (calls(lambda p: 20 + p), "p"),
    "squares": (calls(lambda p: p**2), "p^2"),
    "power_of_three_halves": (calls(lambda p: np.round(100 * p**1.5) / 100), "p^(3/2)"),
    "root": (calls(lambda p: np.round(100 * p**0.5) / 100), "p^(1/2)"),
    "sorting": (calls(lambda p: p * np.log2(p)), "p log2(p)"),
    "ladder": (lambda p: {"visit": {"visits": MANY * np.arange(p)}}, "p"),
    "rank_0": (on_one_rank(last=False), "p"),
    "last_rank": (on_one_rank(last=True), "p"),
    "broadcasts": (collective("MPI_Bcast", visits=True), "p"),
    "gathering": (collective("MPI_Allgather", visits=False), "p"),
    "everyone_to_everyone": (collective("MPI_Alltoall", visits=False), "p"),
    "funnel": (to_rank_0, "p"),
    "pairs": (to_all, "p"),
    "files": (files, "p"),
    "table": (table(lambda p: 8e5 * p), "p"),
    "table_of_pairs": (table(lambda p: 4e3 * p**2), "p^2"),
    "table_of_rank_0": (table(lambda p: 8e6 * p * (np.arange(p) == 0)), "p"),
}
ONCE = ("files", "table", "table_of_pairs", "table_of_rank_0")  # not in each step


def plant(program: Program, name: str) -> None:
    """Add a function with a law to a program."""

    def planted(its: Sizes, p: int) -> Rows:
        rows, _ = PLANTS[name]
        factor = 1 if name in ONCE else its.steps
        return {
            callee: {
                metric: value if metric in ("partners", "comm_ranks") else factor * value
                for metric, value in values.items()
            }
            for callee, values in rows(p).items()
        }

    its = program.parts[0][1]
    program.parts.append((planted, replace(its, steps=1) if name in ONCE else its))


def is_planted(entry: Statement) -> bool:
    return entry.callpath is not None and "planted" in entry.callpath


def judge(program: Program, name: str) -> str:
    """`first`, `later`, `not judged` or `missed`, with the status if it is no limit."""
    found = program.diagnose()
    for i, entry in enumerate(found.statements):
        if is_planted(entry):
            order = "first" if i == 0 else "later"
            has_law = entry.law is not None and PLANTS[name][1] in entry.law
            how = "" if entry.status == LIMIT and has_law else f", {entry.status}"
            return f"{order}{how}"
    is_known = any(is_planted(entry) for entry in found.not_judged)
    return NOT_JUDGED if is_known else "missed"


def main() -> None:
    """Print a line of JSON for each kind of plant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200, help="programs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    found: dict[str, Counter[str]] = defaultdict(Counter)
    for i in range(options.count):
        name = list(PLANTS)[i % len(PLANTS)]
        program = Program(options.seed + i)
        plant(program, name)
        found[name][judge(program, name)] += 1
    for name, counts in found.items():
        print(json.dumps({"plant": name, **counts}))


if __name__ == "__main__":
    main()
