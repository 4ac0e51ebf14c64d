"""Finding the launcher of this machine and the kind of a program."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from insitu.errors import CommandNotFoundError, LaunchError, NotExecutableError
from insitu.launch.base import Launcher, launcher

VERSION_TIMEOUT_S = 20
_MPI_LIBRARY = re.compile(r"\blibp?mpi(?:ch|cxx|_cxx|_mpifh|fort)?\.so\.\d+ => (/\S.*) \(")


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


def _answer(*words: str) -> subprocess.CompletedProcess[str]:
    """What a command prints.

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
    """ "openmpi" or "mpich", by what `mpiexec --version` says.

    Raises:
        LaunchError: it cannot be run.
    """
    try:
        answer = _answer(mpiexec, "--version")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{mpiexec}: does not answer to --version: {error}") from error
    text = (answer.stdout + answer.stderr).lower()
    is_openmpi = any(
        word in text for word in ("open mpi", "openrte", "open-mpi", "prterun", "prrte")
    )
    return "openmpi" if is_openmpi else "mpich"


def library_of(program: str) -> tuple[str, str]:
    """Family and path of the MPI library that a compiled program is linked with; "", "" where it is
    linked with none, or with one that does not tell.

    Open MPI's brings libopen-pal along; its libmpi and MPICH's have had the same number.
    """
    try:
        answer = _answer("ldd", program)
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    found = _MPI_LIBRARY.search(answer.stdout)
    if found is None:
        return "", ""
    return "openmpi" if "libopen-pal" in answer.stdout else "mpich", found[1]


def fitting_mpiexec(program: str) -> str:
    """The path of the mpiexec for a program: of the MPI that it is linked with, where one is to be
    found, else `find_mpiexec()`."""
    usual = find_mpiexec()
    family, library = library_of(program)
    if not family or (usual and family_of(usual) == family):
        return usual
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(library)))
    for name in (
        *(os.path.join(prefix, "bin", "mpiexec"), "mpiexec", "mpirun"),
        *(f"mpiexec.{family}", "orterun" if family == "openmpi" else "mpiexec.hydra"),
    ):
        path = shutil.which(name)
        if path and family_of(path) == family:
            return path
    return usual


def find_launcher(mpiexec: str = "", program: str = "") -> Launcher:
    """The launcher for a number of ranks on this machine.

    Args:
        mpiexec: the one that the user named, if any.
        program: the path of what it shall start.

    Raises:
        LaunchError: there is none.
    """
    is_ours = mpiexec or not program or program == sys.executable
    path = find_mpiexec(mpiexec) if is_ours else fitting_mpiexec(program)
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
    found = shutil.which(first)
    if found is None:
        if path.exists():
            raise NotExecutableError(
                f"{first}: is not executable; chmod +x, or name it .py if it is a script of Python"
            )
        here = f"; there is ./{first} here" if os.access(f"./{first}", os.X_OK) else ""
        raise CommandNotFoundError(f"{first}: command not found{here}")
    return (found, *command[1:])
