"""Blocks of a tree mesh are dealt to ranks along a Hilbert curve."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
repaired = sys.argv[-1] == "repaired"
BLOCKS = 250


def order_blocks(level):
    first, last = (rank * BLOCKS, (rank + 1) * BLOCKS) if repaired else (0, size * BLOCKS)
    least, greatest, checksum = 1 << 60, -1, 0
    for block in range(first, last):
        x, y = (block * 7919 + level) & 4095, (block * 104729) & 4095
        key, s = 0, 2048
        while s:
            rx, ry = int(x & s > 0), int(y & s > 0)
            key += s * s * ((3 * rx) ^ ry)
            if not ry:
                if rx:
                    x, y = 4095 - x, 4095 - y
                x, y = y, x
            s >>= 1
        if block // BLOCKS == rank:
            least, greatest = min(least, key), max(greatest, key)
        checksum ^= key
    return least, greatest, checksum


def flux(u):
    f = 0.5 * u * u
    u[1:-1] -= 0.001 * (f[2:] - f[:-2])


def exchange(u):
    u[0] = comm.sendrecv(float(u[-2]), dest=(rank + 1) % size, source=(rank - 1) % size)


def main():
    u = np.random.default_rng(rank).random(8000)
    for level in range(10):
        order_blocks(level)
        for _ in range(100):
            flux(u)
        exchange(u)
    total = comm.allreduce(float(u.sum()))
    if rank == 0:
        print("total", round(total, 3))


main()
