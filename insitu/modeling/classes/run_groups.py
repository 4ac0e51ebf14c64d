"""Where an experiment was measured: coordinates, each with its repetitions and number of ranks."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath, Finding, RunKey, number
from insitu.modeling.measurement import Experiment, FloatArray


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs that repeat each other: one coordinate, one number of ranks.

    runs: their indices in the experiment; key: of the first of them.
    """

    key: RunKey
    coordinate: tuple[float, ...]
    size: int
    runs: tuple[int, ...]


def group_runs(experiment: Experiment) -> tuple[list[RunGroup], list[Finding]]:
    """Group runs into places, ascending by coordinate; name the runs that lack a parameter."""
    groups: dict[tuple[tuple[float, ...], int], list[int]] = defaultdict(list)
    incomplete = []
    for index, (key, table) in enumerate(experiment.runs):
        coordinate = key.coordinate(experiment.parameters)
        if np.all(np.isfinite(coordinate)):
            groups[coordinate, table.size].append(index)
        else:
            incomplete.append(key)
    places = []
    for (coordinate, size), runs in sorted(groups.items()):
        key = min((experiment.runs[run][0] for run in runs), key=lambda one: one.repetition)
        places.append(RunGroup(key, coordinate, size, tuple(runs)))
    return places, _left_out(incomplete, experiment.parameters)


def values_by_run(
    experiment: Experiment, metric: str, paths: Sequence[CallPath]
) -> list[FloatArray]:
    """The values of a metric per run: (n_paths, n_ranks), NaN where it was not measured.

    What is infinite was not measured either.
    """
    rows = {path: row for row, path in enumerate(paths)}
    tables = []
    for _, table in experiment.runs:
        result = np.full((len(paths), table.size), np.nan)
        values = table.values.get(metric)
        if values is not None:
            targets = [(rows[path], i) for i, path in enumerate(table.callpaths) if path in rows]
            if targets:
                target, source = np.array(targets).T
                found = values[source]
                result[target] = np.where(np.isfinite(found), found, np.nan)
        tables.append(result)
    return tables


def mean_over_runs(tables: Sequence[FloatArray]) -> FloatArray:
    """Mean over repetitions that have the value: (n_paths, n_ranks), as each [CLU §III-B]."""
    if len(tables) == 1:
        return tables[0]
    stack = np.stack(tables)
    present = np.isfinite(stack)
    numbers = present.sum(axis=0)
    means = np.full(stack.shape[1:], np.nan)
    np.divide(np.where(present, stack, 0.0).sum(axis=0), numbers, out=means, where=numbers > 0)
    return means


def coordinate_name(run: RunKey) -> str:
    """The parameters of a run without its repetition: `p=64,n=256`."""
    return ",".join(f"{name}={number(value)}" for name, value in run.parameters)


def _left_out(runs: Sequence[RunKey], parameters: Sequence[str]) -> list[Finding]:
    if not runs:
        return []
    names = ", ".join(map(str, runs))
    return [
        Finding(
            "parameter-missing",
            f"not modelled, as they do not set all of {', '.join(parameters)}: {names}",
        )
    ]
