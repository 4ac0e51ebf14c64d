"""Each rank compares its box with the boxes of all ranks, in numpy."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
POINTS = 3000
rng = np.random.default_rng(rank)


def candidates(mine, boxes):
    distance = np.abs(boxes[:, None, :] - mine[None, :, :]).max(axis=2)
    return np.argwhere(distance < 0.01).size


def move(points):
    points += 0.001 * rng.standard_normal(points.shape)
    return points


def step(points, boxes):
    found = candidates(points[:500], boxes)
    move(points)
    return comm.allreduce(found)


points = rng.random((POINTS, 3))
boxes = np.tile(rng.random((64, 3)), (1 if len(sys.argv) > 1 else size, 1))
for _ in range(30):
    step(points, boxes)
