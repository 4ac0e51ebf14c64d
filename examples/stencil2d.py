"""Heat on a plate: Jacobi iteration with radiating walls, on a grid of MPI ranks.

    mpiexec -n 4 python examples/stencil2d.py --cells 128 --steps 100

The plate is divided among a × b = p ranks, as near to square as MPI_Dims_create finds. Each rank
owns n × n cells (--cells, so that the work of a rank is the same at every p) or, with --strong, its
share of a plate of n × n cells. A rank calls `boundary` once per step for each wall of the plate
that it owns, which costs far more per cell than `inner`; where it owns no wall it has a neighbour,
and exchanges a row of cells with it. So ranks fall into classes, as in listing 1 of [CLU]:

    ranks      how many (a ≥ b ≥ 2)        walls w    neighbours k = 4 - w
    corner     4                           2          2
    edge       2 (a - 2) + 2 (b - 2)       1          3
    inner      (a - 2) (b - 2)             0          4

(b = 1: two ranks with w = 3, a - 2 with w = 2; p = 1: one with w = 4.) In a run of t steps, with
the residual taken every c steps (--check), a rank counts exactly, below stencil2d.py,

    call path                              visits       bytes sent = bytes received
    main                                   1
    main->divide->MPI_Cart_create          1
    main->step                             t
    main->step->exchange                   t
    main->step->exchange->MPI_Sendrecv     k t          8 n k t
    main->step->boundary                   w t
    main->step->boundary->boundary_top     t or 0       (so do _bottom, _left and _right)
    …->boundary_top->radiate               t or 0
    main->step->inner                      t
    main->residual                         ⌊t / c⌋
    main->residual->MPI_Allreduce          ⌊t / c⌋      8 ⌊t / c⌋

With --rim each rank also asks for the heat through its four sides: once through a side with a
neighbour; through a wall once for each stretch of half the rim, which has a + b of them as long as
a rank. So the work of a rank at a wall grows with the plate, as √p, and that of the inner ones does
not:

    main->step->flux                       (k + w (a + b)) t

A call path with no visits is not there at all. With --strong, 8 n k becomes 8 (columns of the rank)
for each neighbour above and below, plus 8 (rows of the rank) for each to the left and right.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Field = NDArray[np.float64]
Place = tuple[int | slice, int | slice]

SIDES = ("top", "bottom", "left", "right")
RADIATION = 0.2  # share of the fourth power in the balance of a wall cell
NEWTON_STEPS = 20
BETWEEN = slice(1, -1)
HALO: dict[str, tuple[Place, Place]] = {  # side: (the cells to send, the halo that receives)
    "top": ((1, BETWEEN), (0, BETWEEN)),
    "bottom": ((-2, BETWEEN), (-1, BETWEEN)),
    "left": ((BETWEEN, 1), (BETWEEN, 0)),
    "right": ((BETWEEN, -2), (BETWEEN, -1)),
}


@dataclass(frozen=True)
class Domain:
    """The data of a rank: its cells with a halo of one cell, its neighbours, its walls."""

    comm: MPI.Cartcomm
    field: Field
    new: Field
    neighbours: tuple[tuple[str, int], ...]  # (side, rank), in the order of exchange
    walls: tuple[str, ...]
    rim: int  # stretches of half the rim; 0 without --rim


def main(cells: int, steps: int, check: int, *, is_strong: bool, has_rim: bool) -> float | None:
    """Iterate; return the last residual, the same in every rank, None if none was taken."""
    domain = divide(MPI.COMM_WORLD, cells, is_strong=is_strong, has_rim=has_rim)
    change = None
    for number in range(1, steps + 1):
        step(domain)
        if number % check == 0:
            change = residual(domain)
        domain.field[1:-1, 1:-1] = domain.new[1:-1, 1:-1]
    return change


def divide(comm: MPI.Intracomm, cells: int, *, is_strong: bool, has_rim: bool) -> Domain:
    """Assign this rank its block of the plate."""
    dims = MPI.Compute_dims(comm.size, 2)
    grid = comm.Create_cart(dims)
    shape = [cells, cells]
    if is_strong:
        places = zip(grid.coords, dims, strict=True)
        shape = [cells * (at + 1) // of - cells * at // of for at, of in places]
    neighbours: list[tuple[str, int]] = []
    for axis, sides in enumerate((("top", "bottom"), ("left", "right"))):
        found = list(zip(sides, grid.Shift(axis, 1), strict=True))
        # Ranks at even positions begin with the one after them, those at odd positions with the one
        # before: all pairs of an axis exchange at once, instead of one after the other.
        neighbours += found if grid.coords[axis] % 2 else reversed(found)
    return Domain(
        comm=grid,
        field=np.full((shape[0] + 2, shape[1] + 2), 0.5),
        new=np.zeros((shape[0] + 2, shape[1] + 2)),
        neighbours=tuple((side, rank) for side, rank in neighbours if rank != MPI.PROC_NULL),
        walls=tuple(side for side, rank in neighbours if rank == MPI.PROC_NULL),
        rim=sum(dims) if has_rim else 0,
    )


def step(domain: Domain) -> None:
    """Iterate once: exchange halos, update walls by their own law, then all cells."""
    exchange(domain)
    for side in domain.walls:
        boundary(domain, side)
    if domain.rim:
        for side in SIDES:
            for stretch in range(domain.rim if side in domain.walls else 1):
                flux(domain.field, side, stretch)
    inner(domain)


def exchange(domain: Domain) -> None:
    """Exchange a row or column of cells with each neighbour."""
    for side, rank in domain.neighbours:
        cells, halo = HALO[side]
        sent = domain.field[cells].copy()
        received = np.empty(sent.size)
        domain.comm.Sendrecv(sent, rank, 0, received, rank, 0)
        domain.field[halo] = received


def flux(field: Field, side: str, stretch: int) -> float:
    """Heat through one side; what a stretch of the rim adds falls with its distance."""
    cells, halo = HALO[side]
    difference = field[halo] - field[cells]
    return float(difference @ difference) / (1 + stretch)


def boundary(domain: Domain, side: str) -> None:
    """Return the cells of a wall."""
    BOUNDARIES[side](domain.field)


def boundary_top(field: Field) -> None:
    """The upper wall sees surroundings at temperature 1."""
    field[HALO["top"][1]] = radiate(field[HALO["top"][0]], around=1.0)


def boundary_bottom(field: Field) -> None:
    """The lower wall sees surroundings at temperature 0."""
    field[HALO["bottom"][1]] = radiate(field[HALO["bottom"][0]], around=0.0)


def boundary_left(field: Field) -> None:
    """The left wall sees surroundings at temperature 0.75."""
    field[HALO["left"][1]] = radiate(field[HALO["left"][0]], around=0.75)


def boundary_right(field: Field) -> None:
    """The right wall sees surroundings at temperature 0.25."""
    field[HALO["right"][1]] = radiate(field[HALO["right"][0]], around=0.25)


BOUNDARIES: dict[str, Callable[[Field], None]] = {
    "top": boundary_top,
    "bottom": boundary_bottom,
    "left": boundary_left,
    "right": boundary_right,
}


def radiate(beside: Field, around: float) -> list[float]:
    """Temperature w of wall cells that conduct and radiate: w - u = RADIATION (around⁴ - w⁴).

    Solved by Newton's method cell by cell, always with the same number of steps: dear on purpose,
    and equally dear on every wall.
    """
    warmth = RADIATION * around**4
    walls = []
    for u in beside.tolist():
        w = u
        for _ in range(NEWTON_STEPS):
            w -= (w - u + RADIATION * w**4 - warmth) / (1.0 + 4.0 * RADIATION * w**3)
        walls.append(w)
    return walls


def inner(domain: Domain) -> None:
    """Each cell becomes the mean of its four neighbours."""
    u = domain.field
    domain.new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def residual(domain: Domain) -> float:
    """The largest change of any cell on any rank."""
    changes = np.abs(domain.new[1:-1, 1:-1] - domain.field[1:-1, 1:-1])
    local, largest = np.array([np.maximum.reduce(changes, axis=None)]), np.empty(1)
    domain.comm.Allreduce(local, largest, op=MPI.MAX)
    return float(largest[0])


def positive(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line; refuse what makes no sense."""
    parser = argparse.ArgumentParser(description="Heat on a plate, by Jacobi iteration.")
    add = parser.add_argument
    add("--cells", type=positive, default=128, help="cells per side of each rank")
    add("--steps", type=positive, default=100, help="iterations")
    add("--check", type=positive, default=10, help="steps from residual to residual")
    add("--rim", action="store_true", help="walls see half the rim of the plate")
    add("--strong", action="store_true", help="--cells is the side of the whole plate")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    world, options = MPI.COMM_WORLD, parse(sys.argv[1:])
    if options.strong and options.cells < world.size:
        sys.exit(f"--cells {options.cells} --strong: give at least as many cells as ranks")
    began_s = MPI.Wtime()
    change = main(
        options.cells, options.steps, options.check, is_strong=options.strong, has_rim=options.rim
    )
    took_s = MPI.Wtime() - began_s
    if world.rank == 0:
        end = "" if change is None else f", residual {change:.2e}"
        print(f"p={world.size}: {options.steps} steps in {took_s:.2f} s{end}")
