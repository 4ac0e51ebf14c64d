"""Measured values as arrays: the result of a run, and the experiment that modeling receives."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from insitu.entities import CallPath, Metric, RunKey

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Coordinate = tuple[float, ...]
LEAST_IDLE = 4  # coordinates without crowded runs, whose times show a law


@dataclass(frozen=True, slots=True)
class RunTable:
    """The result of a run, with the value of every rank.

    `values[metric name]` has shape (n_call_paths, n_ranks), float64, NaN where a rank has no value
    (call path not visited, metric not available). Times are in seconds, memory in bytes. `sites`
    has the file and line where the function at the end of a call path is defined, if known.
    """

    callpaths: tuple[CallPath, ...]
    metrics: tuple[Metric, ...]
    values: Mapping[str, FloatArray]
    sites: Mapping[CallPath, tuple[str, int]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return next((array.shape[1] for array in self.values.values()), 0)


@dataclass(frozen=True, slots=True)
class Experiment:
    """All measurements of a campaign in memory, an experiment in the sense of Extra-P.

    parameters: names of those that vary, or ("p",) if none does. runs: complete runs in the order
    in which they were measured. crowded: runs with more ranks than processor cores, and how many
    cores each had. delayed: runs that other processes kept from their cores, and the share of its
    time that the most delayed rank waited for one. Neither has times that mean much. contents: a
    digest of the values of each run, "" where unknown, or nothing. threads: of each rank of the
    crowded runs, where there were several.
    sampling_s: runs whose functions were sampled, and the CPU time between two samples.
    precisely_sampled: those of them whose samples were taken when they were due.
    """

    parameters: tuple[str, ...]
    runs: tuple[tuple[RunKey, RunTable], ...]
    crowded: Mapping[RunKey, int] = field(default_factory=dict)
    contents: tuple[str, ...] = ()
    threads: Mapping[RunKey, int] = field(default_factory=dict)
    sampling_s: Mapping[RunKey, float] = field(default_factory=dict)
    delayed: Mapping[RunKey, float] = field(default_factory=dict)
    precisely_sampled: frozenset[RunKey] = frozenset()

    def crowded_runs(self) -> frozenset[RunKey]:
        """Runs whose times contain waiting for a core: of other ranks, or of other processes."""
        return frozenset((*self.crowded, *self.delayed))

    def unjudged_runs(self) -> list[RunKey]:
        """Crowded runs whose times are used for lack of better ones; see `find_unjudged_runs`."""
        runs = [key for key, _ in self.runs]
        return find_unjudged_runs(runs, self.crowded_runs(), self.parameters)

    def unused_times(self) -> frozenset[RunKey]:
        """Crowded runs whose times are not used: enough is known of other runs."""
        return self.crowded_runs().difference(self.unjudged_runs())

    def coordinates(self) -> list[tuple[float, ...]]:
        """Return the distinct coordinates, ascending."""
        return sorted({key.coordinate(self.parameters) for key, _ in self.runs})

    def callpaths(self) -> list[CallPath]:
        """Return all call paths of the runs, sorted."""
        paths: set[CallPath] = set()
        for callpaths in {id(table.callpaths): table.callpaths for _, table in self.runs}.values():
            paths.update(callpaths)
        return sorted(paths)

    def metrics(self) -> dict[str, Metric]:
        """Return all metrics of the runs, by name."""
        return {metric.name: metric for _, table in self.runs for metric in table.metrics}


@dataclass(frozen=True, slots=True, order=True)
class SeriesKey:
    """Identifies a series: one metric of one call path in one behaviour class."""

    callpath: CallPath
    metric: str
    behaviour: str = "all"


def find_unjudged_runs(
    runs: Sequence[RunKey], crowded: Collection[RunKey], parameters: Sequence[str]
) -> list[RunKey]:
    """Return the crowded runs without which too little would be known of times.

    Those of a coordinate without another run, unless the other runs `suffice`.

    Args:
        runs: all of them. crowded: those in which ranks waited for a core. parameters: that vary.
    """
    if not crowded:
        return []
    idle = [key for key in runs if key not in crowded]
    measured, known = ({key.coordinate(parameters) for key in of} for of in (runs, idle))
    if suffice(known, measured):
        return []
    return [key for key in runs if key in crowded and key.coordinate(parameters) not in known]


def suffice(known: Collection[Coordinate], measured: Collection[Coordinate]) -> bool:
    """Return whether times at some coordinates show laws without those at the others.

    They are at least LEAST_IDLE and half of all, and reach half of the largest value of each
    parameter.

    Args:
        known: distinct coordinates of runs that were not crowded. measured: of all runs.
    """
    if len(known) < max(LEAST_IDLE, len(measured) / 2):
        return False
    largest = [max(values) for values in zip(*measured, strict=True)]
    reached = [max(values) for values in zip(*known, strict=True)]
    return all(2 * near >= far for near, far in zip(reached, largest, strict=True))
