"""Diagnoses of programs of which one quantity follows a known law, for a reference file.

    python -m tests.analysis.atlas      writes a new reference file; check it with `git diff`

Each entry names what grows, by which law, on which ranks and scales; below it stands what a
diagnosis says of that function, a line for each statement. None may contradict the name.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from insitu.analysis.diagnosis.rows import statement_row
from tests.analysis.diagnoses import REFERENCES, without_empty
from tests.analysis.programs import Plan, Vector, diagnose

REFERENCE = REFERENCES / "atlas.json"
TARGET = {"p": 4096.0}
LAWS: Mapping[str, Callable[[int], float]] = {
    "400": lambda p: 400,
    "40 p": lambda p: 40 * p,
    "40 (p - 1)": lambda p: 40 * (p - 1),
    "p": lambda p: p,
    "40 p + 600": lambda p: 40 * p + 600,
    "3 p^2": lambda p: 3 * p**2,
    "40 p log2(p)": lambda p: 40 * p * np.log2(p),
    "100 log2(p)": lambda p: 100 * np.log2(p),
    "p^(1/2), rounded": lambda p: round(100 * p**0.5),
    "p^1.3, rounded": lambda p: round(40 * p**1.3),
    "40 p, and more by chance": lambda p: 40 * p + 7 * (p * p % 5),
    "40 min(p, 4)": lambda p: 40 * min(p, 4),
    "2400 / p": lambda p: 2400 / p,
    "40 p from 8 ranks on, else none": lambda p: 40 * p * (p >= 8),
    "40 p from 8 ranks on, else 40": lambda p: 40 * (p if p >= 8 else 1),
}
RANKS: Mapping[str, Callable[[int], np.ndarray]] = {
    "all ranks": np.ones,
    "rank 0": lambda p: (np.arange(p) == 0) * 1.0,
    "the last rank": lambda p: (np.arange(p) == p - 1) * 1.0,
    "the middle rank": lambda p: (np.arange(p) == p // 2) * 1.0,
    "half of the ranks": lambda p: (np.arange(p) < p / 2) * 1.0,
    "rank 0 four times as much as all others": lambda p: 1.0 + 3 * (np.arange(p) == 0),
    "all ranks, rising from the first to the last": lambda p: np.arange(p) / max(p - 1, 1),
}
SCALES = (
    *((2, 3, 4, 6, 8, 12), (1, 2, 4, 8, 16), (4, 8, 16, 32, 64), (3, 5, 7, 9), (2, 4, 8), (4, 8)),
    (8,),
)
FUNCTION = "app->main->work"


def calls(name: str, *metrics: tuple[str, float]) -> Callable[[Vector], Plan]:
    """A function that makes calls, with so much of each metric in each."""

    def plan(count: Vector) -> Plan:
        call: dict[str, Vector] = {
            metric: lambda p, each=each: each * np.asarray(count(p)) for metric, each in metrics
        }
        if name.startswith("MPI_") and "messages" not in metrics[0][0]:
            call["comm_ranks"] = lambda p: np.asarray(count(p)) * p
        own: dict[str, Vector] = {"visits": lambda p: 10, "time_exclusive": lambda p: 0.2}
        return {FUNCTION: own, f"{FUNCTION}->{name}": call}

    return plan


def own(metric: str, each: float, **more: float) -> Callable[[Vector], Plan]:
    """A function that has so much of a metric itself, and constants of others."""

    def plan(count: Vector) -> Plan:
        values: dict[str, Vector] = {metric: lambda p: each * np.asarray(count(p))}
        for name, value in more.items():
            values[name] = lambda p, value=value: value
        return {FUNCTION: values}

    return plan


def visits(seconds: float) -> Callable[[Vector], Plan]:
    """A function that is visited, for so many seconds each time."""
    return lambda count: {
        FUNCTION: {"visits": count, "time_exclusive": lambda p: seconds * np.asarray(count(p))}
    }


QUANTITIES: Mapping[str, Callable[[Vector], Plan]] = {
    "visits of 1 us": visits(1e-6),
    "visits of 1 ms": visits(1e-3),
    "sends of 1 kB": calls("MPI_Isend", ("messages_sent", 1.0), ("bytes_sent", 1000.0)),
    "receives of 100 kB": calls("MPI_Recv", ("messages_received", 1.0), ("bytes_received", 1e5)),
    "calls of MPI_Bcast": calls("MPI_Bcast", ("visits", 1.0)),
    "bytes of MPI_Allgather": calls("MPI_Allgather", ("bytes_received", 1e4), ("bytes_sent", 1e2)),
    "bytes held": own("heap_growth", 1e5, visits=1, allocations=3),
    "bytes allocated": own("bytes_allocated", 1e6, visits=10, allocations=30),
    "files opened": calls("fopen", ("files_opened", 1.0), ("visits", 1.0)),
    "files of its own": calls("fopen", ("files_own", 1.0), ("files_opened", 1.0)),
    "seconds of ten visits": own("time_exclusive", 1e-3, visits=10),
    "seconds of samples": own("time_exclusive", 1e-2),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A program: what follows a law, on which ranks and scales, and whether ranks lack cores."""

    quantity: str
    law: str
    ranks: str
    scales: tuple[int, ...]
    is_crowded: bool

    @property
    def name(self) -> str:
        """All of it, for people."""
        cores = "shared cores" if self.is_crowded else "free cores"
        scales = ", ".join(map(str, self.scales))
        return f"{self.quantity}: {self.law}, on {self.ranks}; p = {scales}; {cores}"

    def describe(self) -> list[dict[str, object]]:
        """What a diagnosis says of the function."""

        def count(p: int) -> np.ndarray:
            return np.round(LAWS[self.law](p) * RANKS[self.ranks](p), 6)

        diagnosis = diagnose(
            QUANTITIES[self.quantity](count),
            self.scales,
            crowded=self.is_crowded,
            target=TARGET,
            sampling_s=1e-2 if "samples" in self.quantity else 0.0,
            sites={FUNCTION: ("/app/work.c", 21), "app->main": ("/app/work.c", 5)},
        )
        about = [
            entry
            for entry in diagnosis.all_statements()
            if "work" in (entry.callpath or "") or " work" in entry.text
        ]
        rows: list[dict[str, object]] = [{"verdict": diagnosis.verdict}]
        for statement in about:
            row = without_empty(statement_row(0, statement))
            for key in ("callpath", "metric", "unit"):
                row.pop(key, None)
            rows.append({name: value for name, value in row.items() if value is not False})
        return rows


