"""Rank 0 formats and prints a line for each cell of all ranks."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size


def format_row(row):
    return " ".join(f"{v:.6f}" for v in row)


def report(values, out):
    table = comm.gather(values, root=0)
    if rank == 0:
        for block in table:
            out.write(format_row(block) + "\n")


def summarise(values, out):
    total = comm.reduce(float(values.sum()), root=0)
    if rank == 0:
        out.write(f"{total}\n")


def relax(values):
    for _ in range(50):
        values[1:-1] = 0.5 * (values[2:] + values[:-2])


values = np.random.default_rng(rank).random(200)
with open("/dev/null", "w") as out:
    for _step in range(20):
        relax(values)
        (summarise if len(sys.argv) > 1 else report)(values, out)
