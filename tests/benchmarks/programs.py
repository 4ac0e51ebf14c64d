"""Real programs, measured as they are: what it costs them, and the models that come out.

    python tests/benchmarks/programs.py [--programs lammps hpcc ring emcee] [--pairs 3]
                                        [--sizes 1 2 4 8]

LAMMPS and HPCC come from Debian (apt-get install lammps hpcc, with Debian's Open MPI); ring is
mpi4py's own demo; emcee samples with a pool of MPI ranks (pip install emcee schwimmbad). Pairs of
a bare and a measured run give the CPU seconds that the ranks took from start to end, the start of
insitu included, on as few ranks as the program runs on, since a rank that waits burns what the
scheduler leaves it; then one measured run per size gives the models.
"""

import argparse
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
BESIDE = Path(sys.executable).parent

MELT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 ${n} 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 50
run ${steps}
"""
SAMPLER = """
import sys
import numpy as np
import emcee
from schwimmbad import MPIPool

def log_probability(theta):
    return -0.5 * sum(float(x) ** 2 for x in theta)

with MPIPool() as pool:
    if not pool.is_master():
        pool.wait()
        sys.exit(0)
    rng = np.random.default_rng(1)
    sampler = emcee.EnsembleSampler(32, 4, log_probability, pool=pool)
    sampler.run_mcmc(rng.normal(size=(32, 4)), 100)
    print("accepted", sampler.acceptance_fraction.mean() > 0)
"""


@dataclass(frozen=True)
class Program:
    """How to run a program on p ranks."""

    mpiexec: str
    command: tuple[str, ...]
    missing: str = ""
    files: dict[str, str] = field(default_factory=dict)
    smallest: int = 1

    def words(self, ranks: int) -> list[str]:
        return [
            word.replace("{p}", str(ranks)).replace("{5p}", str(5 * ranks)) for word in self.command
        ]


def hpcc_input(ranks: int) -> str:
    """Debian's example with a smaller matrix on a grid of that many ranks."""
    path = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    rows = max(n for n in range(1, ranks + 1) if ranks % n == 0 and n * n <= ranks)
    changed = {5: "400", 10: str(rows), 11: str(ranks // rows)}
    return "\n".join(changed.get(i, line) for i, line in enumerate(lines)) + "\n"


def programs() -> dict[str, Program]:
    """The programs by name, with what is missing on this machine."""
    debian = shutil.which("mpiexec.openmpi") or ""
    no_lammps = "" if debian and shutil.which("lmp") else "apt-get install lammps openmpi-bin"
    no_hpcc = "" if debian and shutil.which("hpcc") else "apt-get install hpcc openmpi-bin"
    no_emcee = "" if importlib.util.find_spec("schwimmbad") else "pip install emcee schwimmbad"
    own = str(BESIDE / "mpiexec")
    lammps = ("lmp", "-in", "in.melt", "-log", "none", "-var", "n", "{5p}", "-var", "steps", "1000")
    ring = (sys.executable, "-m", "mpi4py.bench", "ringtest", "-n", "1024", "-s", "200", "-q")
    return {
        "lammps": Program(debian, lammps, no_lammps, {"in.melt": MELT}),
        "hpcc": Program(debian, ("hpcc",), no_hpcc),
        "ring": Program(own, ring, smallest=2),
        "emcee": Program(own, (sys.executable, "sample.py"), no_emcee, {"sample.py": SAMPLER}, 2),
    }


def environment() -> dict[str, str]:
    """Of launchers: this checkout first, and Open MPI may run as root in a container."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(root if not os.getuid() else {})}


def run(program: Program, ranks: int, folder: Path, *, campaign: str = "") -> float:
    """CPU seconds of all ranks."""
    for name, text in program.files.items():
        (folder / name).write_text(text)
    if program.command == ("hpcc",):
        (folder / "hpccinf.txt").write_text(hpcc_input(ranks))
    timed = ["bash", "-c", 'TIMEFORMAT="CPU %U %S"; time "$@"', "timed", *program.words(ranks)]
    more = ["--oversubscribe"] if "openmpi" in program.mpiexec else []
    command = [program.mpiexec, *more, "-n", str(ranks), *timed]
    if campaign:
        command = [sys.executable, "-m", "insitu.run", "--campaign", campaign, "--", *command]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    found = re.findall(r"CPU ([\d.]+) ([\d.]+)", done.stderr)
    return sum(float(user) + float(system) for user, system in found)


def main() -> None:
    """Print overhead and models of each program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = programs()
    parser.add_argument("--programs", nargs="+", choices=known, default=list(known))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8])
    options = parser.parse_args()
    for name in options.programs:
        program = known[name]
        if program.missing:
            print(f"\n== {name}: not here: {program.missing}")
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            ranks = program.smallest
            scratch = str(folder / "pairs.insitu")
            pairs = [
                (run(program, ranks, folder), run(program, ranks, folder, campaign=scratch))
                for _ in range(options.pairs)
            ]
            bare = statistics.median(one for one, _ in pairs)
            added = statistics.median(two - one for one, two in pairs)
            print(
                f"\n== {name}, {ranks} ranks: {bare:.2f} s of CPU bare, {added:+.2f} s measured "
                f"({100 * added / bare:+.1f} %), {options.pairs} pairs",
                flush=True,
            )
            campaign = str(folder / f"{name}.insitu")
            for size in options.sizes:
                if size >= program.smallest:
                    run(program, size, folder, campaign=campaign)
            subprocess.run(
                [sys.executable, "-m", "insitu", "models", campaign],
                env=environment(),
                check=True,
            )


if __name__ == "__main__":
    main()
