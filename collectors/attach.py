"""Tells a compiled rank where its table belongs, and starts the agent of the node.

`native/preload.c` starts this module in a helper process, before the program's `main`. The two talk
over a pair of sockets: the helper sends the rank, the number of ranks, the budget, the first
process of the rank and the path of the table; the rank creates the table and answers with 0 or an
errno.
"""

import os

from insitu.collectors import steering, table_directory
from insitu.collectors.bootstrap import start_agent
from insitu.collectors.rank import RankInfo, find_rank, find_root


def main(argv: list[str]) -> None:
    """Serve the rank at the other end of the descriptor `argv[0]`."""
    channel = int(argv[0])
    os.set_inheritable(channel, False)
    try:
        _serve(channel)
    except OSError as error:
        _report(error)


def _serve(channel: int) -> None:
    """Have the table created, then start the agent.

    Raises:
        OSError: the rank is unknown, or there is no table.
    """
    info = find_rank(os.environ)
    if info is None and "INSITU_SINGLE" in os.environ:
        info = RankInfo(0, 1)
    if info is None:
        raise OSError("the launcher sets the number of this rank, but not the number of ranks")

    directory = table_directory.make_run_directory(os.environ["INSITU_RUN"])
    path = table_directory.table_path(directory, info.rank)
    budget = steering.parse_steering(os.environ.get(steering.VARIABLE, "")).budget
    root_pid, root_started = find_root(os.getppid(), os.environ)
    numbers = f"{info.rank} {info.size} {budget!r} {root_pid} {root_started}\n"
    os.write(channel, numbers.encode() + os.fsencode(path) + b"\0")

    answer = os.read(channel, 4)
    failed = int.from_bytes(answer, "little")
    if failed or not answer:
        table_directory.remove_if_empty(directory)
    if failed:
        raise OSError(failed, os.strerror(failed), path)
    if answer:
        start_agent(directory, os.environ)


def _report(error: Exception) -> None:
    try:
        with open(os.environ["INSITU_TROUBLE"], "a", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}\n")
    except (OSError, KeyError):
        return  # there is nowhere to report it
