"""No limit: a grid of ranks, each of which has up to eight neighbours, corners included."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
ROWS, COLUMNS = MPI.Compute_dims(comm.size, 2)
ROW, COLUMN = divmod(comm.rank, COLUMNS)
EDGE = 120


def neighbours():
    for i in (ROW - 1, ROW, ROW + 1):
        for j in (COLUMN - 1, COLUMN, COLUMN + 1):
            if (i, j) != (ROW, COLUMN) and 0 <= i < ROWS and 0 <= j < COLUMNS:
                yield i * COLUMNS + j


def exchange(field, partners):
    halos = np.empty((len(partners), EDGE))
    requests = [comm.Irecv(halos[i], rank) for i, rank in enumerate(partners)]
    requests += [comm.Isend(field[1], rank) for rank in partners]
    MPI.Request.Waitall(requests)
    field[0] += 0.01 * halos.sum(axis=0)


def relax(field):
    inner = field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2]
    field[1:-1, 1:-1] = 0.25 * inner


def main():
    field = np.full((EDGE, EDGE), float(comm.rank))
    partners = list(neighbours())
    for step in range(250):
        exchange(field, partners)
        relax(field)
        if step % 50 == 0:
            comm.allreduce(float(field[1, 1]))


main()
