"""Runs whose ranks had to wait for a processor core, so that others decide their times."""

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from insitu.entities import (
    PROCESSOR_WAIT,
    TEAM_THREADS,
    TIME,
    CallPath,
    Finding,
    RunKey,
    is_import,
    is_start_up,
)
from insitu.modeling.base import CROWDED
from insitu.modeling.classes.run_groups import coordinate_name
from insitu.modeling.measurement import Experiment, RunTable
from insitu.text import list_some
from insitu.units import percent

TEAMS_DIFFER = "teams-differ"
PARALLEL_REGION = "(parallel "  # in names of OpenMP regions, see collectors/function_names.py
Parameters = tuple[tuple[str, float], ...]
MAX_NAMED = 5  # coordinates of crowded runs
LEAST_QUEUED = 0.2  # of its time, that a rank waits for a processor: then others decide its times


def queued_share(table: RunTable) -> float:
    """The share of its time that the most delayed rank was ready to run but on no processor.

    Imports belong to this time, unlike MPI_Init and MPI_Finalize. The start of insitu's own
    processes counts, too, where ranks use all cores.
    """
    if PROCESSOR_WAIT.name not in table.values or TIME.name not in table.values:
        return 0.0

    programs, around_mpi = _find_rows(table.callpaths)
    queued = np.nansum(table.values[PROCESSOR_WAIT.name][programs], axis=0)
    times = table.values[TIME.name][programs + around_mpi]  # at once, since each read takes 0.1 ms
    split = len(programs)
    elapsed = np.nansum(times[:split], axis=0) - np.nansum(times[split:], axis=0)
    is_known = (queued > 0) & (elapsed > 0)
    shares = np.where(is_known, queued / np.where(is_known, elapsed, 1.0), 0.0)
    return min(float(shares.max(initial=0.0)), 1.0)


@lru_cache(maxsize=64)  # most runs of a campaign have the call paths of another one
def _find_rows(paths: tuple[CallPath, ...]) -> tuple[list[int], list[int]]:
    """The rows of programs, and those of MPI_Init, MPI_Finalize and what is below them."""
    programs, around_mpi = [], []
    for row, path in enumerate(paths):
        if len(path.frames) == 1 and not path.name.startswith("("):
            programs.append(row)
        if is_start_up(path) and not is_import(path.name):
            around_mpi.append(row)
    return programs, around_mpi


def team_size(table: RunTable) -> int:
    """The most threads that a rank had in its parallel regions of OpenMP; 1 without any."""
    regions = [row for row, path in enumerate(table.callpaths) if PARALLEL_REGION in path.name]
    if TEAM_THREADS.name not in table.values or not regions:
        return 1
    threads = table.values[TEAM_THREADS.name][regions]
    return int(np.rint(np.nanmax(threads, initial=1.0)))


def report_team_sizes(experiment: Experiment) -> list[Finding]:
    """Report coordinates whose runs had teams of different sizes, as with OMP_NUM_THREADS."""
    runs_by_team: dict[Parameters, dict[int, RunKey]] = defaultdict(dict)
    for key, table in experiment.runs:
        if TEAM_THREADS.name in table.values:
            runs_by_team[key.parameters].setdefault(team_size(table), key)

    differing = {at: teams for at, teams in runs_by_team.items() if len(teams) > 1}
    if not differing:
        return []
    teams = next(iter(differing.values()))
    sizes = sorted(teams)
    names = [coordinate_name(next(iter(each.values()))) for each in differing.values()]
    listed = " and ".join(map(str, sizes))
    text = (
        f"runs at {list_some(names, 1)} had parallel regions of {listed} threads, which the models"
        f" take for repetitions: name what varies, as in --param threads={sizes[-1]}"
    )
    return [Finding(TEAMS_DIFFER, text, names[0])]


def find_delayed_runs(runs: Sequence[tuple[RunKey, RunTable]]) -> dict[RunKey, float]:
    """The runs that other processes kept from their cores; see `Experiment.delayed`."""
    shares = {key: queued_share(table) for key, table in runs}
    return {key: share for key, share in shares.items() if share >= LEAST_QUEUED}


def describe_crowding(experiment: Experiment, runs: Sequence[RunKey]) -> str:
    """Why the times of these runs mean little, by the worst of them; "" if they were not crowded.

    `64 ranks on 2 cores`, or
    `2 ranks kept from cores by other processes for up to 34 % of the time`.
    """
    densities = []
    for key in runs:
        cores = experiment.crowded.get(key, 0)
        if cores:
            threads = experiment.threads.get(key, 1)
            densities.append((key.size * threads / cores, key.size, threads, cores))
    if densities:
        _, ranks, threads, cores = max(densities)
        each = f" of {threads} threads" if threads > 1 else ""
        return f"{ranks} rank{'s' * (ranks != 1)}{each} on {cores} core{'s' * (cores != 1)}"

    delays = [(experiment.delayed[key], key.size) for key in runs if key in experiment.delayed]
    if not delays:
        return ""
    share, ranks = max(delays)
    subject = f"{ranks} ranks" if ranks != 1 else "1 rank"
    return f"{subject} kept from cores by other processes for up to {percent(share)} of the time"


def report_crowded_runs(experiment: Experiment) -> list[Finding]:
    """Report the runs whose times are not used to find classes."""
    by_threads = {
        key
        for key, cores in experiment.crowded.items()
        if key.size <= cores < key.size * experiment.threads.get(key, 1)
    }
    reasons = []
    for runs, reason in (
        (experiment.crowded.keys() - by_threads, "more ranks than processor cores at"),
        (by_threads, "more threads than processor cores at"),
        (experiment.delayed, "other processes used the processor cores at"),
    ):
        names = {coordinate_name(key) for key in runs}
        if names:
            listed = sorted(names, key=lambda name: (len(name), name))
            if len(listed) > MAX_NAMED + 1:
                listed[MAX_NAMED:] = [f"{len(listed) - MAX_NAMED} other coordinates"]
            reasons.append(f"{reason} {', '.join(listed)}")
    if not reasons:
        return []
    text = (
        f"{'; '.join(reasons)}: times show which ranks had to wait, so only counts decide which "
        "ranks behave alike"
    )
    return [Finding(CROWDED, text)]
