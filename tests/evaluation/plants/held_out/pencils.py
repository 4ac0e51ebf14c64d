"""Two groups of ranks, whatever their number: each rank receives the pencils of its whole group.

Repaired: groups of at most two ranks.
"""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
PENCIL = 6000


def make_group():
    if "repaired" in sys.argv:
        return world.Split(world.rank // 2, world.rank)
    return world.Split(world.rank % 2, world.rank)


class Transform:
    def __init__(self, group):
        self.group = group
        self.whole = np.empty((group.size, PENCIL))

    def start(self, pencil):
        return self.group.Iallgather(pencil, self.whole)

    def finish(self, request):
        request.Wait()
        return float(self.whole[:, 0].sum())


def smooth(pencil):
    for _ in range(60):
        pencil[1:-1] = 0.5 * pencil[1:-1] + 0.25 * (pencil[2:] + pencil[:-2])


def main():
    transform = Transform(make_group())
    pencil = np.random.default_rng(world.rank).random(PENCIL)
    for _ in range(80):
        request = transform.start(pencil.copy())
        smooth(pencil)
        transform.finish(request)


main()
