"""Where ranks are in a Cartesian domain, as the program itself laid it out."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from insitu.entities import POSITIONS
from insitu.modeling.classes.run_groups import RunGroup
from insitu.modeling.measurement import Experiment, IntArray, RunTable

KINDS = {  # of a rank, by the number of walls that it owns, in 1, 2 and 3 dimensions
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
        """Whether each rank is first, and whether it is last, along each axis: (n_ranks, n_axes).

        A rank alone along an axis is both.
        """
        first = (self.positions == 0).astype(np.intp)
        last = (self.positions == np.array(self.shape) - 1).astype(np.intp)
        return first, last


def find_domain(tables: Sequence[RunTable]) -> Domain | None:
    """The domain of runs that repeat each other; None where no Cartesian communicator is known."""
    for table in tables:
        columns = []
        for metric in POSITIONS:
            values = table.values.get(metric.name)
            known = None if values is None else values[np.isfinite(values).any(axis=1)]
            if known is None or not len(known):
                break
            columns.append(np.where(np.isfinite(known[0]), known[0], -1.0))
        if columns:
            at = np.stack(columns, axis=1).astype(np.intp)
            at[at.min(axis=1) < 0] = -1
            return Domain(at, tuple((at.max(axis=0) + 1).tolist()))
    return None


def find_domains(experiment: Experiment, places: Sequence[RunGroup]) -> list[Domain | None]:
    """The domain of each place."""
    return [find_domain([experiment.runs[run][1] for run in place.runs]) for place in places]


def kind_name(walls: int, axes: int) -> str:
    """What a rank with so many walls is called: `corner`; `3 walls` where a side is one long."""
    names = KINDS.get(axes, KINDS[1][:1])
    return names[walls] if walls < len(names) else f"{walls} wall{'' if walls == 1 else 's'}"


def dims_create(size: int, dimensions: int) -> tuple[int, ...]:
    """The grid nearest to a cube, longest side first, as MPI_Dims_create makes it."""
    if dimensions == 1:
        return (size,)
    small = [side for side in range(1, isqrt(size) + 1) if size % side == 0]
    shapes = [
        (side, *rest)
        for side in {*small, *(size // side for side in small)}
        for rest in [dims_create(size // side, dimensions - 1)]
        if side >= rest[0]
    ]
    return min(shapes)


def default_domain(size: int, axes: int, is_last: bool = False) -> Domain:
    """The domain that MPI_Dims_create and MPI_Cart_create make of so many ranks.

    `is_last` puts the longest side last instead of first.
    """
    sides = dims_create(size, axes)[:: -1 if is_last else 1]
    return Domain(np.stack(np.unravel_index(np.arange(size), sides), axis=1), sides)
