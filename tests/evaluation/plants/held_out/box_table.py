"""The file offset of a box is a property, which adds up the sizes of the boxes of all ranks."""

import sys

import numpy as np
from mpi4py import MPI

BOXES = 2000


class BoxTable:
    def __init__(self, sizes):
        self._sizes = sizes

    @property
    def starts(self):
        return np.concatenate([[0], np.cumsum(self._sizes)])

    def start_of(self, box):
        return int(self.starts[box])


def visit(table, first, boxes):
    return sum(table.start_of(first + box) for box in range(0, boxes, 10))


def main():
    world = MPI.COMM_WORLD
    own = 1 + np.arange(BOXES) % 7
    if "repaired" in sys.argv:
        table, first = BoxTable(own), 0
    else:
        sizes = np.empty(BOXES * world.size, dtype=own.dtype)
        world.Allgather(own, sizes)
        table, first = BoxTable(sizes), BOXES * world.rank
    for _ in range(12):
        world.allreduce(visit(table, first, BOXES))


main()
