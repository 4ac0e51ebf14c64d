"""A dense system with n rows per rank: a broadcast of a whole row for each pivot of all ranks."""

import sys

import numpy as np
from mpi4py import MPI


def main():
    world = MPI.COMM_WORLD
    n = int(sys.argv[1])
    repaired = "repaired" in sys.argv
    columns = n if repaired else n * world.size
    first = 0 if repaired else n * world.rank
    rows = np.random.default_rng(world.rank).random((n, columns))
    rows[np.arange(n), first + np.arange(n)] += columns

    def eliminate():
        pivot_row = np.empty(columns)
        for pivot in range(columns):
            owner, local = divmod(pivot, n)
            mine = repaired or owner == world.rank
            if mine:
                rows[local] /= rows[local, pivot]
                pivot_row[:] = rows[local]
            if not repaired:
                world.Bcast(pivot_row, root=owner)
            factors = rows[:, pivot].copy()
            if mine:
                factors[local] = 0
            np.subtract(rows, np.outer(factors, pivot_row), out=rows)

    eliminate()
    world.allreduce(float(rows.sum()))


main()
