"""Starts the measurement of a rank: creates its table, installs the timer, starts the agent.

`site/start_in_rank.py` imports this module before the application's first line. It must never raise
into the application, print, or load more than it needs.
"""

import atexit
import os
import sys

# Bound now: the program may replace functions of os and time, and this module runs at its end.
from os import getpid
from time import monotonic, sleep

from insitu.collectors import library, regions, steering, table_directory
from insitu.collectors.rank import RankInfo, find_launcher, find_rank, find_root

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Under a batch system: how long a rank waits at its end for the agent to send the last totals.
AGENT_WAIT_S = 2.0


class Collectors:
    """The collectors of this process."""

    def __init__(self, info: RankInfo, run: str, meta: str) -> None:
        self.info = info
        self.status = 0
        self.is_aborted = False  # MPI_Abort ends the job because of an exception
        self.pid = getpid()
        self.is_in_slurm_step = "SLURM_STEP_ID" in os.environ
        info.root = find_root(self.pid, os.environ)
        self.directory = table_directory.make_run_directory(run)
        self.path = table_directory.table_path(self.directory, info.rank)
        try:
            self.timer = _open_timer(self.path, info, program_name(sys.orig_argv), meta)
        except OSError:
            table_directory.remove_if_empty(self.directory)
            raise

    def start(self, folders: list[str]) -> None:
        """Start to time functions of the program, which finds its modules in these folders."""
        settings = steering.parse_steering(os.environ.get(steering.VARIABLE, ""))
        of_program = user_prefixes(sys.orig_argv, folders, settings.packages)
        prefixes = (library_prefixes(), of_program, insitu_prefixes())
        self.timer.limit_iterations(int(os.environ.get("INSITU_ITERATIONS", "0")))
        self.timer.start(prefixes, settings, self.handle_uncaught)
        regions.record_with(self.timer)
        atexit.register(self.finish)

    def handle_uncaught(self, error: BaseException) -> None:
        """End the job when an exception leaves the main module, as `python -m mpi4py` does.

        `sys.exit` is no such exception: the rank ends as it does in plain Python, and the others
        run on.
        """
        if isinstance(error, SystemExit):
            code = error.code
            self.status = code & 0xFF if isinstance(code, int) else int(code is not None)
            return

        self.status = 130 if isinstance(error, KeyboardInterrupt) else 1
        mpi = sys.modules.get("mpi4py.MPI")
        if mpi is not None and self.info.size > 1:  # a rank alone has nobody that would wait for it
            self.is_aborted = True
            mpi._set_abort_status(self.status)

    def finish(self) -> None:
        """Close the table at the end of the interpreter.

        It is registered first with atexit, so it runs after the functions of the program. A forked
        child inherits the registration, but the table belongs to its parent.
        """
        if getpid() != self.pid:
            return
        self.timer.end(self.status, self.is_aborted)
        if not self.timer.wakes_agent:
            wake_agent(self.directory)
        if self.is_in_slurm_step:
            self._wait_for_agent()

    def _wait_for_agent(self) -> None:
        """Let the agent send its last totals, if it has an aggregator to send them to.

        A batch system kills every process that is left when the step ends.
        """
        if not os.path.exists(os.path.join(self.directory, table_directory.WELCOMED)):
            return
        deadline = monotonic() + AGENT_WAIT_S
        while os.path.exists(self.path) and monotonic() < deadline:
            sleep(0.02)


def _open_timer(path: str, info: RankInfo, program: str, meta: str) -> "Any":  # Any: either timer
    """The native timer, or the one in Python if the library is missing."""
    from insitu.collectors.function_timer import NativeTimer

    try:
        native = library.load(os.environ.get("INSITU_LIBRARY", ""))
        return NativeTimer(native, path, info, program, meta)
    except ImportError:
        from insitu.collectors.function_timer_py import PythonTimer

        return PythonTimer(path, info, program, meta)


