"""Each rank formats the loads of all ranks in each step, though only rank 0 prints them.

Repaired: the mean load.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv


def relax(field):
    for _ in range(6):
        field[1:-1, 1:-1] = 0.25 * (
            field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
        )


def measure(field):
    return float(np.abs(np.diff(field, axis=0)).sum())


def status_line(step, loads):
    mean = sum(loads) / len(loads)
    text = f"{step:06d}"
    for _ in range(60):
        for rank, load in enumerate(loads):
            text += f" {rank:05d}:{load:12.5e}({100 * load / mean:6.2f}%)"
    return text


def report(step, load):
    if REPAIRED:
        return f"{step:06d} {comm.allreduce(load) / comm.size:12.5e}"
    loads = np.empty(comm.size)
    comm.Allgather(np.array([load]), loads)
    return status_line(step, loads.tolist())


def main():
    field = np.random.default_rng(comm.rank).random((200, 200))
    line = ""
    for step in range(60):
        relax(field)
        line = report(step, measure(field))
    if comm.rank == 0:
        print(len(line))


main()
