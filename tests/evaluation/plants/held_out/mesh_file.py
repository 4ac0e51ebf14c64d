"""Input: each rank parses the text of the mesh of all ranks and keeps its own lines of it."""

import os
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
LINES = 4000
PATH = f"mesh{comm.size}.txt"


def write_mesh():
    with open(PATH, "w") as file:
        file.writelines(f"{i} {i * 0.5} {i * 0.25}\n" for i in range(LINES * comm.size))


def read_mesh():
    with open(PATH) as file:
        rows = [line.split() for line in file]
    mine = rows[comm.rank * LINES : (comm.rank + 1) * LINES]
    return np.array(mine, float)


def read_own():
    with open(PATH) as file:
        start = os.path.getsize(PATH) * comm.rank // comm.size
        file.seek(start)
        rows = [line.split() for line in file.readlines(LINES * 12)]
    return np.array(rows[1:-1], float)


def advance(points):
    for _ in range(100):
        points[:, 1:] = 0.9 * points[:, 1:] + 0.1 * points[:, 1:].mean(axis=0)
        comm.allreduce(points[0, 1])


if comm.rank == 0:
    write_mesh()
comm.Barrier()
advance(read_own() if len(sys.argv) > 1 else read_mesh())
