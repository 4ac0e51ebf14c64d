"""Strong scaling: a matrix is transposed with a message to each rank, ever smaller and ever more.

Repaired: in groups of two ranks.
"""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
EDGE = 480
group = world.Split(world.rank // 2) if len(sys.argv) > 1 else world


def transform(rows):
    return np.fft.fft(rows, axis=1) / np.sqrt(EDGE)


def transpose(rows):
    each = EDGE // group.size
    result = np.empty_like(rows)
    width = min(each, len(rows))
    requests, blocks = [], []
    for rank in range(group.size):
        if rank == group.rank:
            continue
        block = np.empty((width, width), complex)
        blocks.append((rank, block))
        requests.append(group.Irecv(block, rank))
        piece = rows[:width, rank * each : rank * each + width].T.copy()
        blocks.append((-1, piece))
        requests.append(group.Isend(piece, rank))
    MPI.Request.Waitall(requests)
    result[:] = rows
    for rank, block in blocks:
        if rank >= 0:
            result[:width, rank * each : rank * each + width] = block
    return result


def main():
    rows = np.ones((EDGE // world.size, EDGE), complex) * (world.rank + 1)
    for _ in range(60):
        rows = transpose(transform(rows))
    world.barrier()


main()
