"""What a region costs that a program marks for another tool: begin and end, in nanoseconds.

    python tests/benchmarks/annotation_cost.py [--rounds 5]

The programs are those of tests/system/test_annotations.py, compiled with `-O2` and started with
insitu and without. Within a process, the fastest of 2,000 blocks of 500 regions counts; printed are
medians over the rounds. A library that is not installed is left out, with its package.
"""

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
PROGRAMS = HERE / "tests" / "system" / "programs"
TOOLS = Path(sys.executable).parent
PETSC = Path("/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real/include")
KOKKOS = Path("/usr/include/trilinos")


def compile_programs(folder: str) -> Iterator[tuple[str, list[str], str]]:
    """Yield the name of each library, the command of its program, and the launcher."""
    mpiexec = str(TOOLS / "mpiexec")
    nvidia = importlib.util.find_spec("nvidia")
    headers = [
        Path(p, "nvtx", "include") for p in (nvidia and nvidia.submodule_search_locations) or []
    ]
    if any(path.is_dir() for path in headers):
        words = [
            str(TOOLS / "mpicc"),
            f"-I{headers[0]}",
            str(PROGRAMS / "nvtx.c"),
            "-ldl",
            "-lpthread",
        ]
        yield "NVTX", [build(words, f"{folder}/nvtx"), "cost"], mpiexec
    else:
        print("no NVTX: pip install nvidia-nvtx-cu12")

    if KOKKOS.is_dir():
        words = [str(TOOLS / "mpicxx"), "-fopenmp", f"-I{KOKKOS}", str(PROGRAMS / "kokkos.cpp")]
        yield (
            "Kokkos",
            [build([*words, "-ltrilinos_kokkoscore"], f"{folder}/kokkos"), "cost"],
            mpiexec,
        )
    else:
        print("no Kokkos: apt-get install libtrilinos-kokkos-dev")

    launcher = shutil.which("mpiexec.openmpi")
    if PETSC.is_dir() and launcher:
        words = ["mpicc.openmpi", f"-I{PETSC}", "-I/usr/share/petsc/3.18/include"]
        words += [str(PROGRAMS / "petsc.c"), "-lpetsc_real"]
        yield "PETSc", [build(words, f"{folder}/petsc"), "-cost"], launcher
    else:
        print("no PETSc: apt-get install libpetsc-real3.18-dev openmpi-bin")


def build(words: list[str], program: str) -> str:
    """Compile and return the program."""
    subprocess.run([*words, "-O2", "-w", "-o", program], check=True)
    return program


def measure(command: list[str]) -> float:
    """The cost that the program prints."""
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return next(float(line.split()[1]) for line in output.splitlines() if line.startswith("COST"))


def main() -> None:
    """Print a line per library."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    if os.getuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    with tempfile.TemporaryDirectory() as folder:
        insitu = [sys.executable, "-m", "insitu.run", "--campaign", f"{folder}/cost.insitu"]
        for name, command, launcher in compile_programs(folder):
            bare = [measure([launcher, "-n", "1", *command]) for _ in range(rounds)]
            run = [*insitu, "--mpiexec", launcher, "-n", "1", "--", *command]
            measured = [measure(run) for _ in range(rounds)]
            print(
                f"{name:7s} without insitu {statistics.median(bare):6.1f} ns,"
                f" with it {statistics.median(measured):6.1f} ns",
                flush=True,
            )


if __name__ == "__main__":
    main()
