"""Each rank tries all pairs of numbers as the grid of ranks. Repaired: MPI_Dims_create."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv


def surface(nx, ny, shape):
    """Bytes that cross the borders of a block of such a grid, infinite if it does not fit."""
    if nx * ny != world.size:
        return float("inf")
    return shape[0] / nx + shape[1] / ny


def choose_grid(shape):
    if REPAIRED:
        return MPI.Compute_dims(world.size, 2)
    best = (float("inf"), 1, world.size)
    for nx in range(1, world.size + 1):
        for ny in range(1, world.size + 1):
            best = min(best, (surface(nx, ny, shape), nx, ny))
    return best[1:]


def step(block):
    for _ in range(20):
        block[1:-1, 1:-1] += 0.1 * (block[2:, 1:-1] + block[:-2, 1:-1] - 2 * block[1:-1, 1:-1])


def swap_edges(block):
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    edge = np.ascontiguousarray(block[:, 0])
    world.Sendrecv_replace(edge, right, 0, left, 0)
    block[:, -1] = edge


def main():
    block = np.random.default_rng(world.rank).random((150, 150))
    for refinement in range(100):
        choose_grid((1000 + refinement, 700))
        step(block)
        swap_edges(block)
    world.barrier()


main()
