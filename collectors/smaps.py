"""Resident and proportional memory of a rank, read from outside."""

import os
import time
from dataclasses import dataclass

PSS_COST_FACTOR = 500  # the next reading no sooner than 500 times what the last one took
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
    next_pss_s: float = 0.0  # monotonic time before which PSS is not read again


def probe(memory: Memory, pid: int, *, now_s: float, root: str = ROOT) -> bool:
    """Read what is due; False when the process is gone. PSS takes 20 to 28 ms per GiB of small
    pages."""
    directory = os.path.join(root, str(pid))
    try:
        fields = _fields(os.path.join(directory, "status"))
    except OSError:
        return False
    memory.rss = fields.get("VmRSS", memory.rss)
    memory.rss_peak = fields.get("VmHWM", memory.rss_peak)
    if now_s >= memory.next_pss_s:
        started = time.perf_counter()
        try:
            _take(memory, _fields(os.path.join(directory, "smaps_rollup")))
        except OSError:
            memory.next_pss_s = float("inf")  # no permission, or a kernel before 4.14
        else:
            memory.next_pss_s = now_s + PSS_COST_FACTOR * (time.perf_counter() - started)
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
