"""Local numbers of points are looked up in the list of the points of all ranks."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
POINTS = 400
first = comm.rank * POINTS
ids = list(range(first, first + POINTS)) if len(sys.argv) > 1 else list(range(comm.size * POINTS))


def local_number(point):
    return ids.index(point)


def renumber():
    return sum(local_number(point) for point in range(first, first + POINTS))


def work(n):
    s = 0.0
    for i in range(n):
        s += i * 0.5
    return s


for step in range(40):
    work(30000)
    renumber()
    comm.allreduce(step)
