"""Each rank shuffles the samples of all ranks and takes its share. Repaired: its own."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv
SAMPLES = 20_000  # per rank


def epoch_indices(epoch):
    """The samples of this rank in an epoch, in their order."""
    if REPAIRED:
        return np.random.default_rng((epoch, world.rank)).permutation(SAMPLES)
    order = np.random.default_rng(epoch).permutation(SAMPLES * world.size)
    return order[world.rank :: world.size]


def gradient(weights, data, batch):
    rows = data[batch % len(data)]
    return rows.T @ (rows @ weights - 1.0) / len(batch)


def train(weights, data, order):
    for start in range(0, len(order), 1000):
        mean = np.empty_like(weights)
        world.Allreduce(gradient(weights, data, order[start : start + 1000]), mean)
        weights -= 1e-3 * mean / world.size


def main():
    data = np.random.default_rng(world.rank).random((2000, 64))
    weights = np.zeros(64)
    for epoch in range(25):
        train(weights, data, epoch_indices(epoch))


main()
