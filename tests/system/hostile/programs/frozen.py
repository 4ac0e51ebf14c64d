"""A program that PyInstaller bundles; argv[1] is the folder of the bundle."""

import sys
from mpi4py import MPI


def work(n):
    return n * n


print(
    sum(work(i) for i in range(20)),
    getattr(sys, "frozen", False),
    MPI.COMM_WORLD.allreduce(1),
    flush=True,
)
