"""Which signal ended a run whose ranks could not report it."""

import os
import signal
from contextlib import suppress

from insitu.entities import STATUS_UNKNOWN, Finding, RunRecord, RunState
from insitu.errors import CampaignError, LaunchError
from insitu.launch.find import family_of
from insitu.run.program import ProgramEnd
from insitu.text import describe_signal

SHELL_BASE = 128  # shells, Open MPI and Slurm end with 128 + N if signal N ended a rank
SHOWN_RANKS = 8
# Signals that are sent to end a program, and by what; others may have had another purpose.
SENT_BY = {
    signal.SIGTERM: "a time limit",
    signal.SIGXCPU: "a time limit",
    signal.SIGALRM: "a time limit",
    signal.SIGINT: "Ctrl-C",
    signal.SIGQUIT: "Ctrl-\\",
    signal.SIGHUP: "a terminal that was closed",
}


def find_signal(record: RunRecord, ended: ProgramEnd) -> Finding | None:
    """The signal that ended ranks of an incomplete run; None if another reason is known.

    Hydra of MPICH ends with N if signal N ended a rank. A rank that exits with code N reports that
    itself, so that N is a signal only if no rank has reported a failure.

    Args:
        record: of the run.
        ended: how the launcher ended.
    """
    if record.state is not RunState.INCOMPLETE:
        return None
    if ended.received in SENT_BY:
        sender = SENT_BY[signal.Signals(ended.received)]
        text = f"{describe_signal(ended.received)} was sent to the run, as by {sender}"
        return Finding("rank-signal", text, record.id)  # RANK_SIGNAL, spelled out for the reference

    unknown = [i for i, status in enumerate(record.exit_status) if status == STATUS_UNKNOWN]
    if not unknown or record.errors:
        return None
    number = ended.code - SHELL_BASE if ended.code > SHELL_BASE else ended.code
    if number not in set(signal.Signals) or (number == ended.code and not _is_hydra(ended.program)):
        return None

    ranks = ", ".join(map(str, unknown[:SHOWN_RANKS])) + (
        ", …" if len(unknown) > SHOWN_RANKS else ""
    )
    who = f"rank {ranks}" if len(unknown) == 1 else f"one of the ranks {ranks}"
    text = f"{describe_signal(number)} ended {who}: the launcher ended with exit code {ended.code}"
    return Finding("rank-signal", text, record.id)


def _is_hydra(launcher: str) -> bool:
    """Whether a launcher is an mpiexec, and not that of Open MPI."""
    if not os.path.basename(launcher).startswith("mpi"):
        return False
    with suppress(LaunchError):
        return family_of(launcher) == "mpich"
    return False


def store_signal(record: RunRecord, ended: ProgramEnd, campaign: str) -> bool:
    """Add the finding to a stored run; return whether there is one."""
    finding = find_signal(record, ended)
    if finding is None:
        return False

    # The program has ended: only now may insitu take the time to import numpy.
    from insitu.campaign.store import open_store

    with suppress(CampaignError), open_store(campaign) as store:
        store.add_findings(record.id, [finding])
    return True
