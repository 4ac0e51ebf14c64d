"""The adjoint of a sparse operator: its result has the unknowns of all ranks, and is reduced."""

import sys

import numpy as np
from mpi4py import MPI
from scipy.sparse import csr_matrix

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
repaired = "repaired" in sys.argv
LOCAL = 3000
left, right = (rank - 1) % size, (rank + 1) % size


def make_operator():
    rows = np.repeat(np.arange(LOCAL), 3)
    columns = np.clip(rows + np.tile([-1, 0, 1], LOCAL), 0, LOCAL - 1)
    values = np.random.default_rng(rank).random(len(rows))
    if repaired:
        return csr_matrix((values, (rows, columns)), shape=(LOCAL, LOCAL))
    return csr_matrix((values, (rows, columns + rank * LOCAL)), shape=(LOCAL, LOCAL * size))


def apply_adjoint(operator, residual):
    update = operator.T @ residual
    if repaired:
        ghost = np.zeros(2)
        world.Sendrecv(update[-2:].copy(), right, recvbuf=ghost, source=left)
        update[:2] += ghost
        return update
    total = np.zeros_like(update)
    world.Allreduce(update, total)
    return total[rank * LOCAL : (rank + 1) * LOCAL]


def observe(state):
    for _ in range(12):
        state = np.sqrt(np.abs(np.sin(state) + 0.1))
    return state


def main():
    operator = make_operator()
    state = np.ones(LOCAL)
    for _ in range(25):
        residual = observe(state)
        state = 0.5 * apply_adjoint(operator, residual)


main()
