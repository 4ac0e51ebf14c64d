"""Cartesian domains: the grid positions of ranks, as the program laid them out."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from insitu.entities import POSITIONS
from insitu.modeling.classes.run_groups import RunGroup
from insitu.modeling.measurement import Experiment, IntArray, RunTable

KINDS = {  # of a rank, by the number of its walls, in 1, 2 and 3 dimensions
    1: ("inner", "end"),
    2: ("inner", "edge", "corner"),
    3: ("inner", "face", "edge", "corner"),
}
AXES = "xyzt"


@dataclass(frozen=True, slots=True)
class Domain:
    """The grid positions of the ranks of a run.

    positions: (n_ranks, n_axes), as MPI_Cart_coords returns them, -1 for ranks outside the grid;
    shape: number of ranks along each axis.
    """

    positions: IntArray
    shape: tuple[int, ...]

    def walls(self) -> tuple[IntArray, IntArray]:
        """Whether each rank is the first, and whether it is the last, along each axis.

        A rank that is alone along an axis is both. Both arrays are (n_ranks, n_axes), 0 or 1.
        """
        is_first = (self.positions == 0).astype(np.intp)
        is_last = (self.positions == np.array(self.shape) - 1).astype(np.intp)
        return is_first, is_last


def find_domain(tables: Sequence[RunTable]) -> Domain | None:
    """The domain of runs that repeat each other; None if no Cartesian communicator is known."""
    for table in tables:
        columns = []
        for metric in POSITIONS:
            values = table.values.get(metric.name)
            if values is None:
                break
            known_rows = values[np.isfinite(values).any(axis=1)]
            if not len(known_rows):
                break
            columns.append(np.where(np.isfinite(known_rows[0]), known_rows[0], -1.0))

        if columns:
            positions = np.stack(columns, axis=1).astype(np.intp)
            positions[positions.min(axis=1) < 0] = -1
            return Domain(positions, tuple((positions.max(axis=0) + 1).tolist()))
    return None


def find_domains(experiment: Experiment, groups: Sequence[RunGroup]) -> list[Domain | None]:
    """The domain of each run group."""
    return [find_domain([experiment.runs[run][1] for run in group.runs]) for group in groups]


def kind_name(walls: int, axes: int) -> str:
    """The name of a rank with so many walls, such as `corner`.

    A rank has more walls than axes where the domain is one rank wide: `3 walls`.
    """
    names = KINDS.get(axes, KINDS[1][:1])
    if walls < len(names):
        return names[walls]
    return f"{walls} wall{'' if walls == 1 else 's'}"


def dims_create(size: int, dimensions: int) -> tuple[int, ...]:
    """The grid nearest to a cube, longest side first, as MPI_Dims_create makes it."""
    if dimensions == 1:
        return (size,)

    divisors = set()
    for divisor in range(1, isqrt(size) + 1):
        if size % divisor == 0:
            divisors |= {divisor, size // divisor}

    shapes = []
    for side in divisors:
        rest = dims_create(size // side, dimensions - 1)
        if side >= rest[0]:
            shapes.append((side, *rest))
    return min(shapes)


def default_domain(size: int, axes: int, is_last: bool = False) -> Domain:
    """The domain that MPI_Dims_create and MPI_Cart_create make of so many ranks.

    Args:
        size: number of ranks.
        axes: number of axes.
        is_last: whether the longest side is the last one instead of the first.
    """
    shape = dims_create(size, axes)
    if is_last:
        shape = shape[::-1]
    positions = np.stack(np.unravel_index(np.arange(size), shape), axis=1)
    return Domain(positions, shape)
