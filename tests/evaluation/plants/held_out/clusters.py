"""k-means with four clusters per rank: each point is compared with the clusters of all ranks."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
points_n = int(sys.argv[1])
repaired = "repaired" in sys.argv
rng = np.random.default_rng(world.rank)


def assign(points, centres):
    """The nearest centre of each point."""
    nearest = np.zeros(len(points), dtype=np.int64)
    best = np.full(len(points), np.inf)
    for number, centre in enumerate(centres):
        distance = ((points - centre) ** 2).sum(axis=1)
        closer = distance < best
        nearest[closer] = number
        best[closer] = distance[closer]
    return nearest


def move(points, nearest, centres):
    sums = np.zeros((8, 4))
    np.add.at(sums, nearest % 8, points)
    total = np.zeros_like(sums)
    world.Allreduce(sums, total)
    centres += 1e-6 * total[np.arange(len(centres)) % 8]


def main():
    points = rng.random((points_n, 4))
    clusters = 16 if repaired else 4 * world.size
    centres = np.random.default_rng(7).random((clusters, 4))
    for _ in range(10):
        nearest = assign(points, centres)
        move(points, nearest, centres)


main()
