"""Memory and hardware counters of the phases that a program names."""

from collections.abc import Iterator

from insitu.collectors import smaps
from insitu.collectors.ranks import NS_PER_S, GaugeValues, Rank

PAGE_FIELDS = ("pss", "private", "shared")  # reading these takes long in a large process


def probe_memory(rank: Rank, *, now_s: float) -> None:
    """Read the memory of a running rank from outside, for the phase that it belongs to.

    Between two marks that is the current phase. Just after a mark it is the phase that has ended.
    """
    # Read the header again: a mark since the beginning of the heartbeat must not be missed.
    head = rank.table.read_header()
    is_marked = head.named_marks != rank.marks
    rank.marks = head.named_marks

    phase = head.previous_phase if is_marked else head.current_phase
    if is_marked:
        rank.pages.pop(phase, None)  # values from the middle of a phase are not those of its end
    if smaps.probe(rank.memory, head.pid, now_s=now_s, has_phase_ended=is_marked and phase > 0):
        values = {f"memory_{name}": getattr(rank.memory, name) or 0 for name in PAGE_FIELDS}
        rank.pages[phase] = values


def phase_gauges(rank: Rank) -> Iterator[GaugeValues]:
    """Memory and hardware counters of each phase, at its row.

    The values that the rank itself read at the end of the phase take precedence over those that
    the agent read.
    """
    for number, (row, stored) in enumerate(rank.table.phases(), 1):
        merged = stored if stored["memory_pss"] else stored | rank.pages.get(number, {})
        values = {name: float(value) for name, value in merged.items() if value}
        if "cpu_ns" in values:
            values["cpu_time"] = values.pop("cpu_ns") / NS_PER_S
        values.pop("mpi_time", None)
        if stored["cpu_ns"]:  # no time in MPI is a value, too
            values["time_mpi"] = stored["mpi_time"] * rank.tick_s
        if stored["memory_rss"]:  # no swapped memory is a value, too
            values["memory_swap"] = float(stored["memory_swap"])
        yield rank.number, rank.node_rows[row], values
