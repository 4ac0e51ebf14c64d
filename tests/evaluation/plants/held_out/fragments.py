"""Rendering: ranks pass lists of image fragments up a tree, and rank 0 blends those of all.

Repaired: each rank blends what it has before it passes it on.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
EDGE = 48


def render(step):
    image = np.full((EDGE, EDGE), 1.0 + comm.rank)
    for i in range(20):
        image = np.cos(image + 0.01 * i * step)
    return float(np.random.default_rng(comm.rank).random()), image


def blend(fragments):
    ordered = sorted(fragments, key=lambda fragment: fragment[0])
    result = np.zeros((EDGE, EDGE))
    for _, image in ordered:
        result = 0.5 * result + 0.5 * image
    return ordered[0][0], result


def composite(fragments):
    distance = 1
    while distance < comm.size:
        if comm.rank % (2 * distance):
            comm.send(fragments, comm.rank - distance)
            return None
        if comm.rank + distance < comm.size:
            fragments = fragments + comm.recv(source=comm.rank + distance)
            if len(sys.argv) > 1:
                fragments = [blend(fragments)]
        distance *= 2
    return blend(fragments)


for step in range(60):
    composite([render(step)])
    comm.barrier()
