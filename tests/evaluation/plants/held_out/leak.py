"""Two parameters: a cache of the interpolations of each step, which nobody trims.

Repaired: the last 4 are kept.

python leak.py STEPS [repaired]
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
STEPS = int(sys.argv[1])
KEEP = 4 if "repaired" in sys.argv else None


class Interpolator:
    def __init__(self, cells):
        self.points = np.linspace(0, 1, cells)
        self.cache = {}

    def weights(self, step):
        key = round(0.001 * step, 6)
        if key not in self.cache:
            self.cache[key] = np.exp(-((self.points - key) ** 2))
            if KEEP is not None and len(self.cache) > KEEP:
                del self.cache[next(iter(self.cache))]
        return self.cache[key]


def advance(field):
    for _ in range(25):
        field += 0.1 * (np.roll(field, 1) + np.roll(field, -1) - 2 * field)


def exchange(field):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    halo = np.empty(1)
    comm.Sendrecv(field[-1:], right, recvbuf=halo, source=left)
    field[0] = 0.5 * (field[0] + halo[0])


def main():
    interpolator = Interpolator(20000)
    field = np.random.default_rng(comm.rank).random(20000)
    for step in range(STEPS):
        advance(field)
        exchange(field)
        field *= interpolator.weights(step)


main()
