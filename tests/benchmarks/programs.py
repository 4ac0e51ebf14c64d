"""Real programs, measured as they are: what it costs them, and the models that come out.

    python tests/benchmarks/programs.py [--programs lammps hpcc ring emcee comd minife cloverleaf]
        [--sources DIR] [--ranks 2] [--pairs 7] [--longer 5] [--sizes 1 2 4 8]

LAMMPS and HPCC come from Debian (apt-get install lammps hpcc, with Debian's Open MPI); ring is
mpi4py's own demo; emcee samples with a pool of MPI ranks (pip install emcee schwimmbad). DIR holds
checkouts of three programs that are compiled here with both MPIs: CoMD in C (github.com/ECP-copa),
miniFE in C++ (github.com/Mantevo) and CloverLeaf_ref in Fortran (github.com/UK-MAC; with Debian's
mpif90.mpich and mpif90.openmpi).

Pairs of a bare and a measured run, in turns, give what a run takes more, its start included: wall
time of the slowest rank and CPU time of all, medians with quartiles. Wall time says something with
as many idle cores as ranks only, and the CPU time of ranks that wait is what the scheduler leaves
them. --longer N makes the compiled programs run N times as long, so that the start of a run tells
less. --sizes gives one more measured run per number of ranks, and the models of these.
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


CLOVER = """*clover
 state 1 density=0.2 energy 1.0
 state 2 density=1.0 energy=2.5 geometry=rectangle xmin=0.0 xmax=5.0 ymin=0.0 ymax=2.0
 x_cells=256
 y_cells=256
 xmin=0.0
 ymin=0.0
 xmax=10.0
 ymax=10.0
 initial_timestep=0.04
 timestep_rise=1.5
 max_timestep=0.04
 end_step={200t}
*endclover
"""


@dataclass(frozen=True)
class Program:
    """How to run a program on p ranks."""

    mpiexec: str
    command: tuple[str, ...]
    missing: str = ""
    files: dict[str, str] = field(default_factory=dict)
    smallest: int = 1

    longer: int = 1

    def filled(self, text: str, ranks: int) -> str:
        """Multiples of the number of ranks where it says {p} or {5p}, of `longer` for {5t}."""
        factors = {"p": ranks, "t": self.longer}
        return re.sub(
            r"\{(\d*)([pt])\}", lambda found: str(int(found[1] or 1) * factors[found[2]]), text
        )


@dataclass(frozen=True)
class Source:
    """A program that is compiled here: where, by which command, and what comes out."""

    folder: str
    make: str
    result: str
    command: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    is_fortran: bool = False


SOURCES = {
    "comd": Source(
        "CoMD/src-mpi",
        "cp Makefile.vanilla Makefile && make CC={cc} OPTFLAGS=-O2 OTHER_LIB={rpath}",
        "../bin/CoMD-mpi",
        (
            *("-x", "{12p}", "-y", "12", "-z", "12", "-i", "{p}", "-j", "1", "-k", "1"),
            *("-N", "{200t}", "-n", "20"),
        ),
    ),
    "minife": Source(
        "miniFE/ref/src",
        "make CXX={cxx} CC={cc} CFLAGS=-O2 LDFLAGS={rpath}",
        "miniFE.x",
        ("-nx", "{40p}", "-ny", "40", "-nz", "{40t}"),
    ),
    "cloverleaf": Source(
        "CloverLeaf_ref",
        "make MPI_COMPILER={f90} C_MPI_COMPILER={cc} OPTIONS='-O2 -fallow-argument-mismatch'",
        "clover_leaf",
        (),
        {"clover.in": CLOVER},
        is_fortran=True,
    ),
}


def compilers(mpi: str, source: Source) -> tuple[dict[str, str], str]:
    """The compilers of an MPI, and its launcher; for Fortran Debian's, the wheels have none."""
    if source.is_fortran:
        names = {"cc": f"mpicc.{mpi}", "f90": f"mpif90.{mpi}"}
        return names, shutil.which(f"mpiexec.{mpi}") or ""
    bin_ = BESIDE if mpi == "mpich" else HERE / ".venv" / "openmpi" / "bin"
    rpath = f"-Wl,-rpath,{bin_.parent / 'lib'}" if mpi == "openmpi" else ""
    return {"cc": f"{bin_}/mpicc", "cxx": f"{bin_}/mpicxx", "rpath": rpath}, f"{bin_}/mpiexec"


