"""Probabilities are added exactly: a sum over all ranks has as many digits as it has terms."""

import sys
from fractions import Fraction

from mpi4py import MPI

TERMS = 60
world = MPI.COMM_WORLD
repaired = "repaired" in sys.argv


def partial_sum(step):
    first = TERMS * world.rank + step
    terms = (Fraction(1, 2 * k + 1) for k in range(first, first + TERMS))
    return sum(terms, Fraction(0))


def add_exactly(value):
    return world.allreduce(value)


def add_rounded(value):
    return world.allreduce(float(value))


def main():
    add = add_rounded if repaired else add_exactly
    for step in range(60):
        own = partial_sum(0 if repaired else step)
        total = add(own)
        assert total > 0


main()
