"""Memory of a rank's process, read from /proc by the agent."""

import os
import time
from dataclasses import dataclass

# Reading PSS makes the kernel walk all pages: 20 to 28 ms per GiB of small pages. The readings may
# take 1/500 of the elapsed time plus an initial allowance. The end of a named phase is seen only
# once, so it may cost more.
PSS_SHARE, PSS_ALLOWANCE_S = 500, 0.02
PSS_SHARE_AT_PHASE_END, PSS_ALLOWANCE_AT_PHASE_END_S = 50, 0.2
ROOT = "/proc"


@dataclass(slots=True)
class Memory:
    """The memory of a process in bytes; None where this machine provides no value."""

    rss: int | None = None
    rss_peak: int | None = None
    pss: int | None = None
    private: int | None = None
    shared: int | None = None
    swap: int | None = None
    pss_took_s: float = 0.0  # all readings of PSS together
    since_s: float | None = None  # monotonic time of the first reading


def probe(
    memory: Memory, pid: int, *, now_s: float, has_phase_ended: bool = False, root: str = ROOT
) -> bool:
    """Read the memory of a process; return whether PSS was read, too.

    Nothing is read if the process has ended.
    """
    directory = os.path.join(root, str(pid))
    try:
        fields = _read_fields(os.path.join(directory, "status"))
    except OSError:
        return False
    memory.rss = fields.get("VmRSS", memory.rss)
    memory.rss_peak = fields.get("VmHWM", memory.rss_peak)

    if memory.since_s is None:
        memory.since_s = now_s
    share, allowance_s = PSS_SHARE, PSS_ALLOWANCE_S
    if has_phase_ended:
        share, allowance_s = PSS_SHARE_AT_PHASE_END, PSS_ALLOWANCE_AT_PHASE_END_S
    if memory.pss_took_s > allowance_s + (now_s - memory.since_s) / share:
        return False

    started = time.thread_time()
    try:
        _store_rollup(memory, _read_fields(os.path.join(directory, "smaps_rollup")))
    except OSError:
        memory.pss_took_s = float("inf")  # no permission, or a kernel before 4.14: do not try again
        return False
    memory.pss_took_s += time.thread_time() - started
    return True


def _store_rollup(memory: Memory, rollup: dict[str, int]) -> None:
    """Store the sums over all mappings, from the fields of smaps_rollup."""
    if "Pss" not in rollup:
        return
    memory.pss = rollup["Pss"]
    memory.private = rollup.get("Private_Clean", 0) + rollup.get("Private_Dirty", 0)
    memory.shared = rollup.get("Shared_Clean", 0) + rollup.get("Shared_Dirty", 0)
    memory.swap = rollup.get("Swap")


def _read_fields(path: str) -> dict[str, int]:
    """The lines of the form `Name:   123 kB`, in bytes."""
    fields = {}
    with open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, rest = line.partition(":")
            words = rest.split()
            if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
                fields[name] = int(words[0]) * 1024
    return fields


def is_alive(pid: int, started: int, *, root: str = ROOT) -> bool:
    """Whether the process runs and started at the given time, field 22 of /proc/PID/stat.

    Another process with the same id has another start time.
    """
    try:
        with open(os.path.join(root, str(pid), "stat"), encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return len(fields) > 19 and fields[0] not in "ZX" and int(fields[19]) == started
