"""Calls, counts and exits of real programs under the MPI libraries of Debian sid.

    python -m tests.stress.mpi_sid [openmpi | mpich]... [-- PYTEST ARGUMENTS]

Sid has releases that the package index does not have yet, such as Open MPI 6. The tests are those
of `mpi_versions.py`. They run in the chroot of `tests/support/sid.py`, with its Python, compilers
and libraries, and need what that script needs.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.stress.mpi_versions import TESTS, other
from tests.support.arm64 import copy_checkout, copy_network_settings
from tests.support.sid import install_packages, sid_folder

MPIS = ("openmpi", "mpich")
PYTHON = "python3.14"
PACKAGES = (
    "python3.14-venv python3.14-dev gcc g++ gfortran make cmake ninja-build git procps iproute2 "
    "binutils ca-certificates openmpi-bin libopenmpi-dev mpich libmpich-dev"
)
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# The chroot has no /proc and /dev; the namespaces end with the tests and what they started.
ENTER = (
    'mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" && '
    'exec chroot "$1" sh -c "mount -t proc proc /proc && cd /root/insitu && $2"'
)


def main(arguments: list[str]) -> int:
    """Run the tests with each MPI; 1 if one failed."""
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    split = arguments.index("--") if "--" in arguments else len(arguments)
    mpis, options = arguments[:split] or MPIS, arguments[split + 1 :]

    folder = sid_folder()
    install_packages(folder, PACKAGES.split())
    copy_checkout(folder)
    copy_network_settings(folder)
    prepare(folder, f"test -d .venv || {PYTHON} -m venv .venv")
    packages = "pytest pytest-timeout pytest-xdist hypothesis mpi4py"
    prepare(folder, f".venv/bin/pip install --quiet --editable .[mpi,web,tables] {packages}")

    failed = False
    for mpi in mpis:
        make_prefix(folder, mpi)
        python = ".venv/bin/python"
        files = " ".join(f"tests/system/{test}" for test in TESTS)
        words = f"-m pytest -q -rfs --full -k 'not {other(mpi)}' {' '.join(options)}"
        print(f"{mpi}:", flush=True)
        failed |= (
            enter(folder, f"INSITU_TEST_{mpi.upper()}=/opt/{mpi} {python} {words} {files}") != 0
        )
    return int(failed)


def prepare(folder: Path, command: str) -> None:
    """Run a command without which there is nothing to test; end if it fails."""
    code = enter(folder, command)
    if code != 0:
        sys.exit(f"failed in {folder} with exit code {code}: {command}")


def make_prefix(folder: Path, mpi: str) -> None:
    """Make /opt/MPI of links, because Debian's commands of several MPIs differ in their suffix."""
    commands = folder / "opt" / mpi / "bin"
    commands.mkdir(parents=True, exist_ok=True)
    for name in ("mpicc", "mpicxx", "mpifort", "mpiexec", "mpirun"):
        link(commands / name, f"/usr/bin/{name}.{mpi}")
    link(commands / "hydra_pmi_proxy", "/usr/bin/hydra_pmi_proxy")  # of MPICH, beside its mpiexec
    link(commands.parent / "lib", LIBRARIES)
    link(commands.parent / "include", f"{LIBRARIES}/{mpi}/include")


def link(path: Path, target: str) -> None:
    """Make or replace a symbolic link."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def enter(folder: Path, command: str) -> int:
    """Run a shell command in the checkout in the chroot; its exit code."""
    environment = {
        **os.environ,
        "HOME": "/root",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    }
    namespaces = ["unshare", "--mount", "--pid", "--fork"]
    words = [*namespaces, "sh", "-c", ENTER, "sh", str(folder), command]
    return subprocess.call(words, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
