"""Processes that run beside the ranks of a program leave them the cores."""

import os

NICENESS = 10  # a tenth of the share of a rank, where both want the same core (sched(7))


def give_way() -> None:
    """Lower the priority of this process.

    Where the kernel divides processor time between sessions first (autogroup in sched(7), the
    default of most distributions), the niceness of a process counts only within its session, and
    the session has a niceness of its own. That one is set, too, if this process leads its session:
    then no process of the program belongs to it.
    """
    try:
        os.nice(NICENESS)
        if os.getsid(0) == os.getpid():
            with open("/proc/self/autogroup", "w", encoding="ascii") as file:
                file.write(str(NICENESS))
    except OSError:
        return  # not allowed, or a kernel without such groups


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
