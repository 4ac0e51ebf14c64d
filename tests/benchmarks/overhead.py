"""What being measured costs a program: pairs of bare and measured runs, alternating.

    python tests/benchmarks/overhead.py [--pairs 10] [--ranks 1] [--modes insitu cProfile]

Two programs: the stencil of examples/, and a fine-grained one that makes some 200,000 Python calls
a second, beside the same program under cProfile. CPU seconds of the program itself, taken around
its main part; the layout of memory is shifted at random before each run, since that alone moves a
program by several percent.
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

FINE = """
import sys, time
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
u = np.ones((66, 66)); v = u.copy()
top, bottom = u[1].copy(), u[-2].copy()
one, sum_ = np.ones(1), np.zeros(1)

def up(): comm.Sendrecv(top, MPI.PROC_NULL, recvbuf=bottom, source=MPI.PROC_NULL)
def down(): comm.Sendrecv(bottom, MPI.PROC_NULL, recvbuf=top, source=MPI.PROC_NULL)
def inner(): v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
def check(): comm.Allreduce(one, sum_)
def step(): up(); down(); inner(); check()

def main(steps):
    for _ in range(steps): step()

main(200)
began = time.process_time()
main(int(sys.argv[1]))
print(time.process_time() - began)
"""
STENCIL = """
import sys, time, importlib.util
spec = importlib.util.spec_from_file_location("stencil2d", {path!r})
stencil = importlib.util.module_from_spec(spec)
sys.modules["stencil2d"] = stencil
spec.loader.exec_module(stencil)
stencil.main(64, 5, 10, is_strong=False, has_rim=False)
began = time.process_time()
stencil.main(64, int(sys.argv[1]), 10, is_strong=False, has_rim=False)
print(time.process_time() - began)
"""


MODES = {
    "insitu": (),
    "no budget": ("--budget", "off"),
    "functions": ("--budget", "off", "--heap", "off"),
    "cProfile": None,
}
FRESH = """
import time
print(time.process_time())
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def main() -> None:
    """Run the pairs and print medians and quartiles of their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10, help="2 or more")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--programs", nargs="+", default=["stencil", "fine"])
    options = parser.parse_args()
    if options.pairs < 2:
        parser.error("--pairs: quartiles need 2 or more")
    with tempfile.TemporaryDirectory() as folder:
        stencil, fine = Path(folder, "stencil.py"), Path(folder, "fine.py")
        stencil.write_text(STENCIL.format(path=str(HERE / "examples" / "stencil2d.py")))
        fine.write_text(FINE)
        title = f"{'program':10s} {'mode':10s} {'median':>8s} {'quartiles':>18s}"
        print(f"{title}  of {options.pairs} pairs")
        for script, steps in ((stencil, 300), (fine, 40_000)):
            for mode in options.modes if script.stem in options.programs else ():
                ratios = [
                    pair(script, steps, mode, options.ranks, folder) for _ in range(options.pairs)
                ]
                low, middle, high = statistics.quantiles(ratios, n=4)
                print(
                    f"{script.stem:10s} {mode:10s} {percent(middle):>8s} "
                    f"{percent(low):>8s} {percent(high):>8s}",
                    flush=True,
                )
        start_up(options.pairs, folder)


def start_up(pairs: int, folder: str) -> None:
    """Print what a rank has spent before its first line: CPU time and memory, measured and bare."""
    environment = rank_environment(parse(["program"]), "0" * 32, folder) | {
        "INSITU_TABLES": folder,
        "INSITU_SINGLE": "1",
    }
    more = []
    for _ in range(pairs):
        fresh = [
            subprocess.check_output([sys.executable, "-c", FRESH], env={**os.environ, **extra})
            for extra in ({}, environment)
        ]
        bare, measured = ([float(word) for word in text.split()] for text in fresh)
        more.append((1000 * (measured[0] - bare[0]), (measured[1] - bare[1]) / 1024))
    cpu_ms, memory = (statistics.median(values) for values in zip(*more, strict=True))
    print(f"start-up   {cpu_ms:.0f} ms CPU, {memory:.1f} MiB more than a bare interpreter")


def percent(ratio: float) -> str:
    """A ratio as what it adds."""
    return f"{(ratio - 1) * 100:+.2f} %"


def pair(script: Path, steps: int, mode: str, ranks: int, folder: str) -> float:
    """CPU time measured over bare, in random order."""
    modes = ["bare", mode]
    random.shuffle(modes)
    took = {name: cpu_s(script, steps, name, ranks, folder) for name in modes}
    return took[mode] / took["bare"]


def cpu_s(script: Path, steps: int, mode: str, ranks: int, folder: str) -> float:
    """CPU seconds that the slowest rank says it took."""
    program = [str(script), str(steps)]
    launch = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(ranks), sys.executable]
    if mode == "bare":
        command = [*launch, *program]
    elif mode == "cProfile":
        command = [*launch, "-m", "cProfile", "-o", os.devnull, *program]
    else:
        command = [
            *(sys.executable, "-m", "insitu.run", "-q", "-n", str(ranks), *MODES[mode]),
            *("--campaign", f"{folder}/overhead.insitu", *program),
        ]
    shift = {"INSITU_LAYOUT": "x" * random.randrange(8192), "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        command, env={**os.environ, **shift}, capture_output=True, text=True, check=True
    )
    return max(float(line) for line in done.stdout.split())


if __name__ == "__main__":
    main()
