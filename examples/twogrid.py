"""Two-grid solver: smoothing on fine cells, correction by coarse ones, on a row of MPI ranks.

    mpiexec -n 4 python examples/twogrid.py --vol 4096 --cubes 1024 --cycles 10

Solves -u'' = f on vol cells with u = 0 at both ends; cubes neighbouring groups of vol / cubes cells
are the coarse grid, on which the same equation holds for what is missing. Each of p ranks owns
vol / p cells and cubes / p groups; the coarse equation is solved in every rank. p divides
cubes, cubes divides vol. With V = vol, C = cubes, t cycles, a rank counts, below twogrid.py,

    call path                                  visits    work of a visit
    main->start                                1         V / p cells
    main->cycle                                t
    main->cycle->smooth                        2 t       V / p cells
    main->cycle->smooth->exchange              2 t
    …->exchange->MPI_Sendrecv                  4 t       1 cell
    main->cycle->residual                      t         V / p cells
    main->cycle->residual->exchange            t
    …->exchange->MPI_Sendrecv                  2 t       1 cell
    main->cycle->restrict                      t         V / p cells, C / p groups
    main->cycle->coarse_solve                  t         C groups
    main->cycle->coarse_solve->MPI_Allgather   t         C / p groups sent, C received
    main->cycle->prolong                       t         V / p cells, C groups
    main->norm                                 1         V / p cells
    main->norm->residual                       1         V / p cells
    main->norm->MPI_Allreduce                  1         1 value over p ranks

V and C never multiply: they meet in restrict and prolong only, where they add up, as in the solver
of [DET §5.1.1].
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Field = NDArray[np.float64]

WEIGHT = 2 / 3  # of Jacobi's step: damps best what the coarse grid cannot see


@dataclass
class Part:
    """What a rank owns: cells with a halo on both sides, and how they are grouped."""

    comm: MPI.Intracomm
    u: Field
    f: Field
    groups: int
    spacing: int


def main(vol: int, cubes: int, cycles: int) -> float:
    """Solve; return the norm of the last residual, the same in every rank."""
    part = start(MPI.COMM_WORLD, vol, cubes)
    for _ in range(cycles):
        cycle(part)
    return norm(part)


def start(comm: MPI.Intracomm, vol: int, cubes: int) -> Part:
    """Give this rank its part of the row; f is 1 everywhere, in units of the cell's width."""
    cells = vol // comm.size
    return Part(comm, np.zeros(cells + 2), np.ones(cells), cubes // comm.size, vol // cubes)


def cycle(part: Part) -> None:
    """Smooth, correct, smooth."""
    smooth(part)
    prolong(part, coarse_solve(part, restrict(part, residual(part))))
    smooth(part)


def exchange(part: Part) -> None:
    """Swap the outermost cells with both neighbours; beyond the ends of the row u is 0."""
    comm, u = part.comm, part.u
    left = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    right = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    comm.Sendrecv(u[1:2], left, 0, u[-1:], right, 0)
    comm.Sendrecv(u[-2:-1], right, 0, u[:1], left, 0)


def smooth(part: Part) -> None:
    """One step of Jacobi's method."""
    exchange(part)
    u = part.u
    u[1:-1] += WEIGHT * (0.5 * (u[:-2] + u[2:] + part.f) - u[1:-1])


def residual(part: Part) -> Field:
    """What is missing in each cell."""
    exchange(part)
    u = part.u
    return part.f - (2.0 * u[1:-1] - u[:-2] - u[2:])


def restrict(part: Part, missing: Field) -> Field:
    """What is missing in each group: the mean of its cells, in units of the group's width."""
    sums = np.add.reduce(missing.reshape(part.groups, part.spacing), axis=1)
    return sums * part.spacing


def coarse_solve(part: Part, missing: Field) -> Field:
    """The correction of all groups, by elimination; 0 half a group beyond both ends."""
    everything = np.empty(part.groups * part.comm.size)
    part.comm.Allgather(missing, everything)
    right, last = everything.tolist(), len(everything) - 1
    factor = [1.0 / 3.0]
    right[0] *= factor[0]
    for i in range(1, last + 1):
        factor.append(1.0 / ((3.0 if i == last else 2.0) - factor[-1]))
        right[i] = (right[i] + right[i - 1]) * factor[-1]
    for i in range(last - 1, -1, -1):
        right[i] += factor[i] * right[i + 1]
    return np.array([0.0, *right, 0.0])


def prolong(part: Part, correction: Field) -> None:
    """Correct all cells, on straight lines between the middles of groups."""
    cells = len(part.f)
    place = np.arange(0.5, cells) + part.comm.rank * cells
    middles = (np.arange(len(correction)) - 0.5) * part.spacing
    middles[0], middles[-1] = 0.0, part.spacing * (len(correction) - 2)
    part.u[1:-1] += np.interp(place, middles, correction)


def norm(part: Part) -> float:
    """The root of the sum of squares of what is missing, over all ranks."""
    missing = residual(part)
    square, total = np.array([np.dot(missing, missing)]), np.empty(1)
    part.comm.Allreduce(square, total)
    return float(total[0]) ** 0.5


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Two-grid solver of -u'' = f.")
    parser.add_argument("--vol", type=int, default=4096, help="cells")
    parser.add_argument("--cubes", type=int, default=1024, help="groups of cells")
    parser.add_argument("--cycles", type=int, default=10, help="iterations")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    world, options = MPI.COMM_WORLD, parse(sys.argv[1:])
    if options.cubes < 1 or options.cubes % world.size or options.vol % options.cubes:
        sys.exit(f"--cubes must be a multiple of the {world.size} ranks, --vol one of --cubes")
    began_s = MPI.Wtime()
    missing = main(options.vol, options.cubes, options.cycles)
    took_s = MPI.Wtime() - began_s
    if world.rank == 0:
        print(f"p={world.size}: {options.cycles} cycles in {took_s:.2f} s, residual {missing:.2e}")
