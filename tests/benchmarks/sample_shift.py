"""How far samples shift to the next function where ranks share cores.

    python tests/benchmarks/sample_shift.py [--ranks 1 2 4 8] [--steps 120]

A function of about 4 ms and one of a tenth of it run in turn, with an MPI call after them. Printed
are their seconds, means over the ranks: by the clock of the thread, by the samples of insitu, and
by those of the kernel's task clock (`perf_event_open`) in the same run, where it is allowed.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from insitu.campaign.store import open_store

PROGRAM = Path(__file__).with_suffix(".c")


def measure(program: str, folder: str, ranks: int, steps: int) -> dict[str, tuple[float, ...]]:
    """By function: seconds by the clock, by insitu, and by the task clock (below 0: forbidden)."""
    campaign = f"{folder}/{ranks}.insitu"
    words = [sys.executable, "-m", "insitu.run", "-q", "-n", str(ranks), "--campaign", campaign]
    done = subprocess.run(
        [*words, "--", program, str(steps)], check=True, capture_output=True, text=True
    )
    lines = [line.split()[2:] for line in done.stdout.splitlines() if line.startswith("RANK")]
    with open_store(campaign) as store:
        (record,) = store.runs()
        table = store.table(record.id)
    sampled = {
        path.name: float(table.values["time"][i].mean()) for i, path in enumerate(table.callpaths)
    }
    return {
        name: (
            statistics.mean(float(clock) for found, clock, _ in lines if found == name),
            sampled.get(name, 0.0),
            statistics.mean(float(perf) for found, _, perf in lines if found == name),
        )
        for name in ("take_long", "take_short")
    }


def main() -> None:
    """Print a line per number of ranks and function."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--steps", type=int, default=120)
    options = parser.parse_args()
    compiler = str(Path(sys.executable).parent / "mpicc")

    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/sample_shift"
        subprocess.run([compiler, "-O2", str(PROGRAM), "-o", program], check=True)
        for ranks in options.ranks:
            found = measure(program, folder, ranks, options.steps)
            for name, (clock, insitu, perf) in found.items():
                print(
                    f"p = {ranks}  {name:10s}  clock {clock:.3f} s  insitu {insitu:.3f} s"
                    f"  task clock {perf:.3f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
