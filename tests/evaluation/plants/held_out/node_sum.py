"""The ranks of a node put their forces into shared memory, and each rank adds those of all.

Repaired: each rank adds its share of the forces of all ranks, of fixed total length.
"""

import sys

import numpy as np
from mpi4py import MPI

REPAIRED = "repaired" in sys.argv
LENGTH = 24000


class NodeForces:
    def __init__(self):
        self.comm = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
        self.window = MPI.Win.Allocate_shared(8 * LENGTH, 8, comm=self.comm)
        self.slices = []
        for rank in range(self.comm.size):
            buffer, _ = self.window.Shared_query(rank)
            self.slices.append(np.ndarray(buffer=buffer, dtype="d", shape=(LENGTH,)))
        self.mine = self.slices[self.comm.rank]

    def add_up(self, columns):
        total = np.zeros(LENGTH)[columns]
        for other in self.slices:
            total += np.tanh(other[columns])
        return total


def forces(positions, out):
    for _ in range(25):
        positions += 0.01 * np.sin(positions)
    out[:] = positions


def main():
    node = NodeForces()
    size, rank = node.comm.size, node.comm.rank
    mine = slice(rank * LENGTH // size, (rank + 1) * LENGTH // size)
    columns = mine if REPAIRED else slice(None)
    positions = np.random.default_rng(rank).random(LENGTH)
    for _ in range(60):
        forces(positions, node.mine)
        node.comm.Barrier()
        node.add_up(columns)
        node.comm.Barrier()
    node.window.Free()


main()