def compiled(name: str, mpi: str, sources: Path | None, folder: Path, longer: int) -> Program:
    """The program, made from its source with this MPI in a folder of its own."""
    source = SOURCES[name]
    names, mpiexec = compilers(mpi, source)
    checkout = source.folder.partition("/")[0]
    if sources is None or not (sources / checkout).is_dir():
        return Program("", (), f"--sources DIR with a checkout of {checkout}")
    missing = [word for word in (names["cc"], names.get("f90", "make")) if not shutil.which(word)]
    if missing or not mpiexec:
        return Program("", (), f"no {' '.join(missing)}: apt-get install gfortran lib{mpi}-dev")
    place = folder / f"{name}-{mpi}"
    shutil.copytree(sources / checkout, place / checkout)
    made = subprocess.run(
        source.make.format(**names),
        shell=True,
        cwd=place / source.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    result = (place / source.folder / source.result).resolve()
    if not result.exists():
        raise SystemExit(f"{name} with {mpi}:\n{made.stdout[-1000:]}{made.stderr[-2000:]}")
    return Program(mpiexec, (str(result), *source.command), files=source.files, longer=longer)


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


def run(program: Program, ranks: int, folder: Path, *, campaign: str = "") -> tuple[float, float]:
    """Wall seconds of the slowest rank, CPU seconds of all."""
    for name, text in program.files.items():
        (folder / name).write_text(program.filled(text, ranks))
    if program.command == ("hpcc",):
        (folder / "hpccinf.txt").write_text(hpcc_input(ranks))
    words = [program.filled(word, ranks) for word in program.command]
    timed = ["bash", "-c", 'TIMEFORMAT="TOOK %R %U %S"; time "$@"', "timed", *words]
    more = ["--oversubscribe"] if "openmpi" in program.mpiexec else []
    command = [program.mpiexec, *more, "-n", str(ranks), *timed]
    if campaign:
        command = [sys.executable, "-m", "insitu.run", "--campaign", campaign, "--", *command]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    found = re.findall(r"TOOK ([\d.]+) ([\d.]+) ([\d.]+)", done.stderr)
    took = [(float(wall), float(user) + float(system)) for wall, user, system in found]
    return max(wall for wall, _ in took), sum(cpu for _, cpu in took)


def said(name: str, pairs: list[tuple[tuple[float, float], tuple[float, float]]]) -> str:
    """A line of the table: what bare runs take, and what measured ones take more."""
    line = f"| {name} "
    for i in (0, 1):
        bare = statistics.median(one[i] for one, _ in pairs)
        added = [100 * (two[i] - one[i]) / one[i] for one, two in pairs]
        low, middle, high = statistics.quantiles(added, n=4) if len(added) > 1 else added * 3
        line += f"| {bare:.2f} | {middle:+.1f} ({low:+.1f} to {high:+.1f}) "
    return line + "|"


def measured(name: str, program: Program, options: argparse.Namespace, folder: Path) -> str:
    """Its line of the table, its models on the way."""
    ranks = max(options.ranks, program.smallest)
    place = folder / f"runs of {name}"
    place.mkdir()
    scratch = str(place / "pairs.insitu")
    if options.pairs:
        run(program, ranks, place)  # what is read for the first time comes from disk
    pairs = [
        (run(program, ranks, place), run(program, ranks, place, campaign=scratch))
        for _ in range(options.pairs)
    ]
    campaign = str(place / "models.insitu")
    sizes = [size for size in options.sizes if size >= program.smallest]
    for size in sizes:
        run(program, size, place, campaign=campaign)
    if sizes:
        print(f"\n== {name}", flush=True)
        subprocess.run(
            [sys.executable, "-m", "insitu", "models", campaign], env=environment(), check=True
        )
    return said(f"{name}, {ranks} ranks", pairs) if pairs else ""


def main() -> None:
    """Print models and the overhead of each program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = programs()
    parser.add_argument("--programs", nargs="+", choices=[*known, *SOURCES])
    parser.add_argument("--sources", type=Path, help="the folder of the checkouts")
    parser.add_argument("--ranks", type=int, default=2, help="of the pairs; at most the idle cores")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--longer", type=int, default=1, help="times; of compiled programs")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="one run each for models")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = {key: known[key] for key in options.programs or known if key in known}
        for key in options.programs or SOURCES:
            for mpi in ("mpich", "openmpi") if key in SOURCES else ():
                chosen[f"{key}, {mpi}"] = compiled(
                    key, mpi, options.sources, folder, options.longer
                )
        for key, program in chosen.items():
            if program.missing:
                print(f"{key} is not here: {program.missing}", flush=True)
            elif line := measured(key, program, options, folder):
                lines.append(line)
                print(line, flush=True)
    print("\n| program | wall s, bare | added % | CPU s of all ranks | added % |")
    print("\n".join(["| --- | --- | --- | --- | --- |", *lines]))


if __name__ == "__main__":
    main()
