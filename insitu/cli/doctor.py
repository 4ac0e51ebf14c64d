"""`insitu doctor`: what works on this machine."""

import ctypes
import errno
import importlib.util
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata

import click

from insitu.cli.output import json_option, print_json
from insitu.errors import LaunchError
from insitu.text import printable
from insitu.units import quantity

OK, MISSING, LIMITED = "ok", "missing", "limited"
COLOURS = {OK: "green", MISSING: "red", LIMITED: "yellow"}
ENOUGH_SHARED = 64 << 20  # bytes: 4,000 call paths on a hundred ranks


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that insitu uses: whether it works here, what was found, what to do."""

    name: str
    state: str
    found: str
    advice: str = ""


@click.command(name="doctor")
@json_option
def command(is_json: bool) -> None:
    """Tell what works on this machine, and what to do about the rest.

    Without a compiler or MPI insitu still looks at campaigns that were measured elsewhere.
    """
    checks = [check() for check in CHECKS]
    if is_json:
        print_json(asdict(check) for check in checks)
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        state = click.style(f"{check.state:<8}", fg=COLOURS[check.state])
        click.echo(f"{check.name:<{width}}  {state} {printable(check.found)}")
        if check.advice:
            click.echo(" " * (width + 2) + f"-> {check.advice}")


def python() -> Check:
    """The interpreter, with the hook it offers."""
    version = "{}.{}.{}".format(*sys.version_info[:3])
    hook = "sys.monitoring" if sys.version_info >= (3, 12) else "frame evaluation"
    return Check("Python", OK, f"{version} ({hook}) at {sys.executable}")


def compiler() -> Check:
    """A C compiler, needed once, to build the native library."""
    for name in filter(None, (os.environ.get("CC", "").split(" ")[0], "cc", "gcc", "clang")):
        path = shutil.which(name)
        if path:
            return Check("C compiler", OK, _first_line([path, "--version"]) or path)
    return Check(
        "C compiler", MISSING, "no cc, gcc or clang", "apt install gcc libc6-dev, or load a module"
    )


def native() -> Check:
    """The native library of the collectors."""
    from insitu.collectors import library

    path, reason = library.find(), library.why_unusable()
    if path and not reason:
        return Check("native library", OK, path)
    return Check(
        "native library",
        LIMITED,
        reason or "not built",
        "the hook written in Python is used, at several times the cost"
        + ("" if reason else "; install insitu again with a C compiler"),
    )


def preload() -> Check:
    """Whether the loader takes a library before the program's own."""
    from insitu.collectors import library

    path = library.find()
    if not path:
        return Check("preload", MISSING, "no native library", "see there")
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "print(open('/proc/self/maps').read())"],
        env=os.environ | {"LD_PRELOAD": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if os.path.basename(path) in answer.stdout and answer.returncode == 0:
        return Check("preload", OK, "LD_PRELOAD reaches programs")
    return Check(
        "preload", MISSING, "LD_PRELOAD has no effect", "MPI calls of native programs are not seen"
    )


def mpi() -> Check:
    """A launcher of MPI programs."""
    from insitu.launch.find import family_of, find_mpiexec

    path = find_mpiexec()
    if not path:
        return Check(
            "MPI", MISSING, "no mpiexec", "pip install 'insitu[mpich]', or load an MPI module"
        )
    try:
        family = {"openmpi": "Open MPI", "mpich": "MPICH"}.get(family_of(path), "unknown")
    except LaunchError as error:
        return Check("MPI", MISSING, str(error), "see whether its module is loaded")
    version = _version_in(_output([path, "--version"]))
    return Check("MPI", OK, f"{family} {version} at {path}".replace("  ", " "))


def bindings() -> Check:
    """MPI in Python."""
    if importlib.util.find_spec("mpi4py") is None:
        return Check("mpi4py", MISSING, "not installed", "pip install mpi4py, for Python programs")
    return Check("mpi4py", OK, metadata.version("mpi4py"))


def tables() -> Check:
    """Where the ranks keep their tables."""
    from insitu.collectors import table_directory

    shared = "/dev/shm"
    if not os.access(shared, os.W_OK):
        others = ", ".join(table_directory.base_directories())
        return Check("/dev/shm", LIMITED, "cannot be written", f"tables go to {others} instead")
    status = os.statvfs(shared)
    free = status.f_bavail * status.f_frsize
    size = f"{quantity(float(free), 'B')} free"
    if free < ENOUGH_SHARED:
        advice = "make room, or name another directory with INSITU_TABLES"
        return Check("/dev/shm", LIMITED, size, advice)
    return Check("/dev/shm", OK, size)


def memory() -> Check:
    """Whether a rank's proportional memory can be read."""
    path = "/proc/self/smaps_rollup"
    try:
        with open(path, encoding="ascii") as file:
            file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        return Check("memory", LIMITED, f"{path}: {reason}", "RSS is measured, PSS is not")
    return Check("memory", OK, "PSS and RSS can be read")


def counters() -> Check:
    """Whether instructions and cycles of ranks can be counted."""
    level = _read("/proc/sys/kernel/perf_event_paranoid") or "unknown"
    reason = _count_instructions()
    if not reason:
        return Check("counters", OK, f"instructions can be counted, perf_event_paranoid is {level}")
    advice = {
        errno.EACCES: "sysctl kernel.perf_event_paranoid=2, as root",
        errno.EPERM: "sysctl kernel.perf_event_paranoid=2, as root; a container may forbid them",
        errno.ENOENT: "this machine, often a virtual one, has no hardware counters",
    }.get(reason, "the kernel has no performance events, or a container forbids them")
    return Check("counters", LIMITED, f"no instructions: {os.strerror(reason)}", advice)


PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}  # the number of the system call
HARDWARE_INSTRUCTIONS = struct.pack("<IIQ", 0, 112, 1)  # type, size of what follows, config
USER_ONLY = 1 << 5 | 1 << 6  # neither the kernel nor a hypervisor


def _count_instructions() -> int:
    """Ask the kernel for a counter of this process's instructions: 0, or why not (an errno)."""
    number = PERF_EVENT_OPEN.get(os.uname().machine)
    if number is None:
        return errno.ENOSYS
    attributes = HARDWARE_INSTRUCTIONS + bytes(24) + struct.pack("<Q", USER_ONLY)
    attributes = attributes.ljust(112, b"\0")
    library = ctypes.CDLL(None, use_errno=True)
    counter = library.syscall(number, attributes, 0, -1, -1, 0)
    if counter < 0:
        return ctypes.get_errno()
    os.close(counter)
    return 0


def clock() -> Check:
    """What the ranks read the time from."""
    path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    source = _read(path) or "unknown"
    if source == "tsc" or os.uname().machine == "aarch64":
        return Check("clock", OK, f"{source}, read in the processor")
    return Check("clock", LIMITED, source, "each reading asks the kernel: calls cost more to time")


def _read(path: str) -> str:
    """A line of the kernel's, "" where it has none."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _output(argv: list[str]) -> str:
    try:
        answer = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout + answer.stderr


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
    tables,
    memory,
    counters,
    clock,
)
