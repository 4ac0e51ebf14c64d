"""Programs without a limit, as tables of exact counts: any certain statement about them is false.

    python tests/evaluation/healthy.py [--count 1000] [--seed 1]

Each program has two to five functions of those that programs consist of: exchanges with neighbours
in grids of one to three dimensions or in irregular graphs, trees, rings, collective calls,
particles and cells. It is measured on three to seven numbers of ranks, with a fixed total size or
one for each rank, on free or on shared cores, and diagnosed for 4,096 ranks. The one thing that may
be certain is how many rows or cells there are to share.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from insitu.analysis.diagnosis.diagnose import Diagnosis, diagnose_experiment
from insitu.analysis.diagnosis.statements import LIMIT, Statement
from insitu.entities import METRICS, CallPath, Configuration, RunKey, RunRecord, RunState
from insitu.modeling.base import ModelSet
from insitu.modeling.grid_shape import even_grid
from insitu.modeling.measurement import Experiment, RunTable

TARGET = 4096.0
SCALES = (
    *((1, 2, 4, 8), (2, 4, 8), (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32), (4, 8, 16, 32, 64)),
    *((1, 2, 3, 4, 6, 8), (2, 3, 4, 6, 8, 12), (1, 2, 4, 6, 8, 12, 16), (2, 4, 6, 8, 10, 12)),
    *((8, 16, 24, 32, 48), (16, 32, 64, 128), (1, 3, 5, 7, 9), (4, 9, 16, 25, 36)),
    *((1, 4, 9, 16), (1, 8, 27, 64), (8, 27, 64)),
)
CELL_S, CALL_S, NOISE = 1e-6, 2e-7, 0.02  # times of visits, and how much they vary
Rows = dict[str, dict[str, np.ndarray | float]]  # values of metrics by name of a callee, "" itself


@dataclass(frozen=True)
class Sizes:
    """What the parts of a program choose from; a part is seeded alike on all numbers of ranks."""

    seed: tuple[int, int]
    is_weak: bool
    steps: int
    cells: int  # along a side: of each rank, or of all
    n_dimensions: int
    is_periodic: bool
    has_corners: bool
    size: int  # of a message, in bytes


def exchange(sends: str, counts: np.ndarray, sizes: np.ndarray, *, is_paired: bool) -> Rows:
    """As many messages as partners in both directions."""
    sent = {"visits": counts, "messages_sent": counts, "bytes_sent": sizes}
    received = {"messages_received": counts, "bytes_received": sizes}
    if is_paired:
        return {sends: sent | received}
    return {sends: sent, "MPI_Irecv": {"visits": counts} | received}


def halo(its: Sizes, p: int) -> Rows:
    """Cells in blocks of a grid, which exchange their faces, and with corners all that touch."""
    sides = even_grid(p, its.n_dimensions)
    blocks = [
        np.full(side, its.cells)
        if its.is_weak
        else its.cells // side + (np.arange(side) < its.cells % side)
        for side in sides
    ]
    n_messages, n_bytes, volumes = np.zeros(p), np.zeros(p), np.zeros(p)
    for rank, at in enumerate(product(*map(range, sides))):
        block = [int(lengths[i]) for lengths, i in zip(blocks, at, strict=True)]
        volumes[rank] = np.prod(block)
        for step in product((-1, 0, 1), repeat=len(sides)):
            there = [i + d for i, d in zip(at, step, strict=True)]
            if its.is_periodic:
                there = [i % side for i, side in zip(there, sides, strict=True)]
            is_inside = all(0 <= i < side for i, side in zip(there, sides, strict=True))
            is_wanted = its.has_corners or sum(map(abs, step)) == 1
            if is_inside and is_wanted and any(step) and tuple(there) != at:
                n_messages[rank] += 1
                face = [length for length, d in zip(block, step, strict=True) if d == 0]
                n_bytes[rank] += 8 * np.prod(face)
    calls = exchange(
        "MPI_Sendrecv", its.steps * n_messages, its.steps * n_bytes, is_paired=its.is_periodic
    )
    return {**calls, "cell": {"visits": its.steps * volumes}}


def graph(its: Sizes, p: int) -> Rows:
    """Parts of an irregular mesh, whose neighbours are near."""
    rng = np.random.default_rng([*its.seed, p])
    places = rng.random((p, 2))
    distances = np.hypot(*(places[:, None] - places[None]).T)
    edges = (distances < 1.3 / np.sqrt(p)) & ~np.eye(p, dtype=bool)
    weights = np.triu(rng.integers(1, 5, (p, p)))
    sizes = (edges * (weights + weights.T)).sum(axis=1) * float(its.size)
    counts = edges.sum(axis=1).astype(float)
    calls = exchange("MPI_Isend", its.steps * counts, its.steps * sizes, is_paired=False)
    return {**calls, "cell": {"visits": its.steps * rng.integers(90, 110, p).astype(float)}}


def tree(its: Sizes, p: int) -> Rows:
    """Values that pass through a binary tree of messages, to rank 0 and back."""
    counts = np.zeros(p)
    for level in (2**k for k in range(p.bit_length())):
        senders = np.arange(level, p, 2 * level)
        counts[senders] += 1
        counts[senders - level] += 1
    return exchange("MPI_Send", its.steps * counts, its.steps * its.size * counts, is_paired=False)


def hypercube(its: Sizes, p: int) -> Rows:
    """An exchange with one more partner for each doubling of p."""
    counts = np.full(p, float((p - 1).bit_length()))
    return exchange(
        "MPI_Sendrecv", its.steps * counts, its.steps * its.size * counts, is_paired=True
    )


def ring(its: Sizes, p: int) -> Rows:
    """A shift to the next rank."""
    counts = np.full(p, float(p > 1))
    return exchange(
        "MPI_Sendrecv", its.steps * counts, its.steps * its.size * counts, is_paired=True
    )


def reduction(its: Sizes, p: int) -> Rows:
    """Two scalar products in each step."""
    values = {"visits": 2.0, "bytes_sent": 16.0, "bytes_received": 16.0}
    calls: dict[str, np.ndarray | float] = {k: its.steps * value for k, value in values.items()}
    return {"MPI_Allreduce": calls | {"comm_ranks": p}}


def rows_of_ranks(its: Sizes, p: int) -> Rows:
    """Reductions within the rows of a grid of ranks."""
    length = even_grid(p, 2)[1]
    calls: dict[str, np.ndarray | float] = {"visits": its.steps, "bytes_received": 8.0 * its.steps}
    return {
        "MPI_Comm_split": {"visits": 1, "comm_ranks": p},
        "MPI_Allreduce": calls | {"comm_ranks": length},
    }


def particles(its: Sizes, p: int) -> Rows:
    """About as many particles in each rank, of which some move to neighbours."""
    rng = np.random.default_rng([*its.seed, p])
    mean = its.cells**2 if its.is_weak else its.cells**2 / p
    moved = 48.0 * rng.poisson(5, p)
    counts = np.full(p, float(min(6, p - 1)))
    calls = exchange("MPI_Isend", its.steps * counts, its.steps * moved, is_paired=False)
    return {**calls, "push": {"visits": its.steps * np.round(mean * rng.normal(1, 0.05, p))}}


def cells(its: Sizes, p: int) -> Rows:
    """Cells without neighbours, in arrays that stay."""
    total = its.cells**2
    mine = (
        np.full(p, float(total)) if its.is_weak else (total // p + (np.arange(p) < total % p)) * 1.0
    )
    return {
        "": {"heap_growth": 8 * mine + 64, "bytes_allocated": 8 * mine},
        "cell": {"visits": mine},
    }


PARTS: tuple[Callable[[Sizes, int], Rows], ...] = (
    *(halo, halo, graph, tree, hypercube, ring),
    *(reduction, rows_of_ranks, particles, cells),
)


class Program:
    """A random program without a limit."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.seed = seed
        self.scales = SCALES[rng.integers(len(SCALES))]
        self.is_crowded = bool(rng.integers(2))
        is_weak, steps = bool(rng.integers(2)), int(rng.choice([5, 20, 100]))
        self.parts = [
            (
                PARTS[rng.integers(len(PARTS))],
                Sizes(
                    seed=(seed, i),
                    is_weak=is_weak,
                    steps=steps,
                    cells=int(rng.choice([10, 16, 32, 50] if is_weak else [48, 64, 100, 120, 200])),
                    n_dimensions=int(rng.integers(1, 4)),
                    is_periodic=bool(rng.integers(2)),
                    has_corners=bool(rng.integers(2)),
                    size=int(rng.choice([8, 800, 8000])),
                ),
            )
            for i in range(rng.integers(2, 6))
        ]

    def measure(self, p: int) -> RunTable:
        """A run of the program."""
        rows: Rows = {"main": {"visits": 1}}
        for i, (part, sizes) in enumerate(self.parts):
            path = f"main->{part.__name__}{i}"
            rows[path] = {"visits": sizes.steps}
            for name, values in part(sizes, p).items():
                at = f"{path}->{name}" if name else path
                rows[at] = rows.get(at, {}) | values
        heaps = [values["heap_growth"] for values in rows.values() if "heap_growth" in values]
        if heaps:
            heap = np.sum([np.broadcast_to(heap, p) for heap in heaps], axis=0)
            rows["main"] |= {"heap_growth": heap + 2e6, "heap_peak": heap + 5e6}
        names = {name for values in rows.values() for name in values}
        arrays = {
            name: np.full((len(rows), p), np.nan) for name in (*names, "time", "time_exclusive")
        }
        noise = np.random.default_rng([self.seed, p])
        for row, (path, values) in enumerate(rows.items()):
            for name, value in values.items():
                arrays[name][row] = value
            price = CELL_S if path.endswith(("cell", "push")) else CALL_S
            own = price * arrays["visits"][row] * noise.normal(1, NOISE, p)
            arrays["time_exclusive"][row] = own
        for row, path in enumerate(rows):
            inside = [at == path or at.startswith(f"{path}->") for at in rows]
            arrays["time"][row] = arrays["time_exclusive"][inside].sum(axis=0)
        metrics = tuple(metric for metric in METRICS if metric.name in arrays)
        return RunTable(tuple(map(CallPath.parse, rows)), metrics, arrays)

    def diagnose(self) -> Diagnosis:
        runs = [(RunKey.of({"p": p}), self.measure(p)) for p in self.scales]
        records = [
            RunRecord(str(key), key, RunState.COMPLETE, configuration=Configuration.of({}))
            for key, _ in runs
        ]
        crowded = {key: 2 for key, _ in runs} if self.is_crowded else {}
        experiment = Experiment(("p",), tuple(runs), crowded)
        return diagnose_experiment(
            experiment, records, ModelSet(), program="app", target={"p": TARGET}
        )

    def may_be_certain(self, statement: Statement) -> bool:
        """Whether a statement is about cells that are shared, and that there are as many."""
        number = re.search(r"[0-9]+", str(statement.callpath))
        if number is None:
            return False
        part, its = self.parts[int(number[0])]
        n_shared = {halo: its.cells, cells: its.cells**2}.get(part, 0)
        is_in_rows = part is cells or its.n_dimensions == 1
        return not its.is_weak and is_in_rows and statement.text.startswith(f"{n_shared:,} ")


def main() -> None:
    """Print a line of JSON: how many programs, of how many something certain is false."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    told, false = Counter[str](), []
    for i in range(options.count):
        program = Program(options.seed + i)
        for entry in program.diagnose().statements:
            told[entry.status] += 1
            if (entry.exact or entry.status == LIMIT) and not program.may_be_certain(entry):
                false.append(f"{program.seed} {program.scales} {entry.callpath}: {entry.text}")
    print(json.dumps({"programs": options.count, "statements": told, "certain_and_false": false}))


if __name__ == "__main__":
    main()
