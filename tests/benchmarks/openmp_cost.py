"""What an empty parallel region of OpenMP costs, with insitu and without.

    python tests/benchmarks/openmp_cost.py [--rounds 5]

The program is compiled with gcc (libgomp) and clang (libomp), and executed with 1 and 2 threads.
Within a process, the fastest of 400 blocks of 500 regions counts; printed are medians over the
rounds, in nanoseconds. Rounds alternate, so that the load of the machine concerns both alike.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
PROGRAM = HERE / "tests" / "system" / "programs" / "openmp.c"


def measure(command: list[str], threads: int) -> float:
    """The cost of a region."""
    words = [*command, "cost", str(threads)]
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    line = next(line for line in output.splitlines() if line.startswith("COST"))
    return float(line.split()[1])


def main() -> None:
    """Print a line per compiler and number of threads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    tools = Path(sys.executable).parent

    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/openmp"
        run = [sys.executable, "-m", "insitu.run", "-n", "1", "--campaign", f"{folder}/cost.insitu"]
        bare, measured = [str(tools / "mpiexec"), "-n", "1", program], [*run, "--", program]
        for compiler in ("gcc", "clang"):
            words = [str(tools / "mpicc"), "-O2", "-w", "-fopenmp", str(PROGRAM), "-o", program]
            environment = {**os.environ, "MPICH_CC": compiler}
            subprocess.run([*words, "-lpthread"], check=True, env=environment)
            for threads in (1, 2):
                pairs = [
                    (measure(bare, threads), measure(measured, threads)) for _ in range(rounds)
                ]
                without = statistics.median(pair[0] for pair in pairs)
                more = statistics.median(pair[1] - pair[0] for pair in pairs)
                print(
                    f"{compiler:5s} {threads} threads {without:7.1f} ns,"
                    f" with insitu {more:+7.1f} ns",
                    flush=True,
                )


if __name__ == "__main__":
    main()
