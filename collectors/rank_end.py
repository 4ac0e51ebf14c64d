"""How a rank ended, according to the header of its table."""

import os
from collections.abc import Sequence

from insitu.collectors.table import (
    ABORTED,
    MPI_FINALISED,
    MPI_INITIALISED,
    REPLACED,
    RUNNING,
    TableReader,
)
from insitu.collectors.table_header import Header
from insitu.entities import STATUS_UNKNOWN
from insitu.wire.messages import RankEnd

SYSTEM_OBJECTS = ("ld-", "libc.", "linux-vdso")  # which no user compiles
MAX_COST = 0.02  # of the CPU time, as the default of --budget
MIN_SAMPLES = 100  # about a second of CPU time; shorter programs are started to try them
NORMAL_95 = 1.96
MAX_UNREAD_SHARE = 0.02  # of samples; fewer change no conclusion
UNREAD = {  # INSITU_UNREAD_... in native/table_header.h
    1: "memory of the rank at its end",
    2: "memory of MPI",
    4: "the time that it waited for a processor",
    8: "how many of its threads were busy",
    16: "the time that it was blocked outside MPI calls",
}
IN_OTHER_NAMESPACE = 2  # of mpi_unseen
MAX_FUNCTIONS = 24_576  # three quarters of INSITU_CODES in native/code.h


def rank_end(number: int, head: Header) -> RankEnd:
    """The exit status of a rank, and whether its values are complete."""
    has_no_status = head.state in (RUNNING, REPLACED)
    if has_no_status and head.mpi_state == MPI_FINALISED:
        return RankEnd(number, 0, True)
    if has_no_status:
        return RankEnd(number, STATUS_UNKNOWN, False)
    # The system keeps eight bits: exit(-1) is exit code 255, and negative numbers are signals here.
    return RankEnd(number, head.exit_status & 0xFF, not _has_aborted(head))


def find_problems(head: Header, end: RankEnd) -> list[tuple[str, str]]:
    """Code and text of each finding about an ended rank."""
    findings = []
    refused = head.rows_refused + head.frames_refused
    if refused:
        text = (
            f"{refused} call paths or frames did not fit into the table, or were new on a signal"
            " stack with less than 4 KiB left; their time counts for their callers, and MPI calls"
            " that they make may be missing"
        )
        findings.append(("rows-truncated", text))

    count = head.threads_refused
    if count:
        text = (
            f"{count} thread{'s' * (count > 1)} more than {head.thread_capacity} at a time: what"
            " they did is not measured"
        )
        findings.append(("threads-truncated", text))

    if head.partners_refused:
        text = (
            "there was no room for all ranks that this rank exchanges messages with: the metric"
            " partners is absent for the call paths concerned"
        )
        findings.append(("partners-truncated", text))

    count = head.stacks_unread
    if count:
        name = head.unread_object.rstrip(b"\0").decode("utf-8", "replace") or "the program"
        text = (
            f"the callers of {count} MPI call{'s' * (count > 1)} are unknown, because functions of"
            f" {name} have no unwind tables (code that is generated at run time has none): these"
            " calls count for the program as a whole"
        )
        if not name.startswith(SYSTEM_OBJECTS):
            text += "; compile it with -fasynchronous-unwind-tables"
        findings.append(("stacks-unread", text))

    findings += _find_unmeasured(head) + _find_cost(head) + _find_unmeasured_functions(head)
    if head.codes_refused:
        text = (
            f"the program has more functions than the {MAX_FUNCTIONS:,} that insitu remembers:"
            " timing the others takes longer, and the budget does not limit it"
        )
        findings.append(("functions-truncated", text))

    count = head.calls_misplaced
    if count:
        text = (
            f"{count} calls ended below other open calls: greenlets took turns in a thread that did"
            " not import greenlet, or the program replaced our greenlet.settrace; the call paths of"
            " these greenlets are not right"
        )
        findings.append(("greenlets-untraced", text))

    count = head.exits_unmatched
    if count:
        text = (
            f"{count} compiled functions ended that were not open: the program switches stacks"
            " (ucontext, fibers, coroutines); the call paths of what runs on them are not right"
        )
        findings.append(("stacks-switched", text))

    if _has_aborted(head):
        text = f"the rank ended the job with status {head.exit_status}{_phase(head)}"
        findings.append(("rank-aborted", text))
    elif end.status == STATUS_UNKNOWN and head.marks:
        text = f"the rank ended abnormally, without an exit status{_phase(head)}"
        findings.append(("rank-lost", text))

    return findings + _find_foreign_start(head)


