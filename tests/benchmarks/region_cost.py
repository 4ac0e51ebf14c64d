"""What begin and end of a region cost in a compiled program.

    python tests/benchmarks/region_cost.py [--rounds 5]

The program is compiled with `-O2` and started with insitu, which reads its call path from the
stack, and without. Within a process, the fastest of 2,000 blocks of 500 regions counts; printed
are medians over the rounds, in nanoseconds, for stacks of 3 functions and of more.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
PROGRAM = HERE / "tests" / "system" / "programs" / "regions.c"
FUNCTIONS = (3, 13, 23)  # on the stack
LEAST = FUNCTIONS[0]


def measure(command: list[str], functions: int) -> tuple[float, float]:
    """The cost of a region alone, and of one of two that are nested."""
    words = [*command, "cost", str(functions - LEAST)]
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    line = next(line for line in output.splitlines() if line.startswith("COST"))
    alone, nested = map(float, line.split()[1:])
    return alone, nested


def main() -> None:
    """Print a line per depth of the stack."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    tools = Path(sys.executable).parent

    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/regions"
        include = ["-I", str(HERE / "collectors")]
        compiler = [str(tools / "mpicc"), "-O2", "-w", *include]
        subprocess.run([*compiler, str(PROGRAM), "-o", program, "-lpthread"], check=True)
        run = [sys.executable, "-m", "insitu.run", "-n", "1", "--campaign", f"{folder}/cost.insitu"]
        commands = {
            "with insitu": [*run, "--", program],
            "without": [str(tools / "mpiexec"), "-n", "1", program],
        }
        for functions in FUNCTIONS:
            for name, command in commands.items():
                costs = [measure(command, functions) for _ in range(rounds)]
                alone = statistics.median(cost for cost, _ in costs)
                nested = statistics.median(cost for _, cost in costs)
                print(
                    f"{functions:3d} functions  {name:12s} {alone:6.1f} ns alone"
                    f" {nested:6.1f} ns nested",
                    flush=True,
                )


if __name__ == "__main__":
    main()
