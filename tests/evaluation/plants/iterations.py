"""Plants: iterations that grow as sqrt(p), an allgather by a ring; the copy of the mesh is none."""

import math

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.rank, comm.size
N = 24000


def replicated_mesh():
    # whole mesh on every rank: does not grow with p (no limit of weak kind)
    return np.zeros(N)


def ring_allgather(block):
    # p - 1 steps
    right, left = (rank + 1) % p, (rank - 1) % p
    got = block
    for _ in range(p - 1):
        new = np.empty_like(got)
        comm.Sendrecv(got, dest=right, source=left, recvbuf=new)
        got = new


def relax(x):
    return 0.5 * (x + np.roll(x, 1))


def solve(x):
    # block preconditioner, 10 sqrt(p) iterations
    for _ in range(math.floor(10 * math.sqrt(p))):
        x = relax(x)
        comm.allreduce(float(x[0]))
    return x


def main():
    mesh = replicated_mesh()
    x = np.zeros(N // p)
    for _ in range(8):
        ring_allgather(np.zeros(2000))
        x = solve(x)
    return mesh


keep = main()
