"""The class means of a run in one array: a long campaign has those of thousands of runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from insitu.modeling.measurement import FloatArray

LAYOUTS_KEPT = 16  # of metrics and numbers of series; runs of a campaign have the same

Layout = Mapping[str, slice]  # where the series of each metric are


@dataclass(frozen=True, slots=True)
class RunMeans(Mapping[str, FloatArray]):
    """The mean of each series (n_series,) by metric, of one run.

    layout: where the series of each metric are. numbers: (n,), of all metrics. An array for each
    of five metrics would take five times as many bytes as the numbers of a few call paths.
    """

    layout: Layout
    numbers: FloatArray

    @staticmethod
    def of(means: Mapping[str, FloatArray]) -> "RunMeans":
        """Copy the means of a run."""
        arrays = [np.asarray(array, dtype=np.float64) for array in means.values()]
        layout = _layout(tuple(means), tuple(map(len, arrays)))
        return RunMeans(layout, np.concatenate([np.zeros(0), *arrays]))

    def __getitem__(self, metric: str) -> FloatArray:
        """The means of a metric."""
        return self.numbers[self.layout[metric]]

    def __iter__(self) -> Iterator[str]:
        """The names of the metrics."""
        return iter(self.layout)

    def __len__(self) -> int:
        """The number of metrics."""
        return len(self.layout)


@lru_cache(maxsize=LAYOUTS_KEPT)
def _layout(metrics: tuple[str, ...], lengths: tuple[int, ...]) -> Layout:
    ends = np.cumsum((0, *lengths)).tolist()
    return {name: slice(*span) for name, span in zip(metrics, pairwise(ends), strict=True)}
