"""Count-based classes: ranks whose exact counts are equal do the same work."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import (
    ALLOCATIONS,
    BYTES_ALLOCATED,
    BYTES_RECEIVED,
    INSTRUCTIONS,
    MESSAGES_RECEIVED,
    CallPath,
    Metric,
)
from insitu.modeling.classes.arrivals import keep_certain, may_arrivals_decide
from insitu.modeling.classes.cluster import BoolArray, cluster
from insitu.modeling.classes.exact_classes import (
    MatchedClasses,
    comparable_pairs,
    match_classes,
)
from insitu.modeling.classes.run_groups import (
    PathValues,
    RunGroup,
    chunk_paths,
    group_equal_rows,
    mean_over_runs,
    values_by_run,
)
from insitu.modeling.classes.timing_calls import find_timing_paths, group_completions
from insitu.modeling.measurement import Experiment, FloatArray

COUNT_DISTANCE = 0.005  # relative, between clusters of counts that nearly repeat
NEARLY_REPEATED = 0.0025  # relative standard deviation of repetitions: half of that distance
DISTINCT = 1e-9  # relative distance that separates any two whole numbers
LARGEST_EXACT = 2.0**53  # larger whole numbers are not exact in float64
MAX_VALUES = 128  # distinct counts of a run; more, and more than a share of its ranks, are uneven
MAX_VALUES_SHARE = 1 / 8
MAX_CLUSTERS = 8  # of counts that nearly repeat: more are noise
COMPLETION_METRICS = (BYTES_RECEIVED.name, MESSAGES_RECEIVED.name)
COUNTS_IF_REPEATED = (ALLOCATIONS.name, BYTES_ALLOCATED.name, INSTRUCTIONS.name)


@dataclass(frozen=True, slots=True)
class CountRow:
    """One count of all ranks: (n_ranks,) per run group, 0 for ranks that do not have it."""

    values: tuple[FloatArray, ...]

    @property
    def key(self) -> bytes:
        """Equal for rows with the same values."""
        return b"".join(values.tobytes() for values in self.values)


@dataclass(frozen=True, slots=True)
class CountEvidence:
    """Which ranks do the same work, by the counts that repeat.

    own: classes of each call path by its own counts; below: the same where there are any, else by
    the counts of the call paths below it; by_series: classes of one count, by metric and call path.
    A call path or series without several classes is left out.
    """

    own: Mapping[CallPath, MatchedClasses]
    below: Mapping[CallPath, MatchedClasses]
    by_series: Mapping[tuple[str, CallPath], MatchedClasses]


def collect_evidence(
    experiment: Experiment, paths: Sequence[CallPath], groups: Sequence[RunGroup]
) -> CountEvidence:
    """Find the classes that counts make of the ranks of each call path.

    Counts are evidence if they are the same in all repetitions of a run. What depends on timing is
    not: see `timing_calls` and `arrivals`. Where the counts of a call path separate its ranks,
    those below it are not used: a rank at the top of a domain and one at its left call `boundary`
    once each and are alike, though they call different functions in it.

    Args:
        experiment: all runs.
        paths: call paths whose counts are used.
        groups: runs that repeat each other.
    """
    own_rows: dict[CallPath, list[CountRow]] = {}
    completion_rows: dict[CallPath, list[CountRow]] = {}
    rows_by_series: dict[tuple[str, CallPath], CountRow] = {}
    timing = find_timing_paths(paths)
    pairs = comparable_pairs(groups) if may_arrivals_decide(experiment, paths, groups) else None

    chunks = [PathValues(experiment, chunk) for chunk in chunk_paths(paths, experiment)]
    shared_rows: dict[bytes, CountRow] = {}  # most call paths have the counts of others
    for name, metric in sorted(experiment.metrics().items()):
        if not metric.is_deterministic and name not in COUNTS_IF_REPEATED:
            continue
        for chunk in chunks:
            tables = chunk.by_run(name)
            for family, new_row in _separating_rows(metric, tables, chunk.paths, groups, pairs):
                row = shared_rows.setdefault(new_row.key, new_row)
                for path in family:
                    if path not in timing:
                        own_rows.setdefault(path, []).append(row)
                        rows_by_series[name, path] = row

        if name in COMPLETION_METRICS and timing:
            members = sorted(timing)
            tables = values_by_run(experiment, name, members)
            callers, sums = _sum_completions(tables, members, group_completions(timing))
            for family, row in _separating_rows(metric, sums, callers, groups, pairs):
                for path in family:
                    completion_rows.setdefault(path, []).append(row)

    rows_below = _rows_below(paths, own_rows, completion_rows)
    match = _CachedMatcher(groups)
    own = match.by_path(own_rows)
    return CountEvidence(
        own=own,
        below={**match.by_path(rows_below), **own},
        by_series={
            series: classes
            for series, row in rows_by_series.items()
            if (classes := match.classes([row])) is not None
        },
    )


def _separating_rows(
    metric: Metric,
    tables: Sequence[FloatArray],
    paths: Sequence[CallPath],
    groups: Sequence[RunGroup],
    pairs: Sequence[tuple[int, int]] | None,
) -> Iterator[tuple[list[CallPath], CountRow]]:
    """The counts that repeat and differ between ranks of a run, with the call paths that have them.

    Args:
        metric: of the counts.
        tables: per run (n_paths, n_ranks).
        paths: of their rows.
        groups: runs that repeat each other.
        pairs: of groups to compare, where arrivals may decide counts; None where they do not.
    """
    families = group_equal_rows(tables)
    firsts = [family[0] for family in families]
    tables = [table[firsts] for table in tables]
    exact = np.ones(len(families), dtype=bool)
    close = np.ones(len(families), dtype=bool)
    differs = np.zeros(len(families), dtype=bool)
    is_even = np.ones(len(families), dtype=bool)
    is_repeated = False

    counts = []
    for group in groups:
        filled = [np.nan_to_num(tables[run]) for run in group.runs]
        mean = mean_over_runs(filled)
        counts.append(mean)
        is_repeated |= len(filled) > 1

        stack = np.stack(filled)
        is_whole = (np.mod(stack, 1) == 0) & (stack < LARGEST_EXACT)
        exact &= (is_whole & (stack == stack[0])).all(axis=(0, 2))
        close &= _nearly_repeats(stack)
        differs |= (mean != mean[:, :1]).any(axis=1)

    for row in np.flatnonzero(differs & exact).tolist():
        for values in counts:
            limit = max(MAX_VALUES, MAX_VALUES_SHARE * values.shape[1])
            is_even[row] &= len(np.unique(values[row])) <= limit

    if not metric.is_deterministic and not is_repeated:
        return
    usable = differs & is_even & (exact | (close & metric.is_deterministic))
    for row in np.flatnonzero(usable).tolist():
        rounded = tuple(group_counts[row] for group_counts in counts)
        if not exact[row]:
            rounded = _round_to_clusters(rounded)
        if pairs is not None:
            rounded = keep_certain(rounded, pairs)
        if any((values != values[:1]).any() for values in rounded):
            yield [paths[index] for index in families[row]], CountRow(rounded)


def _nearly_repeats(stack: FloatArray) -> BoolArray:
    """Whether counts differ little between repetitions, (n_runs, n_paths, n_ranks) to (n_paths,).

    Some tools estimate counts: these are no whole numbers, but close to them in all repetitions.
    """
    mean = stack.mean(axis=0)
    spread = np.sqrt(((stack - mean) ** 2).mean(axis=0))
    nearly: BoolArray = np.sqrt((spread**2).mean(axis=1)) <= NEARLY_REPEATED * mean.mean(axis=1)
    return nearly


def _round_to_clusters(values: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
    """Replace counts that nearly repeat by the mean of their cluster in each run group."""
    rounded = []
    for group_values in values:
        labels = cluster(group_values, COUNT_DISTANCE)
        means = np.bincount(labels, weights=group_values) / np.bincount(labels)
        has_few = len(means) <= MAX_CLUSTERS
        rounded.append(means[labels] if has_few else np.full_like(group_values, means.mean()))
    return tuple(rounded)


def _sum_completions(
    tables: Sequence[FloatArray],
    paths: Sequence[CallPath],
    completions: Mapping[CallPath, Sequence[CallPath]],
) -> tuple[list[CallPath], list[FloatArray]]:
    """What all completion calls of each caller complete: the callers, and (n_callers, n_ranks)."""
    index = {path: row for row, path in enumerate(paths)}
    callers = sorted(completions)

    sums = []
    for table in tables:
        result = np.zeros((len(callers), table.shape[1]))
        for row, caller in enumerate(callers):
            members = [index[path] for path in completions[caller]]
            result[row] = np.nan_to_num(table[members]).sum(axis=0)
        sums.append(result)
    return callers, sums


def _rows_below(
    paths: Sequence[CallPath],
    own_rows: Mapping[CallPath, Sequence[CountRow]],
    completion_rows: Mapping[CallPath, Sequence[CountRow]],
) -> dict[CallPath, list[CountRow]]:
    """For call paths whose own counts separate no ranks: the counts that do so below them."""
    below = {path: list(rows) for path, rows in completion_rows.items() if path not in own_rows}
    known = set(paths)

    # From the leaves up, so that the counts of a call path are complete before its parent's.
    for path in sorted(paths, key=lambda path: (-len(path.frames), path)):
        rows = own_rows.get(path) or below.get(path)
        parent = path.parent
        while parent is not None and parent not in known:
            parent = parent.parent
        if not rows or parent is None or parent in own_rows:
            continue

        parent_rows = below.setdefault(parent, [])
        keys = {row.key for row in parent_rows}
        parent_rows += [row for row in rows if row.key not in keys]
    return below


class _CachedMatcher:
    """Matches classes; many call paths have the same counts."""

    def __init__(self, groups: Sequence[RunGroup]) -> None:
        self._groups = groups
        self._cache: dict[tuple[bytes, ...], MatchedClasses | None] = {}

    def by_path(
        self, rows: Mapping[CallPath, Sequence[CountRow]]
    ) -> dict[CallPath, MatchedClasses]:
        """The classes by path; those without several classes are left out."""
        classes = {}
        for path, path_rows in rows.items():
            matched = self.classes(path_rows)
            if matched is not None:
                classes[path] = matched
        return classes

    def classes(self, rows: Sequence[CountRow]) -> MatchedClasses | None:
        """The classes that these counts make together; None if there are not several."""
        key = tuple(row.key for row in rows)
        if key not in self._cache:
            matched = match_classes([row.values for row in rows], self._groups)
            self._cache[key] = matched if matched.count > 1 else None
        return self._cache[key]
