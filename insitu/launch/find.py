"""Finding the launcher of this machine and the kind of a program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from insitu.errors import CommandNotFoundError, LaunchError
from insitu.launch.base import Launcher, launcher

VERSION_TIMEOUT_S = 20


def find_mpiexec(named: str = "") -> str:
    """The path of mpiexec: the one named, the one beside this Python, the one on PATH; "" if there
    is none.

    Raises:
        LaunchError: the one that was named does not exist.
    """
    if named:
        path = shutil.which(named)
        if path is None:
            raise LaunchError(f"{named}: no such launcher; --mpiexec takes the path of an mpiexec")
        return path
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    if os.access(beside, os.X_OK):
        return beside
    return shutil.which("mpiexec") or shutil.which("mpirun") or ""


def family_of(mpiexec: str) -> str:
    """ "openmpi" or "mpich", by what `mpiexec --version` says.

    Raises:
        LaunchError: it cannot be run.
    """
    try:
        answer = subprocess.run(
            [mpiexec, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{mpiexec}: does not answer to --version: {error}") from error
    text = (answer.stdout + answer.stderr).lower()
    is_openmpi = any(
        word in text for word in ("open mpi", "openrte", "open-mpi", "prterun", "prrte")
    )
    return "openmpi" if is_openmpi else "mpich"


def find_launcher(mpiexec: str = "") -> Launcher:
    """The launcher for a number of ranks on this machine.

    Raises:
        LaunchError: there is none.
    """
    path = find_mpiexec(mpiexec)
    if path:
        return launcher(family_of(path), path)
    srun = shutil.which("srun")
    if srun and os.environ.get("SLURM_JOB_ID"):
        return launcher("srun", srun)
    raise LaunchError(
        "no mpiexec beside this Python or on PATH; load an MPI module, "
        "`pip install 'insitu[mpich]'`, or name one with --mpiexec"
    )


def program_argv(command: list[str]) -> tuple[str, ...]:
    """The command line of one rank: Python scripts, -m and -c get this Python, programs stay as
    they are.

    Raises:
        CommandNotFoundError: there is no such script or program.
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
    found = shutil.which(first)
    if found is None:
        hint = "is not executable" if path.exists() else "command not found"
        raise CommandNotFoundError(f"{first}: {hint}; a script of Python ends in .py")
    return (found, *command[1:])
