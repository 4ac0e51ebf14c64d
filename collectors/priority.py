"""Processes that run beside the ranks of a program leave them the cores."""

import os

NICENESS = 10  # a tenth of the share of a rank, where both want the same core (sched(7))


def give_way() -> None:
    """Lower the priority of this process.

    Where sessions are scheduled first (autogroup in sched(7), the default of most distributions),
    niceness counts among the processes of a session only, and sessions have one of their own. It
    is set if this process leads its session, which then has no process of the program.
    """
    try:
        os.nice(NICENESS)
        if os.getsid(0) == os.getpid():
            with open("/proc/self/autogroup", "w", encoding="ascii") as file:
                file.write(str(NICENESS))
    except OSError:
        return  # not allowed, or a kernel without such groups


def leave_core_of_rank(launcher: int) -> None:
    """Use all cores of the launcher that started a rank.

    Launchers bind each rank to a core, and so what the rank starts. A launcher that belongs to
    somebody else, as the daemon of a batch system does, may use cores that the job may not.

    Args:
        launcher: process id; 0 if unknown.
    """
    try:
        if launcher and os.stat(f"/proc/{launcher}").st_uid == os.getuid():
            os.sched_setaffinity(0, os.sched_getaffinity(launcher))
    except OSError:
        return  # the launcher is gone, or this is not allowed
