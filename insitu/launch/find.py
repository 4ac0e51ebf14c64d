"""Finding the launcher of this machine, and the command that starts a program."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from insitu.errors import CommandNotFoundError, LaunchError, NotExecutableError
from insitu.launch.base import Launcher, load_launcher

VERSION_TIMEOUT_S = 20  # mpiexec may read slow network disks
_MPI_LIBRARY = re.compile(r"\blibp?mpi(?:ch|cxx|_cxx|_mpifh|fort)?\.so\.\d+ => (/\S.*) \(")


def find_mpiexec(name: str = "") -> str:
    """Return the path of mpiexec; empty if there is none.

    Args:
        name: name or path of an mpiexec; default: the one in the folder of this Python, else the
            one on PATH.

    Raises:
        LaunchError: there is no mpiexec of this name.
    """
    if name:
        path = shutil.which(name)
        if path is None:
            raise LaunchError(f"{name}: no such launcher; --mpiexec takes the path of an mpiexec")
        return path

    own = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    if os.access(own, os.X_OK):
        return own
    return shutil.which("mpiexec") or shutil.which("mpirun") or ""


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command and capture its output.

    Raises:
        OSError, subprocess.TimeoutExpired: it cannot be run, or does not end.
    """
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=VERSION_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def family_of(mpiexec: str) -> str:
    """Return "openmpi" or "mpich", by the output of `mpiexec --version`.

    Raises:
        LaunchError: it cannot be run.
    """
    try:
        completed = _run(mpiexec, "--version")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{mpiexec}: --version failed: {error}") from error

    text = (completed.stdout + completed.stderr).lower()
    is_openmpi = any(
        word in text for word in ("open mpi", "openrte", "open-mpi", "prterun", "prrte")
    )
    return "openmpi" if is_openmpi else "mpich"


def library_of(program: str) -> tuple[str, str]:
    """Return the family and path of the MPI library that a compiled program is linked with.

    Both are empty if it is linked with none, or ldd fails.
    """
    try:
        completed = _run("ldd", program)
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    library = _MPI_LIBRARY.search(completed.stdout)
    if library is None:
        return "", ""

    # The number of libmpi does not tell: both families have used the same. But only Open MPI's
    # libmpi is linked with libopen-pal.
    family = "openmpi" if "libopen-pal" in completed.stdout else "mpich"
    return family, library[1]


def fitting_mpiexec(program: str) -> str:
    """Return the mpiexec of the MPI that a program is linked with, else that of `find_mpiexec`.

    The launcher beside the program's library comes first: that of another version may speak
    another protocol with the ranks.
    """
    default = find_mpiexec()
    family, library = library_of(program)
    if not family:
        return default

    prefix = os.path.dirname(os.path.dirname(os.path.realpath(library)))
    candidates = [os.path.join(prefix, "bin", "mpiexec"), default, "mpiexec", "mpirun"]
    candidates += [f"mpiexec.{family}", "orterun" if family == "openmpi" else "mpiexec.hydra"]
    for name in candidates:
        path = shutil.which(name)
        if path and family_of(path) == family:
            return path
    return default


def find_launcher(mpiexec: str = "", program: str = "") -> Launcher:
    """Return the launcher that starts ranks on this machine.

    Args:
        mpiexec: name or path of an mpiexec, if the user gave one.
        program: path of the program to start.

    Raises:
        LaunchError: there is no launcher.
    """
    is_compiled = program not in ("", sys.executable)
    path = fitting_mpiexec(program) if is_compiled and not mpiexec else find_mpiexec(mpiexec)
    if path:
        return load_launcher(family_of(path), _shortest_name(path))

    srun = shutil.which("srun")
    if srun and os.environ.get("SLURM_JOB_ID"):
        return load_launcher("srun", "srun")

    from insitu.extras import install_command  # takes 20 ms to import, and few need it

    raise LaunchError(
        "no mpiexec beside this Python or on PATH; load an MPI module, "
        f"`{install_command('mpich')}`, or name one with --mpiexec"
    )


def _shortest_name(path: str) -> str:
    """Return the name under which PATH has a program, else its path.

    Open MPI's mpiexec takes its path for `--prefix`: it puts its own folder before those in PATH
    and LD_LIBRARY_PATH of the ranks, which then find other programs and libraries.
    """
    name = os.path.basename(path)
    return name if shutil.which(name) == path else path


def program_path(argv: Sequence[str]) -> str:
    """Return the path of the program that a command starts."""
    return shutil.which(argv[0]) or argv[0]


def program_argv(command: list[str]) -> tuple[str, ...]:
    """Return the command of a rank, with this Python before a Python script, -m or -c.

    A program gets the name that the user gave it: some print or interpret it.

    Raises:
        CommandNotFoundError, NotExecutableError: there is no such script or program.
    """
    first = command[0]
    if first in ("-m", "-c"):
        return (sys.executable, *command)

    path = Path(first)
    if path.suffix in (".py", ".pyw", ".pyz") or (
        path.is_dir() and (path / "__main__.py").exists()
    ):
        if not path.exists():
            raise CommandNotFoundError(f"{first}: no such script in {os.getcwd()}")
        return (sys.executable, *command)

    if shutil.which(first) is None:
        if path.exists():
            raise NotExecutableError(
                f"{first}: is not executable; run chmod +x, or name a Python script *.py"
            )
        hint = f"; did you mean ./{first}?" if os.access(f"./{first}", os.X_OK) else ""
        raise CommandNotFoundError(f"{first}: command not found{hint}")

    return tuple(command)
