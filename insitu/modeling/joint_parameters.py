"""Parameters that changed together in all runs, and points at which they part.

Where each value of one parameter was measured with one value of another, both explain growth
equally well, and no run says what happens if only one of them changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from insitu.entities import number
from insitu.modeling.base import SeriesModel
from insitu.modeling.target import follow, joint_values

CLOSE = 0.1  # relative: as far may a point be from the relation of the measured values


@dataclass(frozen=True, slots=True)
class Parting:
    """Two parameters that changed together in all runs, but not at a point.

    expected: the value of the second one that would go with the first one there.
    """

    first: str
    second: str
    expected: float

    def describe(self, at: Sequence[float], parameters: Sequence[str]) -> str:
        """A note that predictions at this point are none."""
        values = dict(zip(parameters, at, strict=True))
        first = f"{self.first}={number(values[self.first])}"
        return (
            f"{self.first} and {self.second} changed together in all runs, and which of them causes"
            f" growth is unknown: predict {first} with {self.second}={number(self.expected)}, or"
            " make a run that changes only one of them"
        )


def find_parting(coordinate: Sequence[float], series: Sequence[SeriesModel]) -> Parting | None:
    """The first two parameters that part at a point; None where all are as in the runs.

    Args:
        coordinate: where the models predict, (n_parameters,).
        series: the models, all over the same parameters; at least one.
    """
    names = series[0].model.parameters
    if len(names) < 2:
        return None
    table = np.unique(np.concatenate([entry.model.coordinates for entry in series]), axis=0)
    for i, j in combinations(range(len(names)), 2):
        pairs = joint_values(table[:, [i, j]])
        if pairs is None:
            continue
        expected = follow(pairs, coordinate[i])
        if abs(coordinate[j] - expected) > CLOSE * expected:
            return Parting(names[i], names[j], expected)
    return None
