"""Calls, messages and bytes that a tool of the profiling interface counted, beside insitu's."""

import math
from collections import Counter
from pathlib import Path

from insitu.modeling.measurement import RunTable

# In the order of a line that programs/tally.c writes, behind the name of the call; of collective
# calls it counts only visits.
METRICS = ("visits", "messages_sent", "bytes_sent", "messages_received", "bytes_received")
ALL_RANKS = -1
Tallies = Counter[tuple[str, int, str]]  # by call, rank and metric


def read_tallies(folder: Path, prefix: str) -> Tallies:
    """Read what each rank wrote at its end; ranks that did not finalize MPI are absent."""
    tallies: Tallies = Counter()
    for path in folder.glob(f"{prefix}.[0-9]*"):
        rank = int(path.suffix[1:])
        path.chmod(0o600)  # some programs change the mask of new files
        for line in path.read_text().splitlines():
            name, *numbers = line.split()
            for metric, number in zip(METRICS, numbers, strict=False):
                tallies[name, rank, metric] += int(number)
    return tallies


def compare_tallies(
    tallies: Tallies, table: RunTable, *, are_ranks_equal: bool = False
) -> list[str]:
    """What insitu counted differently, in words.

    Args:
        are_ranks_equal: compare sums over ranks only.
    """
    measured: Tallies = Counter()
    for metric in table.values.keys() & set(METRICS):
        for path, values in zip(table.callpaths, table.values[metric], strict=True):
            for rank, value in enumerate(values):
                if not math.isnan(value):
                    measured[path.name, rank, metric] += int(value)
    if are_ranks_equal:
        measured, tallies = _sum_over_ranks(measured), _sum_over_ranks(tallies)
    lines = []
    for (name, rank, metric), expected in sorted(tallies.items()):
        if measured[name, rank, metric] != expected:
            got = measured[name, rank, metric]
            where = "all ranks" if rank == ALL_RANKS else f"rank {rank}"
            lines.append(f"counts: {metric} of {name} on {where}: {got}, {expected} are right")
    return lines


def _sum_over_ranks(tallies: Tallies) -> Tallies:
    sums: Tallies = Counter()
    for (name, _, metric), count in tallies.items():
        sums[name, ALL_RANKS, metric] += count
    return sums
