"""What measuring GPUs costs the program, beside Nsight Systems.

    python tests/benchmarks/gpu_cost.py [--rounds N] [--steps N] [--work MICROSECONDS]

Starts tests/system/programs/gpu_steps.cu alone, measured, measured without its GPU, and under
`nsys`, in turn. A step launches two kernels and works some microseconds on the host, so a program
with 100 us has about 20,000 kernels per second. Prints the time of the steps, without the first
tenth, as a ratio to the program alone, median and quartiles, and what a kernel costs.
Needs a GPU, nvcc, and the MPI beside this Python.
"""

import argparse
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
PROGRAM = HERE / "tests" / "system" / "programs" / "gpu_steps.cu"
LONGEST_S = 20.0  # of one start
NSYS = "opt/nvidia/nsight-*/*/host/*/nsys"


def compile_program(folder: Path) -> Path:
    """The program, with the MPI beside this Python."""
    mpi = Path(sys.executable).absolute().parents[1]
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    words = [nvcc, "-O2", "-arch=native", f"-I{mpi}/include", f"-L{mpi}/lib", "-lmpi"]
    words += ["-Xlinker", f"-rpath={mpi}/lib"]
    subprocess.run([*words, "-o", folder / "gpu_steps", PROGRAM], check=True)
    return folder / "gpu_steps"


def starts(folder: Path) -> dict[str, list[str]]:
    """How each variant starts the program."""
    insitu = [sys.executable, "-m", "insitu.run", "-q", "--campaign", str(folder / "gpu.insitu")]
    variants = {"alone": [], "insitu": insitu, "insitu --gpu off": [*insitu, "--gpu", "off"]}
    found = shutil.which("nsys") or next(map(str, Path("/").glob(NSYS)), "")
    if found:
        words = [found, "profile", "--trace=cuda", "--sample=none", "--cpuctxsw=none"]
        variants["nsys"] = [*words, "--force-overwrite=true", f"--output={folder}/nsys"]
    return variants


def measure(words: list[str], folder: Path) -> float:
    """Seconds of the steps; nan if the program did not end in time."""
    named = {"PYTHONPATH": str(HERE), "INSITU_TABLES": str(folder / "tables")}
    environment = {**os.environ, **named}
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return math.nan
    found = re.search(r"elapsed (\S+)", done.stdout)
    return float(found[1]) if found else math.nan


def main(arguments: list[str]) -> int:
    """Measure and print; 2 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--work", type=int, default=100)
    options = parser.parse_args(arguments)
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        print("there is no GPU of NVIDIA")
        return 2

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tables").mkdir()
        program = compile_program(folder)
        variants = starts(folder)
        times: dict[str, list[float]] = {variant: [] for variant in variants}
        for _ in range(options.rounds):
            for variant, words in list(variants.items()):
                words = [*words, str(program), str(options.steps), "0", str(options.work)]
                times[variant].append(measure(words, folder))
                if math.isnan(times[variant][-1]):
                    print(f"{variant}: no result within {LONGEST_S:.0f} s")
                    del variants[variant], times[variant]

    alone = statistics.median(times["alone"])
    kernels = 2 * (options.steps - options.steps // 10)
    rate = kernels / alone
    print(f"{kernels} kernels in {alone:.3f} s, {rate:,.0f} per second")
    for variant, seconds in times.items():
        ratios = [s / a for s, a in zip(seconds, times["alone"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        cost_ns = (statistics.median(seconds) - alone) / kernels * 1e9
        print(f"{variant:18} {middle:.4f} ({low:.4f} to {high:.4f}), {cost_ns:+.0f} ns per kernel")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
