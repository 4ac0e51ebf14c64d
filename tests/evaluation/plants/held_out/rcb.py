"""Partitioning: in each step, each rank sorts the coordinates of the points of all ranks."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
POINTS = 8000
rng = np.random.default_rng(comm.rank)
mine = rng.random(POINTS)


def bisect(points):
    order = np.argsort(points, kind="stable")
    half = len(order) // 2
    return points[order[half]]


def partition():
    if len(sys.argv) > 1:
        return comm.allreduce(bisect(mine)) / comm.size
    everyone = np.random.default_rng(1).random(POINTS * comm.size)
    return bisect(everyone)


def move(cut):
    for _ in range(20):
        np.add(mine, 0.001 * (cut - mine) * np.sin(mine), out=mine)


for _ in range(60):
    move(partition())
    comm.Barrier()