def list_entries() -> Iterator[Entry]:
    """All programs: each law, each group of ranks and each list of scales with each quantity."""
    usual = SCALES[0]
    for quantity in QUANTITIES:
        for law in LAWS:
            yield Entry(quantity, law, "all ranks", usual, is_crowded=False)
        for ranks in list(RANKS)[1:]:
            yield Entry(quantity, "40 p", ranks, usual, is_crowded=True)
            if ranks in ("rank 0", "half of the ranks"):
                yield Entry(quantity, "p^1.3, rounded", ranks, usual, is_crowded=True)
        for i, scales in enumerate(SCALES[1:]):
            yield Entry(quantity, "40 (p - 1)", "all ranks", scales, is_crowded=False)
            if i % 2 == 0:
                yield Entry(quantity, "40 p", "rank 0", scales, is_crowded=True)


def describe_quantity(quantity: str) -> dict[str, list[dict[str, object]]]:
    """What is said of each program with a quantity, by its name."""
    entries = (entry for entry in list_entries() if entry.quantity == quantity)
    return {entry.name: entry.describe() for entry in entries}


def main() -> None:
    """Write the reference file, with a line for each statement."""
    lines = []
    for entry in list_entries():
        name, rows = entry.name, entry.describe()
        listed = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
        lines.append(f"{json.dumps(name)}: [" + (f"\n  {listed}" if rows else "") + "]")
    REFERENCE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
