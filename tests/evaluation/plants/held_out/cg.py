"""Strong scaling: the whole vector is gathered for each product with the matrix."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
N = 120000
n = N // comm.size
local = np.ones(n)
whole = np.empty(n * comm.size)


def multiply_gathered(x):
    comm.Allgather(x, whole)
    lo = comm.rank * n
    y = 2.0 * x
    y[1:] -= whole[lo : lo + n - 1]
    y[:-1] -= whole[lo + 1 : lo + n]
    return y


def multiply(x):
    ghost = np.zeros(2)
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    comm.Sendrecv(x[:1].copy(), left, recvbuf=ghost[1:], source=right)
    comm.Sendrecv(x[-1:].copy(), right, recvbuf=ghost[:1], source=left)
    y = 2.0 * x
    y[1:] -= x[:-1]
    y[:-1] -= x[1:]
    return y


def dot(a, b):
    return comm.allreduce(float(a @ b))


product = multiply if len(sys.argv) > 1 else multiply_gathered
x = local.copy()
for _it in range(40):
    y = product(x)
    x = y / max(dot(y, y) ** 0.5, 1e-9)
