"""How a rank ended, from the header of its table, and what a person should know of it."""

from insitu.collectors.table import ABORTED, MPI_FINALISED, MPI_INITIALISED, RUNNING, Header
from insitu.wire.messages import RankEnd

LOST = -1000  # exit status of a rank that ended without saying how


def end(number: int, head: Header) -> RankEnd:
    """Its exit status, and whether its values are whole."""
    if head.state == RUNNING and head.mpi_state == MPI_FINALISED:
        return RankEnd(number, 0, True)  # left through os._exit or _exit after MPI_Finalize
    if head.state == RUNNING:
        return RankEnd(number, LOST, False)
    return RankEnd(number, head.exit_status, not _has_aborted(head))


def said(head: Header, ended: RankEnd) -> list[tuple[str, str]]:
    """Code and text of each finding."""
    findings = []
    if refused := head.rows_refused + head.frames_refused:
        text = f"{refused} call paths or frames had no room: their callers have their time"
        findings.append(("rows-truncated", text))
    if made := head.subinterpreters:
        text = (
            f"the program made {made} subinterpreter{'s' * (made > 1)}: functions are timed in the "
            "main interpreter only, what runs in others is their caller's time"
        )
        findings.append(("subinterpreters", text))
    if _has_aborted(head):
        text = f"the rank ended the job with status {head.exit_status}{_phase(head)}"
        findings.append(("rank-aborted", text))
    elif ended.status == LOST and head.marks:
        findings.append(("rank-lost", f"the rank ended without a word{_phase(head)}"))
    if head.mpi_size == 1 and head.size > 1:
        text = (
            f"MPI says 1 rank, the launcher {head.size}: each rank ran alone; start the program "
            "with the mpiexec of the MPI that it is linked with (insitu run --mpiexec PATH)"
        )
        findings.append(("mpi-singletons", text))
    return findings


def _phase(head: Header) -> str:
    """Where the program was, if it says so itself."""
    name = head.latest_mark.rstrip(b"\0").decode("utf-8", "replace")
    return f", in phase {name}" if head.marks else ""


def _has_aborted(head: Header) -> bool:
    """MPI_Abort was called, or will be: an exception left the program while MPI was initialised."""
    will_abort = head.exit_status != 0 and head.mpi_state == MPI_INITIALISED
    return bool(head.state == ABORTED or will_abort)
