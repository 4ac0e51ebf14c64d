"""Adaptive quadrature: each rank may have one p-th of the error, so that it halves more intervals.

Repaired: each rank has the same tolerance.
"""

import math
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD


def density(x):
    return math.exp(3 * math.sin(2 * math.pi * x)) + 0.001 * math.sqrt(x - comm.rank)


def integrate(start, end, tolerance):
    middle = 0.5 * (start + end)
    coarse = 0.5 * (end - start) * (density(start) + density(end))
    fine = 0.5 * coarse + 0.5 * (end - start) * density(middle)
    if abs(fine - coarse) < tolerance:
        return fine
    left = integrate(start, middle, 0.5 * tolerance)
    return left + integrate(middle, end, 0.5 * tolerance)


def main():
    share = 4 if len(sys.argv) > 1 else comm.size
    total = 0.0
    for step in range(40):
        mine = integrate(comm.rank, comm.rank + 1.0, 1e-3 / share / (1 + 0.02 * step))
        total += comm.allreduce(mine)


main()
