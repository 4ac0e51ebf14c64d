"""Which signal ended a run whose ranks could not report it, from the exit code of the launcher."""

import signal
from contextlib import suppress

from insitu.entities import STATUS_UNKNOWN, Finding, RunRecord, RunState
from insitu.errors import CampaignError
from insitu.text import describe_signal

SHELL_BASE = 128  # shells, Open MPI and Slurm end with 128 + N if signal N ended a rank
SHOWN_RANKS = 8


def find_signal(record: RunRecord, code: int) -> Finding | None:
    """The signal that ended ranks of an incomplete run; None if another reason is known.

    Hydra of MPICH ends with N if signal N ended a rank. A rank that exits with code N reports that
    itself, so that N is a signal only if no rank has reported a failure.

    Args:
        record: of the run.
        code: exit code of the launcher.
    """
    unknown = [i for i, status in enumerate(record.exit_status) if status == STATUS_UNKNOWN]
    if record.state is not RunState.INCOMPLETE or not unknown or record.errors:
        return None

    number = code - SHELL_BASE if code > SHELL_BASE else code
    if number not in set(signal.Signals):
        return None

    ranks = ", ".join(map(str, unknown[:SHOWN_RANKS])) + (
        ", …" if len(unknown) > SHOWN_RANKS else ""
    )
    who = f"rank {ranks}" if len(unknown) == 1 else f"one of the ranks {ranks}"
    text = f"{describe_signal(number)} ended {who}: the launcher ended with exit code {code}"
    return Finding("rank-signal", text, record.id)  # RANK_SIGNAL, spelled out for the reference


def store_signal(record: RunRecord, code: int, campaign: str) -> bool:
    """Add the finding to a stored run; return whether there is one."""
    finding = find_signal(record, code)
    if finding is None:
        return False

    # The program has ended: only now may insitu take the time to import numpy.
    from insitu.campaign.store import open_store

    with suppress(CampaignError), open_store(campaign) as store:
        store.add_findings(record.id, [finding])
    return True
