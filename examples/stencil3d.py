"""Heat in a block: Jacobi iteration with radiating faces, on a 3-D grid of MPI ranks.

    mpiexec -n 8 python examples/stencil3d.py --cells 24 --steps 50

The block is divided among a × b × c = p ranks, as near to a cube as MPI_Dims_create finds; each
rank owns n × n × n cells, so that its work is the same at every p. A rank calls `boundary` once per
step for each face of the block that it owns, which costs far more per cell than `inner`; where it
owns no face it has a neighbour, and swaps a layer of cells with it. With f faces and k = 6 - f
neighbours:

    ranks      how many (a ≥ b ≥ c ≥ 2)                           f    k
    corner     8                                                  3    3
    edge       4 (a + b + c - 6)                                  2    4
    face       2 ((a-2)(b-2) + (a-2)(c-2) + (b-2)(c-2))           1    5
    inner      (a - 2) (b - 2) (c - 2)                            0    6

(A rank alone in a dimension owns both faces there.) In t steps a rank counts exactly, below
stencil3d.py->main->step,

    call path                    visits       bytes sent = bytes received
    exchange                     t
    exchange->MPI_Sendrecv       k t          8 n² k t
    boundary                     f t
    boundary->radiate            f t
    inner                        t

and with --surface also the heat through each of its sides, where a face sees half the surface of
the block, ab + bc + ca tiles as large as a rank: its work grows as p^⅔, that of inner ranks not.

    flux                         (k + f (a b + b c + c a)) t
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Field = NDArray[np.float64]
RADIATION = 0.2  # share of the fourth power in the balance of a surface cell
NEWTON_STEPS = 40


@dataclass(frozen=True)
class Side:
    """One of the six sides of what a rank owns; rank is MPI.PROC_NULL at a face of the block."""

    axis: int
    is_upper: bool
    rank: int

    @property
    def cells(self) -> tuple[slice | int, ...]:
        """The outermost layer of own cells."""
        return self._layer(-2 if self.is_upper else 1)

    @property
    def halo(self) -> tuple[slice | int, ...]:
        """The layer beyond."""
        return self._layer(-1 if self.is_upper else 0)

    def _layer(self, at: int) -> tuple[slice | int, ...]:
        return tuple(at if axis == self.axis else slice(1, -1) for axis in range(3))


def main(cells: int, steps: int, *, has_surface: bool) -> float:
    """Iterate; return the mean temperature of this rank's cells."""
    dims = MPI.Compute_dims(MPI.COMM_WORLD.size, 3)
    grid = MPI.COMM_WORLD.Create_cart(dims)
    field = np.full((cells + 2,) * 3, 0.5)
    sides = list[Side]()
    for axis in range(3):
        below, above = grid.Shift(axis, 1)
        pair = [Side(axis, False, below), Side(axis, True, above)]
        sides += pair if grid.coords[axis] % 2 else reversed(pair)  # neighbours meet in pairs
    tiles = dims[0] * dims[1] + dims[1] * dims[2] + dims[2] * dims[0] if has_surface else 0
    for _ in range(steps):
        field = step(grid, field, sides, tiles)
    return float(field[1:-1, 1:-1, 1:-1].mean())


def step(grid: MPI.Cartcomm, field: Field, sides: list[Side], tiles: int) -> Field:
    """One iteration: halos from the neighbours, faces by their own law, then all cells."""
    exchange(grid, field, [side for side in sides if side.rank != MPI.PROC_NULL])
    for side in sides:
        if side.rank == MPI.PROC_NULL:
            boundary(field, side)
        for tile in range(tiles if side.rank == MPI.PROC_NULL else min(tiles, 1)):
            flux(field, side, tile)
    return inner(field)


def flux(field: Field, side: Side, tile: int) -> float:
    """Heat through one side; what a tile of the surface adds falls with its distance."""
    difference = field[side.halo] - field[side.cells]
    return float(np.sum(difference * difference)) / (1 + tile)


def exchange(grid: MPI.Cartcomm, field: Field, sides: list[Side]) -> None:
    """Swap one layer of cells with each neighbour."""
    for side in sides:
        sent = np.ascontiguousarray(field[side.cells])
        received = np.empty_like(sent)
        grid.Sendrecv(sent, side.rank, 0, received, side.rank, 0)
        field[side.halo] = received


def boundary(field: Field, side: Side) -> None:
    """The cells beside one face of the block: surroundings are warm above, cold below."""
    field[side.halo] = radiate(field[side.cells], around=1.0 if side.is_upper else 0.0)


def radiate(beside: Field, around: float) -> Field:
    """Temperature w of surface cells that conduct and radiate: w - u = RADIATION (around⁴ - w⁴).

    Solved by Newton's method, row by row of cells, always with the same number of steps: dear on
    purpose, and equally dear on every face.
    """
    surface = beside.copy()
    for row, u in enumerate(beside):
        w = surface[row]
        for _ in range(NEWTON_STEPS):
            w -= (w - u + RADIATION * (w**4 - around**4)) / (1.0 + 4.0 * RADIATION * w**3)
    return surface


def inner(field: Field) -> Field:
    """Each cell becomes the mean of its six neighbours."""
    new = field.copy()
    new[1:-1, 1:-1, 1:-1] = (
        field[:-2, 1:-1, 1:-1]
        + field[2:, 1:-1, 1:-1]
        + field[1:-1, :-2, 1:-1]
        + field[1:-1, 2:, 1:-1]
        + field[1:-1, 1:-1, :-2]
        + field[1:-1, 1:-1, 2:]
    ) / 6.0
    return new


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Heat in a block, by Jacobi iteration.")
    parser.add_argument("--cells", type=int, default=24, help="cells per side of each rank")
    parser.add_argument("--steps", type=int, default=50, help="iterations")
    parser.add_argument("--surface", action="store_true", help="faces see half the surface")
    options = parser.parse_args()
    if min(options.cells, options.steps) < 1:
        sys.exit("stencil3d.py: --cells and --steps are whole numbers from 1 on")
    began_s = MPI.Wtime()
    mean = main(options.cells, options.steps, has_surface=options.surface)
    if MPI.COMM_WORLD.rank == 0:
        took_s = MPI.Wtime() - began_s
        print(f"p={MPI.COMM_WORLD.size}: {options.steps} steps in {took_s:.2f} s, mean {mean:.4f}")
