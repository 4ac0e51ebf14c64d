"""Which process of a rank is the program, if several of them have a table.

Launchers often start a wrapper, which starts helpers before the program, or set-up code that
replaces itself by the program. All of them inherit the variables of the measurement.
"""

from collections.abc import Iterable, Mapping

from insitu.collectors import smaps
from insitu.collectors.ranks import Rank
from insitu.collectors.table import MPI_NONE, REPLACED, RUNNING


def update_state(rank: Rank) -> None:
    """Read the header of a table, and find out whether its process and its rank have ended."""
    # Look whether the process is alive before its state is read: a rank may end in between.
    head = rank.table.header
    is_alive = smaps.is_alive(head.pid, head.pid_started)
    head = rank.table.read_header()
    rank.is_running = is_alive and head.state == RUNNING

    # A process that replaces itself runs on, perhaps with another table.
    has_stopped = not is_alive or head.state not in (RUNNING, REPLACED)
    rank.has_ended = has_stopped and not _is_root_alive(rank)


def _is_root_alive(rank: Rank) -> bool:
    """Whether the wrapper that started this process runs, which may start others."""
    head = rank.table.header
    is_root = head.root_pid in (0, head.pid)
    return not is_root and smaps.is_alive(head.root_pid, head.root_started)


def is_provisional(rank: Rank) -> bool:
    """Whether this process may turn out to be a helper.

    It is if a wrapper started it that still runs, and it did not initialise MPI.
    """
    return rank.table.header.mpi_state == MPI_NONE and _is_root_alive(rank)


def find_superseded(ranks: Mapping[str, Rank]) -> list[str]:
    """File names of the tables that are not those of programs.

    Of the processes of a rank, the program is one that initialised MPI; else the one that the
    launcher started; else the latest.
    """
    programs: dict[int, str] = {}
    superseded = []
    for name, rank in ranks.items():
        number = rank.table.header.rank
        other = programs.setdefault(number, name)
        if other == name:
            continue
        if _precedence(rank) > _precedence(ranks[other]):
            programs[number] = name
            superseded.append(other)
        else:
            superseded.append(name)
    return superseded


def _precedence(rank: Rank) -> tuple[bool, bool, int]:
    head = rank.table.header
    return (head.mpi_state != MPI_NONE, head.root_pid == head.pid, head.created_ns)


def describe_superseded(tables: Iterable[Rank]) -> list[tuple[str, str, str]]:
    """A finding for each process that is not the program of its rank, unless exec replaced it."""
    findings = []
    for rank in tables:
        if rank.table.header.state != REPLACED:
            rows = rank.table.rows or rank.table.new_rows()
            text = (
                f"another process of this rank, {rows[0].name}, was not measured: the values are"
                " those of the process that initialised MPI, or of the last of these"
            )
            findings.append(("other-process", text, f"rank {rank.number}"))
    return findings
