"""The first thing that runs inside a rank: makes its table, installs the collectors, starts the
node's agent.

It is imported by `site/sitecustomize.py` before the application's first line and must never raise
into it, print,
or load more than it needs.
"""

import atexit
import os
import sys
import time

from insitu.collectors import library, regions, steering, table_directory
from insitu.collectors.rank import RankInfo

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LINGER_S = (
    2.0  # under a batch system: how long a rank may wait for its agent to send the last totals
)


class Rank:
    """The collectors of this process."""

    def __init__(self, info: RankInfo, run: str, meta: str) -> None:
        self.info = info
        self.status = 0
        self.directory = table_directory.make_run_directory(run)
        self.path = table_directory.table_path(self.directory, info.rank)
        try:
            self.timer = _open_timer(self.path, info, program_name(sys.orig_argv), meta)
        except OSError:
            table_directory.remove_if_empty(self.directory)
            raise

    def start(self) -> None:
        """From here on functions are timed."""
        files = (library_prefixes(), user_prefixes(sys.orig_argv), our_prefixes())
        self.timer.start(files, steering.read(os.environ.get(steering.VARIABLE, "")), self.uncaught)
        regions.record_with(self.timer)
        atexit.register(self.finish)

    def uncaught(self, error: BaseException) -> None:
        """An exception leaves the main module: the job must end, as with `python -m mpi4py`."""
        code = error.code if isinstance(error, SystemExit) else 1
        if isinstance(error, KeyboardInterrupt):
            code = 130
        self.status = code if isinstance(code, int) else int(code is not None)
        mpi = sys.modules.get("mpi4py.MPI")
        if mpi is not None and self.status:
            mpi._set_abort_status(self.status)

    def finish(self) -> None:
        """The interpreter ends: registered first, so that it runs after MPI was finalised."""
        self.timer.end(self.status)
        wake_agent(self.directory)
        if "SLURM_STEP_ID" in os.environ:
            self._wait_for_agent()

    def _wait_for_agent(self) -> None:
        """A batch system kills what outlives the step: let the agent send first, if it has
        somebody to send to."""
        if not os.path.exists(os.path.join(self.directory, "welcomed")):
            return
        deadline = time.monotonic() + LINGER_S
        while os.path.exists(self.path) and time.monotonic() < deadline:
            time.sleep(0.02)


def _open_timer(path: str, info: RankInfo, program: str, meta: str) -> "Any":  # Any: either timer
    """The native timer, or its Python twin where the library is missing."""
    from insitu.collectors.function_timer import NativeTimer

    try:
        return NativeTimer(
            library.load(os.environ.get("INSITU_LIBRARY", "")), path, info, program, meta
        )
    except ImportError:
        from insitu.collectors.function_timer_py import PythonTimer

        return PythonTimer(path, info, program, meta)


def program_name(argv: list[str]) -> str:
    """What the root of all call paths is called: the script, the module of -m, or -c."""
    at = 1
    while at < len(argv):
        word = argv[at]
        if word in ("-m", "-c"):
            return argv[at + 1] if word == "-m" and at + 1 < len(argv) else "-c"
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            at += 1
        elif word == "-" or not word.startswith("-"):
            return os.path.basename(os.path.normpath(word)) or word
        at += 1
    return "python"


def library_prefixes() -> str:
    """Directories of code that is recorded only where the program calls it, one per line."""
    return os.path.dirname(os.__file__) + os.sep


def our_prefixes() -> str:
    """Directories of code that is never recorded, one per line."""
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(os.path.abspath(sys.modules["insitu"].__file__ or here))
    return "\n".join((here + os.sep, package + os.sep))


def user_prefixes(argv: list[str]) -> str:
    """What belongs to the program wherever it lies: the package that -m runs, the text of -c or of
    a pipe."""
    if "-m" not in argv[1:-1]:
        return "<string>" if "-c" in argv[1:-1] else "<stdin>"
    package = argv[argv.index("-m") + 1].partition(".")[0]
    return "\n".join(
        os.path.join(entry, package) + os.sep for entry in sys.path if entry and package
    )


def wake_agent(directory: str) -> None:
    """Tell the agent that a rank has ended; nobody listening is fine.

    Opened at both ends: an agent that goes right now would leave the program a SIGPIPE.
    """
    try:
        pipe = os.open(os.path.join(directory, table_directory.WAKE), os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return
    try:  # noqa: SIM105  contextlib is not loaded in a rank
        os.write(pipe, b".")
    except OSError:
        pass
    os.close(pipe)


def start_agent(directory: str, variables: "Mapping[str, str]") -> None:
    """Start the node's agent unless another rank has; it holds the lock as long as it lives.

    It is nobody's child and holds no descriptor of the application, so that no launcher waits for
    it and the
    application never reaps a process that it did not start.
    """
    if variables.get("INSITU_AGENT") == "off":
        return
    import fcntl

    lock = os.open(
        os.path.join(directory, table_directory.AGENT_LOCK), os.O_RDWR | os.O_CREAT, 0o600
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return
    child = os.fork()
    if child == 0:
        try:
            _become_agent(directory, lock, variables)
        finally:
            os._exit(127)
    os.waitpid(child, 0)
    os.close(lock)


def _become_agent(directory: str, lock: int, variables: "Mapping[str, str]") -> None:
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(
        os.path.join(directory, table_directory.AGENT_LOG),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND,
        0o600,
    )
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(log, 2)
    if lock != 3:
        os.dup2(lock, 3)
    os.closerange(4, 1 << 20)
    os.set_inheritable(3, True)
    os.chdir(directory)
    try:  # noqa: SIM105  contextlib is not loaded in a rank
        os.nice(10)  # its start, too, takes nothing from the ranks
    except OSError:
        pass
    home = variables["INSITU_HOME"]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from insitu.collectors.agent import main; main(sys.argv[2])"
    )
    python = variables["INSITU_PYTHON"]
    environment = {k: v for k, v in variables.items() if k not in ("LD_PRELOAD", "PYTHONPATH")}
    if variables.get("INSITU_PYTHONPATH"):
        environment["PYTHONPATH"] = variables["INSITU_PYTHONPATH"]
    os.execve(python, [python, "-c", code, home, directory], environment)


def start(info: RankInfo) -> None:
    """Install everything in this rank. On our trouble the application runs on, unmeasured."""
    rank = Rank(info, os.environ["INSITU_RUN"], os.environ["INSITU_META"])
    start_agent(rank.directory, os.environ)
    rank.start()
