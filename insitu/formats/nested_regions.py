"""Flat lists of regions that contain each other, such as `main()` and `solve`, as call paths.

Regions are nested or disjoint. Two that together take longer than the program in some run cannot be
disjoint: the shorter one is inside the longer one. Other regions stay directly below the program.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, RunKey
from insitu.modeling.classes.supplements import LONGER
from insitu.modeling.measurement import FloatArray, RunTable

# As languages and compilers name the function that contains the program.
PROGRAM = re.compile(r"(int\s+)?_*main_*\s*(\(.*\))?", re.IGNORECASE)
TOLERANCE = 0.01  # relative: times of a region and of the regions inside differ by rounding, noise

Runs = Sequence[tuple[RunKey, RunTable]]
Nesting = Mapping[CallPath, CallPath]  # the call path of each region


def find_nesting(runs: Runs) -> Nesting:
    """Return the call path of each region by its times; empty if they are no flat list.

    One region must be named as the program, and no other may take longer in any run.
    """
    tables = [table for _, table in runs]
    regions = tuple(dict.fromkeys(path for table in tables for path in table.callpaths))
    has_own_times = any(TIME_EXCLUSIVE.name in table.values for table in tables)
    if has_own_times or any(path.parent is not None for path in regions):
        return {}
    times = np.array([_mean_times(table, regions) for table in tables]).T
    programs = [row for row, path in enumerate(regions) if PROGRAM.fullmatch(path.name)]
    if len(programs) != 1 or len(regions) < 2:
        return {}

    program = programs[0]
    is_known = np.isfinite(times[program])
    if not is_known.all() or not all(_may_contain(times[program], row) for row in times):
        return {}

    children: dict[int, list[int]] = {program: []}
    nesting = {regions[program]: regions[program]}
    others = [row for row in range(len(regions)) if row != program]
    for row in sorted(others, key=lambda row: -float(np.nansum(times[row]))):
        caller = _find_caller(row, program, times, children)
        children[caller].append(row)
        children[row] = []
        nesting[regions[row]] = CallPath((*nesting[regions[caller]].frames, *regions[row].frames))
    return nesting


def follow_nesting(runs: Runs, stored: Sequence[CallPath]) -> Nesting:
    """Return the call paths that regions have in a campaign; empty if it has none for them.

    Args:
        runs: with flat lists of regions.
        stored: the call paths of the campaign.
    """
    regions = {path for _, table in runs for path in table.callpaths}
    by_name: dict[str, list[CallPath]] = {}
    for path in stored:
        by_name.setdefault(path.name, []).append(path)

    roots = {path.frames[0] for path in stored}
    is_flat = all(path.parent is None for path in regions)
    if not is_flat or len(roots) != 1 or any(len(paths) > 1 for paths in by_name.values()):
        return {}
    (root,) = roots
    if PROGRAM.fullmatch(root) is None or len(stored) < 2:
        return {}
    new = {path: CallPath((root, *path.frames)) for path in regions}
    return {path: by_name.get(path.name, [new[path]])[0] for path in regions}


def nest_regions(runs: Runs, nesting: Nesting) -> list[tuple[RunKey, RunTable]]:
    """Return the runs with the call paths of a nesting."""
    nested = []
    for key, table in runs:
        paths = tuple(nesting.get(path, path) for path in table.callpaths)
        sites = {nesting.get(path, path): site for path, site in table.sites.items()}
        nested.append((key, replace(table, callpaths=paths, sites=sites)))
    return nested


def find_longer_callee(runs: Runs) -> CallPath | None:
    """A call path with a longer time than its caller has; None if times contain those below them.

    Then the times are exclusive ones, or those of several threads.
    """
    for _, table in runs:
        seconds = dict(zip(table.callpaths, _mean_times(table, table.callpaths), strict=True))
        for path, time in seconds.items():
            if path.parent in seconds and time > LONGER * seconds[path.parent]:
                return path
    return None


def _mean_times(table: RunTable, regions: Sequence[CallPath]) -> FloatArray:
    """The mean time of each region over its ranks, (n_regions,); NaN where it has none."""
    rows = {path: row for row, path in enumerate(table.callpaths)}
    means = np.full(len(regions), np.nan)
    for i, path in enumerate(regions):
        if path in rows and TIME.name in table.values:
            seconds = table.values[TIME.name][rows[path]]
            if np.isfinite(seconds).any():
                means[i] = float(np.nansum(seconds)) / seconds.size
    return means


def _may_contain(outer: FloatArray, inner: FloatArray) -> bool:
    """Whether no run contradicts that a region contains another one, times (n_runs,)."""
    return not bool(np.any(inner > (1.0 + TOLERANCE) * outer))


def _find_caller(
    row: int, program: int, times: FloatArray, children: Mapping[int, Sequence[int]]
) -> int:
    """The innermost region that must contain a region; the program if no other must.

    Args:
        row: of the region in times.
        program: row of the program.
        times: (n_regions, n_runs).
        children: the regions inside each region that takes longer.
    """
    caller = program
    while True:
        must = [
            other
            for other in children[caller]
            if _may_contain(times[other], times[row])
            and np.any(times[other] + times[row] > (1.0 + TOLERANCE) * times[caller])
        ]
        if len(must) != 1:
            return caller  # where several must, the times contradict each other
        caller = must[0]
