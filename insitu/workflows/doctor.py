"""Checking what works on this machine, and what to do about the rest."""

import ctypes
import errno
import importlib.util
import os
import shutil
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise

from insitu.errors import LaunchError
from insitu.extras import EXTRAS, install_command, missing_packages
from insitu.units import quantity

OK, MISSING, LIMITED, OPTIONAL = "ok", "missing", "limited", "optional"
ENOUGH_SHARED_BYTES = 64 << 20  # tables of 4,000 call paths on a hundred ranks
VERSION_TIMEOUT_S = 20
SERVICES = {"serve": "aggregator", "relay": "relay"}  # by subcommand
AGENT = "insitu.collectors.agent"
SHOWN_PARTITIONS = 6
SHOWN_STOPPED = 5  # process ids


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that insitu uses.

    Attributes:
        name: of the thing.
        state: OK, MISSING, LIMITED or OPTIONAL.
        found: what was found, such as a version and a path.
        advice: what to do if it does not work fully.
    """

    name: str
    state: str
    found: str
    advice: str = ""


def check_machine() -> list[Check]:
    """Check everything that insitu uses on this machine."""
    return [*(check() for check in CHECKS), *map(_extra, EXTRAS)]


def _extra(name: str) -> Check:
    """Check whether the packages of an extra are installed."""
    missing = missing_packages(name)
    title, purpose = f"extra {name}", EXTRAS[name]
    if not missing:
        return Check(title, OK, purpose)
    found = f"{', '.join(missing)} not installed: {purpose}"
    return Check(title, OPTIONAL, found, install_command(name))


def python() -> Check:
    """Check which hook the interpreter offers."""
    version = "{}.{}.{}".format(*sys.version_info[:3])
    hook = "sys.monitoring" if sys.version_info >= (3, 12) else "frame evaluation"
    return Check("Python", OK, f"{version} ({hook}) at {sys.executable}")


def compiler() -> Check:
    """Check for a C compiler, which only the installation needs."""
    preferred = os.environ.get("CC", "").split(" ")[0]
    for name in filter(None, (preferred, "cc", "gcc", "clang")):
        path = shutil.which(name)
        if path:
            return Check("C compiler", OK, _first_line([path, "--version"]) or path)
    return Check(
        "C compiler", MISSING, "no cc, gcc or clang", "apt install gcc libc6-dev, or load a module"
    )


def native() -> Check:
    """Check the native library of the collectors."""
    from insitu.collectors import library, library_layout

    path, reason = library.find(), library.why_unusable()
    if path and not library_layout.is_current(path):
        text = f"{path} was built from the sources of another insitu"
        return Check("native library", MISSING, text, "build it again: install insitu again")
    if path and not reason:
        return Check("native library", OK, path)

    return Check(
        "native library",
        LIMITED,
        reason or "not built",
        "Python programs are timed by a hook written in Python, which costs several times as much,"
        " and without their MPI calls; "
        + (
            "compiled programs are measured in full"
            if path
            else "install insitu again with a C compiler"
        ),
    )


def preload() -> Check:
    """Check whether LD_PRELOAD has an effect."""
    from insitu.collectors import library

    path = library.find()
    if not path:
        return Check("preload", MISSING, "no native library", "see native library")

    completed = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "print(open('/proc/self/maps').read())"],
        env=os.environ | {"LD_PRELOAD": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if os.path.basename(path) in completed.stdout and completed.returncode == 0:
        return Check("preload", OK, "LD_PRELOAD reaches programs")
    return Check(
        "preload",
        MISSING,
        "LD_PRELOAD has no effect",
        "compiled programs cannot be measured",
    )


def mpi() -> Check:
    """Check for a launcher of MPI programs."""
    from insitu.launch.find import family_of, find_mpiexec

    path = find_mpiexec()
    if not path:
        return Check(
            "MPI", MISSING, "no mpiexec", f"{install_command('mpich')}, or load an MPI module"
        )
    try:
        family = {"openmpi": "Open MPI", "mpich": "MPICH"}.get(family_of(path), "unknown")
    except LaunchError as error:
        return Check("MPI", MISSING, str(error), "load the module of this MPI")

    version = _version_in(_output([path, "--version"]))
    return Check("MPI", OK, f"{family} {version} at {path}".replace("  ", " "))


def bindings() -> Check:
    """Check for mpi4py."""
    if importlib.util.find_spec("mpi4py") is None:
        return Check(
            "mpi4py",
            MISSING,
            "not installed",
            f"{install_command('mpi')}, for Python programs",
        )
    return Check("mpi4py", OK, metadata.version("mpi4py"))


def slurm() -> Check:
    """Check whether campaigns can submit jobs to Slurm, the batch system with its own launcher."""
    program = shutil.which("sbatch")
    if program is None:
        others = 'campaigns run with launcher = "mpiexec", or psij:pbs, psij:lsf, psij:flux'
        return Check("Slurm", OPTIONAL, f"no sbatch: {others}")
    version = f"{_version_in(_output([program, '--version']))} at {program}".strip()
    partitions = _output_if_done(["sinfo", "--noheader", "--format", "%P %a %D"])
    if partitions is None:
        advice = "log in to a node of the cluster, or load the module of Slurm"
        return Check("Slurm", LIMITED, f"{version}: the controller does not answer", advice)
    rows = [line.split() for line in partitions.splitlines()]
    up = [f"{name.rstrip('*')} ({nodes} nodes)" for name, state, nodes in rows if state == "up"]
    listed = ", ".join(up[:SHOWN_PARTITIONS]) + (", …" if len(up) > SHOWN_PARTITIONS else "")
    return Check("Slurm", OK, f"{version}; partitions: {listed or 'none is up'}")


def tables() -> Check:
    """Check the room for the tables of ranks."""
    from insitu.collectors import table_directory

    shared = "/dev/shm"
    if not os.access(shared, os.W_OK):
        others = ", ".join(table_directory.base_directories())
        return Check("/dev/shm", LIMITED, "cannot be written", f"insitu uses {others} instead")

    status = os.statvfs(shared)
    free = status.f_bavail * status.f_frsize
    size = f"{quantity(float(free), 'B')} free"
    if free < ENOUGH_SHARED_BYTES:
        advice = "free some space, or name another directory with INSITU_TABLES"
        return Check("/dev/shm", LIMITED, size, advice)
    return Check("/dev/shm", OK, size)


def memory() -> Check:
    """Check whether the proportional memory (PSS) of a rank can be read."""
    path = "/proc/self/smaps_rollup"
    try:
        with open(path, encoding="ascii") as file:
            file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        return Check("memory", LIMITED, f"{path}: {reason}", "insitu measures RSS only, not PSS")
    return Check("memory", OK, "PSS and RSS can be read")


def counters() -> Check:
    """Check whether the instructions of ranks can be counted."""
    level = _read("/proc/sys/kernel/perf_event_paranoid") or "unknown"
    reason = _open_event(HARDWARE_INSTRUCTIONS)
    if not reason:
        return Check("counters", OK, f"instructions can be counted, perf_event_paranoid is {level}")
    return Check(
        "counters", LIMITED, f"no instructions: {os.strerror(reason)}", _advise_on_event(reason)
    )


def task_clock() -> Check:
    """Check whether samples are taken when they are due, also where ranks share cores."""
    reason = _open_event(TASK_CLOCK)
    if not reason:
        return Check(
            "task clock", OK, "samples are taken when they are due, also where ranks share cores"
        )
    return Check(
        "task clock",
        LIMITED,
        "where ranks share cores, samples may be in the function that runs next:"
        f" {os.strerror(reason)}",
        _advise_on_event(reason),
    )


PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}  # the number of the system call
HARDWARE_INSTRUCTIONS = struct.pack("<IIQ", 0, 112, 1)  # type, size of the structure, config
TASK_CLOCK = struct.pack("<IIQ", 1, 112, 1)
USER_ONLY = 1 << 5 | 1 << 6  # exclude the kernel and the hypervisor


def _advise_on_event(reason: int) -> str:
    return {
        errno.EACCES: "sysctl kernel.perf_event_paranoid=2, as root",
        errno.EPERM: "sysctl kernel.perf_event_paranoid=2, as root; a container may forbid it",
        errno.ENOENT: "this machine has no hardware counters, as many virtual ones",
    }.get(reason, "the kernel has no performance events, or the container forbids them")


def _open_event(event: bytes) -> int:
    """Open a performance event of this process; return 0, or the errno if that fails."""
    number = PERF_EVENT_OPEN.get(os.uname().machine)
    if number is None:
        return errno.ENOSYS

    attributes = event + bytes(24) + struct.pack("<Q", USER_ONLY)
    attributes = attributes.ljust(112, b"\0")
    library = ctypes.CDLL(None, use_errno=True)
    counter = library.syscall(number, attributes, 0, -1, -1, 0)
    if counter < 0:
        return ctypes.get_errno()
    os.close(counter)
    return 0


def clock() -> Check:
    """Check which clock the kernel uses."""
    path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    source = _read(path) or "unknown"
    if source == "tsc" or os.uname().machine == "aarch64":
        return Check("clock", OK, f"{source}, read without a system call")
    return Check(
        "clock",
        LIMITED,
        source,
        "reading it is a system call: timing costs more",
    )


def processes() -> Check:
    """Check whether an aggregator, relay or agent of this user is stopped: runs wait for it."""
    import psutil  # slow to import: 27 ms, which `insitu run` and agents must not pay

    running: Counter[str] = Counter()
    stopped: list[tuple[str, int]] = []
    for process in psutil.process_iter(["pid", "status", "cmdline", "uids"]):
        facts = process.info
        role = _role(facts["cmdline"] or [])
        if not role or facts["uids"] is None or facts["uids"].real != os.getuid():
            continue
        running[role] += 1
        if facts["status"] == psutil.STATUS_STOPPED:
            stopped.append((role, facts["pid"]))

    if stopped:
        names = ", ".join(f"{role} {pid}" for role, pid in stopped[:SHOWN_STOPPED])
        pids = " ".join(str(pid) for _, pid in stopped[:SHOWN_STOPPED])
        return Check("processes", LIMITED, f"stopped: {names}", f"kill -CONT {pids}")
    counts = [f"{n} {role}{'s' * (n != 1)}" for role, n in sorted(running.items())]
    return Check("processes", OK, ", ".join(counts) or "no aggregator, relay or agent runs")


def _role(command: Sequence[str]) -> str:
    """What a command line starts: an aggregator, a relay or an agent; "" for anything else."""
    for program, subcommand in pairwise(command):
        if os.path.basename(program) == "insitu" and subcommand in SERVICES:
            return SERVICES[subcommand]
    is_agent = len(command) > 2 and command[1] == "-c" and AGENT in command[2]
    return "agent" if is_agent else ""


def _read(path: str) -> str:
    """Return the content of a kernel file; empty if it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _output(argv: list[str]) -> str:
    completed = _run(argv)
    return completed.stdout + completed.stderr if completed else ""


def _output_if_done(argv: list[str]) -> str | None:
    """What a command prints, None if it fails, does not end, or does not exist."""
    completed = _run(argv)
    return completed.stdout if completed and completed.returncode == 0 else None


def _run(argv: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _first_line(argv: list[str]) -> str:
    return _output(argv).strip().partition("\n")[0]


def _version_in(text: str) -> str:
    words = text.replace("(", " ").replace(")", " ").split()
    return next((word for word in words if word[0].isdigit() and "." in word), "")


CHECKS: tuple[Callable[[], Check], ...] = (
    python,
    compiler,
    native,
    preload,
    mpi,
    bindings,
    slurm,
    tables,
    memory,
    counters,
    task_clock,
    clock,
    processes,
)
