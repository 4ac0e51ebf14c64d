"""Where the tables of a run lie on a node: a private directory on node-local storage."""

import os
import stat

DEFAULT_BASES = ("/dev/shm", os.environ.get("TMPDIR", "/tmp"), "/tmp")
TABLE_SUFFIX = ".table"
AGENT_LOCK = "agent.lock"
AGENT_LOG = "agent.log"
WAKE = "wake"
PROCESSES = "/proc/self/ns/pid"  # tells which processes this one can see
SPOOL = "spool"  # in a campaign: tables of nodes that no socket leaves


def bases() -> list[str]:
    """Directories that may hold tables, the first one preferred; INSITU_TABLES names another."""
    named = os.environ.get("INSITU_TABLES")
    return [named] if named else list(dict.fromkeys(DEFAULT_BASES))


def private(path: str) -> None:
    """Make a directory that only this user can enter, or prove that it is one.

    Raises:
        OSError: it cannot be made, or it belongs to somebody else or is open to others.
    """
    try:  # noqa: SIM105  contextlib is not loaded in a rank
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(13, "not a private directory of this user (0700)", path)


def is_secret(file: int) -> bool:
    """Whether an open file belongs to this user, and to nobody else."""
    status = os.fstat(file)
    return status.st_uid == os.getuid() and not status.st_mode & 0o077


def user_directory(base: str) -> str:
    """All runs of this user on this node."""
    return os.path.join(base, f"insitu-{os.getuid()}")


def name_of(run: str) -> str:
    """The name of this run's directory: containers may share a place for tables and not see each
    other's processes, so each has a directory, an agent and a node of its own."""
    try:
        return f"{run}-{os.readlink(PROCESSES)[5:-1]}"  # of pid:[4026531836]
    except OSError:
        return run


def make_run_directory(run: str) -> str:
    """The directory of a run on this node, made if it is not there.

    Raises:
        OSError: no base directory can hold it; the error is that of the last one tried.
    """
    failure: OSError | None = None
    name = name_of(run)
    for base in bases():
        try:
            private(user_directory(base))
            path = os.path.join(user_directory(base), name)
            private(path)
            return path
        except OSError as error:
            failure = error
    raise failure or OSError("no directory for tables")


def remove_if_empty(directory: str) -> None:
    """Leave no run directory behind in which no table could be made."""
    try:  # noqa: SIM105  contextlib is not loaded in a rank
        os.rmdir(directory)
    except OSError:
        pass  # other ranks have tables there


def run_directories() -> list[str]:
    """The directories of all runs of this user on this node, oldest first."""
    found = []
    for base in bases():
        try:
            with os.scandir(user_directory(base)) as entries:
                found += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    return sorted(found, key=lambda path: os.stat(path).st_mtime if os.path.exists(path) else 0)


def tables(directory: str) -> list[str]:
    """The names of the tables in a run directory; none where it was just removed."""
    try:
        return sorted(name for name in os.listdir(directory) if name.endswith(TABLE_SUFFIX))
    except OSError:
        return []


def table_path(directory: str, rank: int) -> str:
    """A name that no other process uses: a restarted rank gets a table of its own."""
    return os.path.join(directory, f"rank-{rank:06d}-{os.getpid()}{TABLE_SUFFIX}")