def program_name(argv: list[str]) -> str:
    """The name of the root of all call paths: the script, the module of -m, or -c."""
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
    """Directories of libraries, one per line: recorded only where the program calls them."""
    return os.path.dirname(os.__file__) + os.sep


def insitu_prefixes() -> str:
    """Directories of insitu itself, one per line: never recorded."""
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(os.path.abspath(sys.modules["insitu"].__file__ or here))
    return "\n".join((here + os.sep, package + os.sep))


def user_prefixes(argv: list[str], folders: list[str], packages: tuple[str, ...] = ()) -> str:
    """Prefixes of files that belong to the program even inside a library folder, one per line.

    These are the package that -m runs, the text of -c, a program read from a pipe, and the packages
    that the user names.

    Args:
        argv: the command line of the interpreter.
        folders: in which the program finds modules.
        packages: names.
    """
    prefixes = []
    if "-m" in argv[1:-1]:
        packages = (argv[argv.index("-m") + 1].partition(".")[0], *packages)
    else:
        prefixes.append("<string>" if "-c" in argv[1:-1] else "<stdin>")
    for package in packages:
        if package:
            name = package.replace(".", os.sep)
            prefixes += [os.path.join(folder, name) + os.sep for folder in folders if folder]
    return "\n".join(prefixes)


def wake_agent(directory: str) -> None:
    """Wake the agent because a rank has ended. Nothing happens if no agent listens.

    The pipe is opened for reading, too: otherwise an agent that ends now would cause a SIGPIPE in
    the program.
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
    """Start the node's agent, unless another rank has started it.

    A lock, which the agent holds as long as it lives, decides. The agent is not a child of the
    application and inherits none of its descriptors: no launcher waits for it, and the application
    never reaps a process that it did not start.
    """
    if variables.get("INSITU_AGENT") == "off":
        return

    import fcntl

    lock_path = os.path.join(directory, table_directory.AGENT_LOCK)
    lock = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600)
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
    try:  # noqa: SIM105  contextlib is not loaded in a rank
        os.waitpid(child, 0)
    except ChildProcessError:  # the program ignores SIGCHLD: there is no status
        pass
    os.close(lock)


def _become_agent(directory: str, lock: int, variables: "Mapping[str, str]") -> None:
    """Turn a forked child into the agent: a daemon with its own streams and descriptor 3."""
    from insitu.collectors.own_environment import own_environment
    from insitu.collectors.priority import give_way, leave_core_of_rank

    launcher = find_launcher(os.getppid(), variables) if find_rank(variables) else 0
    os.setsid()
    if os.fork():
        os._exit(0)
    give_way(is_own_session=True)  # even the start of the agent must not delay the ranks
    leave_core_of_rank(launcher)
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())

    null = os.open(os.devnull, os.O_RDWR)
    log_path = os.path.join(directory, table_directory.AGENT_LOG)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(log, 2)
    if lock != 3:
        os.dup2(lock, 3)
    os.closerange(4, 1 << 20)
    os.set_inheritable(3, True)
    os.chdir(directory)

    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from insitu.collectors.agent import main; main(sys.argv[2])"
    )
    python = variables["INSITU_PYTHON"]
    home = variables["INSITU_HOME"]
    environment = own_environment(variables)
    # Without the last two, exec.c does not put the first two back.
    for name in ("LD_PRELOAD", "PYTHONPATH", "INSITU_LIBRARY", "INSITU_SITE"):
        environment.pop(name, None)
    if variables.get("INSITU_PYTHONPATH"):
        environment["PYTHONPATH"] = variables["INSITU_PYTHONPATH"]
    os.execve(python, [python, "-c", code, home, directory], environment)


def start(info: RankInfo, folders: list[str]) -> None:
    """Install everything in this rank; folders are those in which the program finds modules."""
    collectors = Collectors(info, os.environ["INSITU_RUN"], os.environ["INSITU_META"])
    start_agent(collectors.directory, os.environ)
    collectors.start(folders)
