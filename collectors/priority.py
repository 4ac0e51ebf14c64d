"""Processes that run beside the ranks of a program leave them the cores."""

import os
import time

NICENESS = 10  # a tenth of the share of a rank, where both want the same core (sched(7))
# Where the kernel divides processor time between sessions first, the niceness of a session.
SESSION = "/proc/{}/autogroup"
TRIES, TRY_S = 5, 0.1  # all unprivileged users together may change one session each 0.1 s


def give_way(*, is_own_session: bool) -> None:
    """Lower the priority of this process.

    Where the kernel divides processor time between sessions first (autogroup in sched(7), the
    default of most distributions), the niceness of a process counts only within its session, and
    the session has a niceness of its own.

    Args:
        is_own_session: no process of the program belongs to the session, whose niceness is set,
            too.
    """
    try:
        os.nice(NICENESS)
        if is_own_session:
            _set_niceness(SESSION.format("self"), NICENESS)
    except OSError:
        return  # not allowed, or a kernel without such groups


def take_back(process: int) -> None:
    """Undo `give_way` of a process, since the ranks have ended.

    Without privileges, the niceness of a process cannot be lowered again, but that of a session
    can. So this has an effect where other users or programs keep all cores busy in other sessions,
    and the last values of a run would wait for them.

    Args:
        process: process id.
    """
    path = SESSION.format(process)
    try:
        with open(path, encoding="ascii") as file:
            is_lowered = file.read().split()[-1:] == [str(NICENESS)]
        if is_lowered:
            _set_niceness(path, 0)
    except OSError:
        return  # it is gone, or a kernel without such groups


def _set_niceness(path: str, niceness: int) -> None:
    """Set the niceness of a session.

    Raises:
        OSError: it was not set.
    """
    for attempt in range(1, TRIES + 1):
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(str(niceness))
        except BlockingIOError:
            if attempt == TRIES:
                raise
            time.sleep(TRY_S)
        else:
            return


def leave_core_of_rank(launcher: int) -> None:
    """Run on all cores that the launcher of a rank may use.

    Launchers bind each rank to a core, and what the rank starts is bound as well. A launcher of
    another user, such as the daemon of a batch system, may use cores that the job may not, so
    nothing changes then.

    Args:
        launcher: process id; 0 if unknown.
    """
    try:
        if launcher and os.stat(f"/proc/{launcher}").st_uid == os.getuid():
            os.sched_setaffinity(0, os.sched_getaffinity(launcher))
    except OSError:
        return  # the launcher is gone, or this is not allowed
