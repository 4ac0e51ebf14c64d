"""Measured values as arrays: what a run yields and what modeling gets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from insitu.entities import CallPath, Metric, RunKey

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class RunTable:
    """The result of a run, every rank's value kept.

    `values[metric name]` has one row per call path and one column per rank, float64, NaN where that
    rank has no such value (call path not visited, metric not available). Times are seconds, memory
    bytes.
    """

    callpaths: tuple[CallPath, ...]
    metrics: tuple[Metric, ...]
    values: Mapping[str, FloatArray]

    @property
    def size(self) -> int:
        """The number of ranks."""
        return next((array.shape[1] for array in self.values.values()), 0)


@dataclass(frozen=True, slots=True)
class Experiment:
    """All measurements of a campaign in memory (in Extra-P's sense): what modeling gets.

    `parameters` are the names that vary, or ("p",) where none does; `runs` are sealed runs in the
    order in which they were measured; `crowded` are those whose ranks shared processor cores.
    """

    parameters: tuple[str, ...]
    runs: tuple[tuple[RunKey, RunTable], ...]
    crowded: frozenset[RunKey] = frozenset()

    def coordinates(self) -> list[tuple[float, ...]]:
        """The distinct coordinates, ascending."""
        return sorted({key.coordinate(self.parameters) for key, _ in self.runs})

    def callpaths(self) -> list[CallPath]:
        """All call paths of the runs, in order."""
        return sorted({path for _, table in self.runs for path in table.callpaths})

    def metrics(self) -> dict[str, Metric]:
        """All metrics of the runs, by name."""
        return {metric.name: metric for _, table in self.runs for metric in table.metrics}


@dataclass(frozen=True, slots=True, order=True)
class SeriesKey:
    """What is modelled: one metric of one call path in one behaviour class."""

    callpath: CallPath
    metric: str
    behaviour: str = "all"


@dataclass(frozen=True, slots=True)
class Points:
    """The data of series that share their coordinates.

    coordinates: (n_points, n_parameters). values: (n_series, n_points, n_repetitions), NaN where it
    was not measured.
    """

    parameters: tuple[str, ...]
    coordinates: FloatArray
    values: FloatArray
    keys: Sequence[SeriesKey] = field(default=())
