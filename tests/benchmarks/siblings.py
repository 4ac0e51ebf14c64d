"""What a timed call costs more where one caller has N distinct functions, for N of 30 to 20,000.

    python tests/benchmarks/siblings.py [--python PYTHON] [--rounds 5]

Each round runs every N in a process of its own, bare and measured in random order, without a
budget, so that nothing is throttled. A process calls every function once before the clock starts,
then at least 200,000 times in blocks; its fastest block counts. The added cost of each N is the
median over the rounds. The aim is a growth of at most 3 from the smallest to the largest N; bare
calls get slower as well, because 20,000 functions do not fit into the caches.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE))

from insitu.run.environment import rank_environment  # noqa: E402
from insitu.run.options import parse  # noqa: E402

COUNTS = (30, 300, 1000, 3000, 10_000, 20_000)
PROGRAM = """
import sys, time
n = int(sys.argv[1])
names = {}
exec(compile("\\n".join(f"def f{i}(x): return x" for i in range(n)), "kernels.py", "exec"), names)
functions = [names[f"f{i}"] for i in range(n)]
calls = max(n, 20_000) // n * n
def drive():
    for _ in range(calls // n):
        for function in functions:
            function(1)
drive()
best = 1e9
for _ in range(10):
    began = time.process_time()
    drive()
    best = min(best, time.process_time() - began)
print(best / calls * 1e9)
"""


def main() -> None:
    """Print a line for each N."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    bare: dict[int, list[float]] = {n: [] for n in COUNTS}
    added: dict[int, list[float]] = {n: [] for n in COUNTS}
    for _ in range(options.rounds):
        for n in random.sample(COUNTS, len(COUNTS)):
            modes = random.sample([False, True], 2)
            took = {is_measured: call_ns(options.python, n, is_measured) for is_measured in modes}
            bare[n].append(took[False])
            added[n].append(took[True] - took[False])

    first = statistics.median(added[COUNTS[0]])
    print(f"{'functions':>9} {'bare ns':>8} {'added ns':>9} {'growth':>7}")
    for n in COUNTS:
        more = statistics.median(added[n])
        print(f"{n:>9} {statistics.median(bare[n]):>8.0f} {more:>9.0f} {more / first:>7.2f}")


def call_ns(python: str, n: int, is_measured: bool) -> float:
    """CPU nanoseconds of a call, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if is_measured:
            environment |= rank_environment(parse(["--budget", "off", "program"]), "0" * 32, folder)
            environment |= {
                "INSITU_TABLES": folder,
                "INSITU_SINGLE": "1",
                "INSITU_AGENT": "off",
            }
        done = subprocess.run(
            [python, "-c", PROGRAM, str(n)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)


if __name__ == "__main__":
    main()
