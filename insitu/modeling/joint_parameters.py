"""Parameters that changed together in all runs, and points at which only one of them changes.

Where each value of one parameter was measured with one value of another, both explain growth
equally well, and no run says what happens if only one of them changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from insitu.entities import number
from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray
from insitu.modeling.target import follow, joint_values

CHANGED_TOGETHER = "changed together"  # in the reasons why values are none
CLOSE = 0.1  # relative: as far may a point be from the relation of the measured values


@dataclass(frozen=True, slots=True)
class JointChange:
    """Two parameters that changed together in all runs, but do not up to a point.

    expected: the value of the second one that would go with the first one there.
    """

    first: str
    second: str
    expected: float

    def __str__(self) -> str:
        """The short reason."""
        return f"{self.first} and {self.second} {CHANGED_TOGETHER}"

    def describe(self, at: Sequence[float], parameters: Sequence[str]) -> str:
        """A note that predictions at this point are none."""
        values = dict(zip(parameters, at, strict=True))
        first = f"{self.first}={number(values[self.first])}"
        return (
            f"{self} in all runs, and which of them causes growth is unknown: predict {first} with"
            f" {self.second}={number(self.expected)}, or make a run that changes only one of them"
        )


def find_joint_change(model: Model, coordinate: Sequence[float]) -> JointChange | None:
    """The first two parameters that changed together in all runs, but do not up to a point.

    None where all are as in the runs, where nothing grew, or where it is known which one does.

    Args:
        model: over several parameters, or one.
        coordinate: where it predicts, (n_parameters,).
    """
    names = model.parameters
    if len(names) < 2 or not any(segment.function.terms for segment in model.segments):
        return None
    known = {names.index(name) for name in model.depends_on}
    measured = np.ascontiguousarray(model.coordinates, dtype=float)
    for i, j, pairs in _find_joint_pairs(measured.tobytes(), len(names)):
        if known and not known >= {i, j}:
            continue
        expected = follow(pairs, coordinate[i])
        if abs(coordinate[j] - expected) > CLOSE * expected:
            return JointChange(names[i], names[j], expected)
    return None


@lru_cache(maxsize=256)  # most series of a campaign have the same coordinates
def _find_joint_pairs(measured: bytes, n_parameters: int) -> list[tuple[int, int, FloatArray]]:
    """Which columns of coordinates changed together, with their values."""
    table = np.frombuffer(measured).reshape(-1, n_parameters)
    found = []
    for i, j in combinations(range(n_parameters), 2):
        pairs = joint_values(table[:, [i, j]])
        if pairs is not None:
            found.append((i, j, pairs))
    return found
