"""A sum that does not depend on the order of ranks: every rank gathers the values of all ranks."""

import sys

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
STEPS, VALUES = 20, 1000


def advance(field):
    for _ in range(30):
        field[1:-1] = 0.5 * field[1:-1] + 0.25 * (field[2:] + field[:-2])


def ordered_sum(field):
    values = np.empty((WORLD.size, VALUES))
    WORLD.Allgather(field[:VALUES], values)
    return np.sort(values, axis=None).sum()


def rounded_sum(field):
    total = np.empty(1)
    WORLD.Allreduce(np.array([round(field[:VALUES].sum(), 6)]), total)
    return total[0]


def main():
    field = np.random.default_rng(WORLD.rank).random(20_000)
    reduce_values = rounded_sum if sys.argv[1:] == ["repaired"] else ordered_sum
    for _ in range(STEPS):
        advance(field)
        reduce_values(field)


main()