def find_outside_mpi(
    tables: Sequence[TableReader], ends: Sequence[RankEnd]
) -> list[tuple[str, str, str]]:
    """The only rank that ended abnormally outside of MPI, if others did so inside of it.

    Some launchers kill all ranks when one crashes, and do not say which. The others then wait for
    it in MPI calls, at least in programs that communicate often.

    Args:
        tables, ends: of the ranks of a node.

    Returns:
        Code, text and rank of a finding; none if it is not a single rank.
    """
    pairs = zip(tables, ends, strict=True)
    lost = [(table, end.rank) for table, end in pairs if end.status == STATUS_UNKNOWN]
    outside = [number for table, number in lost if not table.is_in_mpi()]
    is_known = all(table.header.mpi_state == MPI_INITIALISED for table, _ in lost)
    if len(lost) < 2 or len(outside) != 1 or not is_known:
        return []
    text = (
        "the rank ended abnormally outside of MPI; all others of the node that ended abnormally"
        " were in MPI calls"
    )
    return [("rank-lost", text, f"rank {outside[0]}")]


def _find_unmeasured(head: Header) -> list[tuple[str, str]]:
    """Findings about what was not measured from some moment on, or not sampled."""
    findings = []
    reason = head.stopped.rstrip(b"\0").decode("utf-8", "replace")
    if reason:
        text = f"the program was measured until {reason}; what it did from then on is not measured"
        findings.append(("measuring-stopped", text))

    findings += _find_unread(head)
    reason = head.sampling_refused.rstrip(b"\0").decode("utf-8", "replace")
    if reason:
        findings.append(("sampling-refused", f"functions were not sampled: {reason}"))
    # In Python, they are time of the function that called what cannot be read.
    is_short = head.samples < MIN_SAMPLES
    if is_compiled(head) and not is_short and head.samples_unread > MAX_UNREAD_SHARE * head.samples:
        share = head.samples_unread / head.samples
        text = f"{share:.1%} of the samples hit functions whose callers are unknown"
        findings.append(("samples-unread", f"{text}; they count for the program as a whole"))
    return findings + _find_unmeasured_devices(head)


def _find_unread(head: Header) -> list[tuple[str, str]]:
    """A finding if the process could not read about itself at its end, and something is lost."""
    findings: list[tuple[str, str]] = []
    missing = [name for bit, name in UNREAD.items() if head.unread & bit]
    if not missing:
        return findings
    text = (
        "at its end, the process could not open files of /proc/self"
        f" ({os.strerror(head.unread_error)}), as in a sandbox (Landlock), under another root or"
        f" without free descriptors; not measured: {', '.join(missing)}"
    )
    findings.append(("process-unread", text))
    return findings


def _find_unmeasured_functions(head: Header) -> list[tuple[str, str]]:
    """Findings about functions of Python that are not timed."""
    findings = []
    if head.evaluator_replaced:
        text = (
            "at the end, Python ran functions without the frame evaluator of insitu, because"
            " another tool (a debugger, a compiler) had replaced it: some calls are not counted,"
            " and their time is that of their callers"
        )
        findings.append(("evaluator-replaced", text))

    count = head.subinterpreters
    if count:
        text = (
            f"the program created {count} subinterpreter{'s' * (count > 1)}: only functions of the"
            " main interpreter are timed, the time of others counts for their callers"
        )
        findings.append(("subinterpreters", text))
    return findings


