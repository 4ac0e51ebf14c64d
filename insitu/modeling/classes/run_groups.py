"""Runs that repeat each other: one coordinate, one number of ranks."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath, Finding, RunKey, number
from insitu.modeling.measurement import Experiment, FloatArray, IntArray

CHUNK_BYTES = 64 << 20  # values of a chunk of call paths; the search holds about five times as much


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs that repeat each other.

    key: of the repetition with the lowest number; coordinate: of all of them; size: number of
    ranks; runs: indices in the experiment.
    """

    key: RunKey
    coordinate: tuple[float, ...]
    size: int
    runs: tuple[int, ...]


def group_runs(experiment: Experiment) -> tuple[list[RunGroup], list[Finding]]:
    """Group runs by coordinate and number of ranks, ascending.

    Returns:
        The groups, and a finding that names the runs without a value for each parameter. These are
        in no group.
    """
    members: dict[tuple[tuple[float, ...], int], list[int]] = defaultdict(list)
    incomplete = []
    for index, (key, table) in enumerate(experiment.runs):
        coordinate = key.coordinate(experiment.parameters)
        if all(map(math.isfinite, coordinate)):
            members[coordinate, table.size].append(index)
        else:
            incomplete.append(key)

    groups = []
    for (coordinate, size), runs in sorted(members.items()):
        keys = [experiment.runs[run][0] for run in runs]
        first = min(keys, key=lambda key: key.repetition)
        groups.append(RunGroup(first, coordinate, size, tuple(runs)))

    return groups, _report_incomplete(incomplete, experiment.parameters)


def values_by_run(
    experiment: Experiment, metric: str, paths: Sequence[CallPath]
) -> list[FloatArray]:
    """The values of a metric per run: (n_paths, n_ranks), NaN where it was not measured.

    Infinite values count as not measured.
    """
    return PathValues(experiment, paths).by_run(metric)


class PathValues:
    """The values of some call paths, which are looked up in the tables once for all metrics."""

    def __init__(self, experiment: Experiment, paths: Sequence[CallPath]) -> None:
        self.paths = paths
        self._experiment = experiment
        rows = {path: row for row, path in enumerate(paths)}
        self._rows_of: dict[int, tuple[list[int], list[int]]] = {}  # most runs share their tuple
        for _, table in experiment.runs:
            if id(table.callpaths) not in self._rows_of:
                self._rows_of[id(table.callpaths)] = _select_rows(table.callpaths, rows)

    def by_run(self, metric: str) -> list[FloatArray]:
        """See `values_by_run`."""
        tables = []
        for _, table in self._experiment.runs:
            result = np.full((len(self.paths), table.size), np.nan)
            values = table.values.get(metric)
            sources, targets = self._rows_of[id(table.callpaths)]
            if values is not None and sources:
                measured = values[sources]
                result[targets] = np.where(np.isfinite(measured), measured, np.nan)
            tables.append(result)
        return tables


def _select_rows(
    callpaths: Sequence[CallPath], rows: Mapping[CallPath, int]
) -> tuple[list[int], list[int]]:
    """The rows of a table that are wanted, and where each belongs."""
    sources, targets = [], []
    for source, path in enumerate(callpaths):
        if path in rows:
            sources.append(source)
            targets.append(rows[path])
    return sources, targets


def chunk_paths(paths: Sequence[CallPath], experiment: Experiment) -> Iterator[list[CallPath]]:
    """Divide call paths so that the values of a metric in all runs take at most CHUNK_BYTES."""
    bytes_per_path = 8 * sum(table.size for _, table in experiment.runs)
    step = max(CHUNK_BYTES // max(bytes_per_path, 1), 1)
    for first in range(0, len(paths), step):
        yield list(paths[first : first + step])


def group_equal_rows(tables: Sequence[FloatArray | IntArray]) -> list[list[int]]:
    """The rows that are equal in every table, (n_rows, n_columns) each: lists of their indices.

    Each list is ascending, and so are the first rows of the lists.
    """
    if not tables:
        return []
    codes = np.empty((len(tables[0]), len(tables)), dtype=np.intp)
    for column, table in enumerate(tables):
        code_of: dict[bytes, int] = {}
        codes[:, column] = [code_of.setdefault(row.tobytes(), len(code_of)) for row in table]

    families: dict[bytes, list[int]] = {}
    for index, row_codes in enumerate(codes):
        families.setdefault(row_codes.tobytes(), []).append(index)
    return list(families.values())


def mean_over_runs(tables: Sequence[FloatArray]) -> FloatArray:
    """Mean of each rank over the repetitions that have a value [CLU §III-B].

    Args:
        tables: per run (n_paths, n_ranks) or (n_ranks,).

    Returns:
        An array of the same shape; NaN where no repetition has a value.
    """
    if len(tables) == 1:
        return tables[0]

    stack = np.stack(tables)
    is_present = np.isfinite(stack)
    counts = is_present.sum(axis=0)
    means = np.full(stack.shape[1:], np.nan)
    sums = np.where(is_present, stack, 0.0).sum(axis=0)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def coordinate_name(run: RunKey) -> str:
    """The parameters of a run without its repetition: `p=64,n=256`."""
    return ",".join(f"{name}={number(value)}" for name, value in run.parameters)


def _report_incomplete(runs: Sequence[RunKey], parameters: Sequence[str]) -> list[Finding]:
    if not runs:
        return []

    names = ", ".join(map(str, runs))
    text = f"not modelled because they do not set all of {', '.join(parameters)}: {names}"
    return [Finding("parameter-missing", text)]
