"""Nothing grows but the levels of a bisection: communicators are halved until one rank is left."""

import numpy as np
from mpi4py import MPI

CELLS = 4000


def halves(comm):
    """The communicators of a rank, each half of the one before."""
    while comm.size > 1:
        half = comm.Split(color=int(2 * comm.rank >= comm.size), key=comm.rank)
        yield half
        if comm is not MPI.COMM_WORLD:
            comm.Free()
        comm = half
    if comm is not MPI.COMM_WORLD:
        comm.Free()


def bisect(points):
    median = 0.5
    for comm in halves(MPI.COMM_WORLD):
        sums = np.array([points.sum(), len(points)])
        comm.Allreduce(MPI.IN_PLACE, sums)
        median = sums[0] / sums[1]
    return median


def smooth(points):
    for _ in range(20):
        points[1:-1] = 0.5 * points[1:-1] + 0.25 * (points[2:] + points[:-2])


def main():
    points = np.random.default_rng(MPI.COMM_WORLD.rank).random(CELLS)
    for _ in range(12):
        bisect(points)
        smooth(points)


main()
