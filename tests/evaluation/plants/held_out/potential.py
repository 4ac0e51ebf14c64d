"""Each rank adds the potentials of the clusters of all ranks at its points, in place.

Repaired: those of its own clusters and of its neighbours'.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
POINTS, CLUSTERS = 3000, 12


def gather_clusters(rng):
    mine = rng.random((CLUSTERS, 2)) + np.array([comm.rank, 0])
    everything = np.empty((comm.size, CLUSTERS, 2))
    comm.Allgather(mine, everything)
    return everything


def add_potential(total, distance, points, clusters):
    for x, charge in clusters:
        np.subtract(points, x, out=distance)
        np.square(distance, out=distance)
        np.add(distance, 0.1, out=distance)
        np.reciprocal(distance, out=distance)
        np.multiply(distance, charge, out=distance)
        np.add(total, distance, out=total)


def move(points, total):
    for _ in range(60):
        np.multiply(total, 0.99, out=total)
        np.add(points, 1e-9, out=points)


def main():
    rng = np.random.default_rng(comm.rank)
    everything = gather_clusters(rng)
    near = everything
    if "repaired" in sys.argv:
        around = [(comm.rank + shift) % comm.size for shift in (-1, 0, 1)]
        near = everything[sorted(set(around))]
    points, total, distance = rng.random(POINTS) + comm.rank, np.zeros(POINTS), np.empty(POINTS)
    for step in range(150):
        add_potential(total, distance, points, near.reshape(-1, 2))
        move(points, total)
        if step % 25 == 0:
            comm.allreduce(float(total[0]))


main()
