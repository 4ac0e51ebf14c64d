"""A directory of the particles of all ranks, and a schedule that rank 0 makes for all pairs."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
PARTICLES = 2000


def build_directory(ids):
    directory = {}
    for rank, others in enumerate(comm.allgather(ids)):
        for one in others:
            directory[one] = rank
    return directory


def cost(a, b):
    return (a * 7 + b * 13) % 11


def make_schedule():
    if comm.rank == 0:
        table = [cost(a, b) for a in range(comm.size) for b in range(comm.size)]
        order = sorted(range(len(table)), key=table.__getitem__)
    else:
        order = None
    order = comm.bcast(order)
    return order[comm.rank]


def push(positions):
    for _ in range(30):
        positions += 0.01 * np.sin(positions)


ids = list(range(comm.rank * PARTICLES, (comm.rank + 1) * PARTICLES))
positions = np.random.default_rng(comm.rank).random(20000)
directory = build_directory(ids) if len(sys.argv) < 2 else dict.fromkeys(ids, comm.rank)
for _step in range(10):
    push(positions)
    if len(sys.argv) < 2:
        make_schedule()
    comm.allreduce(1)
