"""The garbage collector runs in each step and visits a proxy object per rank and field."""

import gc
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
repaired = "repaired" in sys.argv


class Proxy:
    def __init__(self, owner, field):
        self.owner = owner
        self.field = field
        self.listeners = [self]


def make_proxies():
    owners = {(rank - 1) % size, (rank + 1) % size} if repaired else range(size)
    return [Proxy(owner, field) for owner in owners for field in range(1500)]


def tidy():
    """Frees the cycles of a step."""
    gc.collect()


def couple(values):
    ghost = np.zeros(100)
    world.Sendrecv(values[:100].copy(), (rank + 1) % size, recvbuf=ghost, source=(rank - 1) % size)
    for _ in range(10):
        values = np.cos(values)
    values[-100:] += ghost
    return values


def main():
    proxies = make_proxies()
    values = np.random.default_rng(rank).random(10000)
    gc.disable()
    for _ in range(60):
        values = couple(values)
        tidy()
    print(len(proxies) > 0)


main()
