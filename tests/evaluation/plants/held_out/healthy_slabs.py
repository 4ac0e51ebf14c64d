"""No limit: strong scaling, a grid of fixed size in slabs, whose arrays become small."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
ROWS, COLUMNS = 480, 400


def exchange(field):
    down = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    up = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    comm.Sendrecv(field[1], down, 1, field[-1], up, 1)
    comm.Sendrecv(field[-2], up, 2, field[0], down, 2)


def relax(field):
    inner = field[1:-1, 1:-1]
    around = field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2]
    inner += 0.2 * (around - 4 * inner)


def main():
    first, last = comm.rank * ROWS // comm.size, (comm.rank + 1) * ROWS // comm.size
    field = np.random.default_rng(comm.rank).random((last - first + 2, COLUMNS))
    for step in range(300):
        exchange(field)
        relax(field)
        if step % 10 == 0:
            comm.allreduce(float(np.abs(field).max()), op=MPI.MAX)


main()
