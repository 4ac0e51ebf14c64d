"""Strong scaling: each rank finds the same modes of a fixed matrix before it shares the rows.

Repaired: rank 0 finds the modes of a small matrix, for all.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
ROWS = 4800


def make_matrix(n):
    i = np.arange(n)
    return 1.0 / (1 + np.abs(i[:, None] - i[None, :]))


def find_modes(n):
    matrix = make_matrix(n)
    for _ in range(4):
        matrix = matrix @ matrix
        matrix /= np.abs(matrix).max()
    return matrix[:40]


def project(rows, modes):
    return (rows @ modes.T) @ modes


def main():
    if "repaired" in sys.argv:
        modes = comm.bcast(np.resize(find_modes(40), (40, 600)) if comm.rank == 0 else None)
    else:
        modes = find_modes(600)
    mine = range(comm.rank * ROWS // comm.size, (comm.rank + 1) * ROWS // comm.size)
    rows = np.ones((len(mine), 600)) * (1 + comm.rank)
    for _ in range(8):
        rows = project(rows, modes)
        rows /= comm.allreduce(float(np.abs(rows).max()), op=MPI.MAX)


main()
