"""Resident and proportional memory of a rank, read from outside."""

import os
import time
from dataclasses import dataclass

# Reading PSS takes at most this part of the time, and so many seconds at the beginning; more where
# a phase has ended, which is told of once.
PSS_SHARE, PSS_AT_ONCE_S = 500, 0.02
PSS_SHARE_OF_PHASES, PSS_AT_ONCE_OF_PHASES_S = 50, 0.2
ROOT = "/proc"


@dataclass(slots=True)
class Memory:
    """What is known of a process's memory, in bytes; None where this machine cannot tell."""

    rss: int | None = None
    rss_peak: int | None = None
    pss: int | None = None
    private: int | None = None
    shared: int | None = None
    swap: int | None = None
    pss_took_s: float = 0.0  # all readings of PSS
    since_s: float | None = None  # monotonic time of the first


def probe(
    memory: Memory, pid: int, *, now_s: float, has_phase_ended: bool = False, root: str = ROOT
) -> bool:
    """Read what is due; whether PSS was: that takes 20 to 28 ms per GiB of small pages. Of a
    process that is gone nothing is read."""
    directory = os.path.join(root, str(pid))
    try:
        fields = _fields(os.path.join(directory, "status"))
    except OSError:
        return False
    memory.rss = fields.get("VmRSS", memory.rss)
    memory.rss_peak = fields.get("VmHWM", memory.rss_peak)
    if memory.since_s is None:
        memory.since_s = now_s
    share, at_once_s = PSS_SHARE, PSS_AT_ONCE_S
    if has_phase_ended:
        share, at_once_s = PSS_SHARE_OF_PHASES, PSS_AT_ONCE_OF_PHASES_S
    if memory.pss_took_s > at_once_s + (now_s - memory.since_s) / share:
        return False
    started = time.thread_time()
    try:
        _take(memory, _fields(os.path.join(directory, "smaps_rollup")))
    except OSError:
        memory.pss_took_s = float("inf")  # no permission, or a kernel before 4.14
        return False
    memory.pss_took_s += time.thread_time() - started
    return True


def _take(memory: Memory, rollup: dict[str, int]) -> None:
    """What one reading of smaps_rollup says of all mappings together."""
    if "Pss" not in rollup:
        return
    memory.pss = rollup["Pss"]
    memory.private = rollup.get("Private_Clean", 0) + rollup.get("Private_Dirty", 0)
    memory.shared = rollup.get("Shared_Clean", 0) + rollup.get("Shared_Dirty", 0)
    memory.swap = rollup.get("Swap")


def _fields(path: str) -> dict[str, int]:
    """`Name:   123 kB` lines in bytes."""
    found = {}
    with open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, rest = line.partition(":")
            words = rest.split()
            if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
                found[name] = int(words[0]) * 1024
    return found


def is_alive(pid: int, started: int, *, root: str = ROOT) -> bool:
    """Whether the process with this number is still the one that was started then (field 22 of
    stat)."""
    try:
        with open(os.path.join(root, str(pid), "stat"), encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return len(fields) > 19 and fields[0] not in "ZX" and int(fields[19]) == started