def _find_cost(head: Header) -> list[tuple[str, str]]:
    """A finding if timing compiled functions certainly took more than the budget."""
    findings: list[tuple[str, str]] = []
    taken, timing = head.samples_taken, head.samples_timing
    if taken < MIN_SAMPLES:
        return findings
    low, high = _interval_of_share(timing, taken)
    if low > max(head.budget, MAX_COST):
        text = (
            f"timing compiled functions took {timing / taken:.0%} ({low:.0%} to {high:.0%}) of the"
            " program's CPU time, those that are no longer timed included"
        )
        findings.append(("timing-costly", text))
    return findings


def _interval_of_share(hits: int, samples: int) -> tuple[float, float]:
    """The interval of a share by a sample of it, with a probability of 95 % [Wilson 1927]."""
    share, z_squared = hits / samples, NORMAL_95**2
    scale = 1 + z_squared / samples
    centre = (share + z_squared / (2 * samples)) / scale
    spread = share * (1 - share) / samples + z_squared / (4 * samples**2)
    half = NORMAL_95 * spread**0.5 / scale
    return max(centre - half, 0.0), min(centre + half, 1.0)


def _find_unmeasured_devices(head: Header) -> list[tuple[str, str]]:
    """Findings about what GPUs did and is not counted, or not where it belongs."""
    findings = []
    reason = head.device_refused.rstrip(b"\0").decode("utf-8", "replace")
    if reason:
        findings.append(("gpu-refused", f"GPUs were not measured: {reason}"))
    if head.device_dropped:
        text = f"{head.device_dropped} kernels or copies of GPUs are missing: CUPTI lost them"
        findings.append(("gpu-records-lost", text))
    if head.device_unattributed:
        text = (
            f"{head.device_unattributed} kernels or copies of GPUs count for the program as a"
            " whole: it is unknown what launched them"
        )
        findings.append(("gpu-launches-unknown", text))
    return findings


def _find_foreign_start(head: Header) -> list[tuple[str, str]]:
    """Findings about how a rank was started: by options, by another program, by another MPI."""
    findings = []
    if head.hook.rstrip(b"\0") == b"isolated":
        text = (
            "Python was started with -I, -E or -S, so only its MPI calls and its heap are measured;"
            " without this option, its functions are timed as well"
        )
        findings.append(("python-isolated", text))
    if head.state == REPLACED:
        text = (
            "the program replaced itself by another one, which insitu does not measure: neither"
            " Python 3.11 or newer nor a program linked with a shared MPI library"
        )
        findings.append(("rank-replaced", text))

    if head.mpi_unseen == IN_OTHER_NAMESPACE:
        text = (
            "an MPI library is loaded in a namespace of its own (dlmopen): calls into it are not"
            " recorded, and are time of their callers"
        )
        findings.append(("mpi-unseen", text))
    elif head.mpi_unseen:
        text = (
            "MPI was initialised, but by no call that insitu records: the program looks up the"
            " functions of MPI itself (dlsym, ctypes), so its MPI calls are time of their callers"
        )
        findings.append(("mpi-unseen", text))

    if head.mpi_size == 1 and head.size > 1:
        text = (
            f"MPI reports 1 rank, the launcher {head.size}: each rank ran alone; start the program"
            " with the mpiexec of the MPI library that it is linked with"
            " (insitu run --mpiexec PATH)"
        )
        findings.append(("mpi-singletons", text))
    return findings


def _phase(head: Header) -> str:
    """The phase in which the program was, if it marks phases."""
    name = head.latest_mark.rstrip(b"\0").decode("utf-8", "replace")
    return f", in phase {name}" if head.marks else ""


def is_compiled(head: Header) -> bool:
    """Whether the program was measured without its functions of Python."""
    return head.hook.rstrip(b"\0") in (b"preload", b"isolated")


def _has_aborted(head: Header) -> bool:
    """Whether MPI_Abort was called, or the launcher ends the job.

    The launcher does so if a compiled rank exits with an error while MPI is initialised. In Python,
    mpi4py finalizes MPI after the table has ended.
    """
    exits_early = is_compiled(head) and head.exit_status != 0 and head.mpi_state == MPI_INITIALISED
    return bool(head.state == ABORTED or exits_early)
