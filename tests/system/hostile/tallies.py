"""Calls, messages and bytes that a tool of the profiling interface counted, beside insitu's."""

import math
from collections import Counter
from pathlib import Path

from insitu.modeling.measurement import RunTable

# In the order of a line that programs/tally.c writes, behind the name of the call; of collective
# calls it counts only visits.
METRICS = ("visits", "messages_sent", "bytes_sent", "messages_received", "bytes_received")
Tallies = Counter[tuple[str, int, str]]  # by call, rank and metric


def read_tallies(folder: Path, prefix: str) -> Tallies:
    """Read what each rank wrote at its end; ranks that did not finalize MPI are absent."""
    tallies: Tallies = Counter()
    for path in folder.glob(f"{prefix}.[0-9]*"):
        rank = int(path.suffix[1:])
        for line in path.read_text().splitlines():
            name, *numbers = line.split()
            for metric, number in zip(METRICS, numbers, strict=False):
                tallies[name, rank, metric] += int(number)
    return tallies


def compare_tallies(tallies: Tallies, table: RunTable) -> list[str]:
    """What insitu counted differently, in words."""
    measured: Tallies = Counter()
    for metric in table.values.keys() & set(METRICS):
        for path, values in zip(table.callpaths, table.values[metric], strict=True):
            for rank, value in enumerate(values):
                if not math.isnan(value):
                    measured[path.name, rank, metric] += int(value)
    lines = []
    for (name, rank, metric), expected in sorted(tallies.items()):
        if measured[name, rank, metric] != expected:
            got = measured[name, rank, metric]
            lines.append(f"counts: {metric} of {name} on rank {rank}: {got}, {expected} are right")
    return lines
