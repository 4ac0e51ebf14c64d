"""A cache of six blocks: with more ranks, each rank fetches the blocks of all anew in each step.

Repaired: each rank needs the blocks of two neighbours only.
"""

import sys
from functools import lru_cache

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
BLOCK = 500
own = np.full(BLOCK, comm.rank + 1.0)
window = MPI.Win.Create(own, own.itemsize, comm=comm)
field = np.linspace(0, 1, 10_000)


@lru_cache(maxsize=6)
def fetch(owner):
    block = np.empty(BLOCK)
    window.Lock(owner, MPI.LOCK_SHARED)
    window.Get(block, owner)
    window.Unlock(owner)
    return block


def interpolate():
    if len(sys.argv) > 1:
        owners = [(comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size]
    else:
        owners = range(comm.size)
    return sum(float(fetch(owner)[0]) for owner in owners)


def advance(value):
    for _ in range(30):
        field[1:-1] += 0.1 * (field[2:] - 2 * field[1:-1] + field[:-2])
    field[0] = value


for _ in range(60):
    advance(interpolate())
    comm.barrier()
window.Free()
