"""The phases that a program names: what is known of a rank's memory at the end of each."""

from collections.abc import Iterator

from insitu.collectors import smaps
from insitu.collectors.ranks import Level, Rank

PAGES = ("pss", "private", "shared")  # what takes long to tell of a large process


def probe(rank: Rank, *, now_s: float) -> None:
    """Read a live rank's memory from outside: between two marks it is what the running phase has so
    far, right behind a mark what the phase had that has just ended."""
    # Read the header again: a mark since the beginning of the heartbeat must not be missed.
    head = rank.table.read_header()
    is_marked = head.named_marks != rank.marks
    rank.marks = head.named_marks
    phase = head.previous_phase if is_marked else head.current_phase
    if is_marked:
        rank.pages.pop(phase, None)  # what was there in between is not what was there at its end
    if smaps.probe(rank.memory, head.pid, now_s=now_s, has_phase_ended=is_marked and phase > 0):
        rank.pages[phase] = {f"memory_{name}": getattr(rank.memory, name) or 0 for name in PAGES}


def levels(rank: Rank) -> Iterator[Level]:
    """Memory and counters of each phase, at its row: what the rank read itself at its end, else
    what was seen from outside."""
    for number, (row, values) in enumerate(rank.table.phases(), 1):
        known = values if values["memory_pss"] else values | rank.pages.get(number, {})
        found = {name: float(value) for name, value in known.items() if value}
        if values["memory_rss"]:  # that nothing was moved out is good to know
            found["memory_swap"] = float(values["memory_swap"])
        yield rank.number, rank.node_rows[row], found
