"""The directory that holds the tables of a run on one node: private, and on node-local storage."""

import os

from insitu.private_files import make_private_directory

DEFAULT_BASES = ("/dev/shm", os.environ.get("TMPDIR", "/tmp"), "/tmp")
TABLE_SUFFIX = ".table"
AGENT_LOCK = "agent.lock"  # with its process id
AGENT_LOG = "agent.log"
WAKE = "wake"  # a pipe: ranks that end wake the agent
WELCOMED = "welcomed"  # exists as soon as the agent has somewhere to send the totals
PID_NAMESPACE = "/proc/self/ns/pid"


def base_directories() -> list[str]:
    """Directories that may hold tables, the preferred one first; INSITU_TABLES overrides them."""
    override = os.environ.get("INSITU_TABLES")
    return [override] if override else list(dict.fromkeys(DEFAULT_BASES))


def user_directory(base: str) -> str:
    """The directory for all runs of this user on this node."""
    return os.path.join(base, f"insitu-{os.getuid()}")


def directory_name(run: str) -> str:
    """The name of the run's directory, with the number of the PID namespace.

    Containers may share /dev/shm without seeing each other's processes. Each of them needs its own
    directory and its own agent.
    """
    try:
        link = os.readlink(PID_NAMESPACE)  # pid:[4026531836]
    except OSError:
        return run
    return f"{run}-{link[len('pid:[') : -1]}"


def make_run_directory(run: str) -> str:
    """Create the directory of a run on this node, or return the existing one.

    Raises:
        OSError: no base directory can hold it; the error is that of the last one tried.
    """
    last_error: OSError | None = None
    name = directory_name(run)
    for base in base_directories():
        try:
            make_private_directory(user_directory(base))
            path = os.path.join(user_directory(base), name)
            make_private_directory(path)
            return path
        except OSError as error:
            last_error = error
    raise last_error or OSError("no directory for tables")


def remove_if_empty(directory: str) -> None:
    """Remove the run directory if no rank has a table in it."""
    try:  # noqa: SIM105  contextlib is not loaded in a rank
        os.rmdir(directory)
    except OSError:
        pass


def run_directories() -> list[str]:
    """The directories of all runs of this user on this node, oldest first."""
    paths = []
    for base in base_directories():
        try:
            with os.scandir(user_directory(base)) as entries:
                paths += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    return sorted(paths, key=lambda path: os.stat(path).st_mtime if os.path.exists(path) else 0)


def table_names(directory: str) -> list[str]:
    """The file names of the tables in a run directory; [] if the directory was just removed."""
    try:
        return sorted(name for name in os.listdir(directory) if name.endswith(TABLE_SUFFIX))
    except OSError:
        return []


def table_path(directory: str, rank: int) -> str:
    """A new path for a rank's table.

    A restarted rank has another process id. A process that replaced itself by another program has
    the same, so the tables are numbered.
    """
    stem = os.path.join(directory, f"rank-{rank:06d}-{os.getpid()}")
    path, number = stem + TABLE_SUFFIX, 1
    while os.path.exists(path):
        number += 1
        path = f"{stem}-{number}{TABLE_SUFFIX}"
    return path
