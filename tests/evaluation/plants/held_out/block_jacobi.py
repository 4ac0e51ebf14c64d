"""Strong scaling, and a preconditioner with a block for each rank: iterations grow with p.

Repaired: blocks of fixed length.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
N = 9600
BLOCK = 200 if "repaired" in sys.argv else N // comm.size


def apply_operator(x):
    left, right = comm.rank - 1, comm.rank + 1
    padded = np.zeros(len(x) + 2)
    padded[1:-1] = x
    left = left if left >= 0 else MPI.PROC_NULL
    right = right if right < comm.size else MPI.PROC_NULL
    comm.Sendrecv(padded[-2:-1], right, 1, padded[:1], left, 1)
    comm.Sendrecv(padded[1:2], left, 2, padded[-1:], right, 2)
    return 2.000001 * x - padded[:-2] - padded[2:]


def solve_block(r):
    """The sine-free direct solution of a Poisson problem in one block, by two sums."""
    n = len(r)
    inner = np.cumsum(np.cumsum(r))
    slope = (inner[-1] + 0.0) / (n + 1)
    return slope * np.arange(1, n + 1) - np.concatenate([[0.0], inner[:-1]])


def precondition(r):
    return np.concatenate([solve_block(r[i : i + BLOCK]) for i in range(0, len(r), BLOCK)])


def dot(a, b):
    return comm.allreduce(float(a @ b))


def solve(b):
    x = np.zeros(len(b))
    r = b.copy()
    z = precondition(r)
    p = z.copy()
    rz = dot(r, z)
    target = 1e-10 * rz
    iterations = 0
    while rz > target and iterations < 400:
        q = apply_operator(p)
        alpha = rz / dot(p, q)
        x += alpha * p
        r -= alpha * q
        z = precondition(r)
        rz, old = dot(r, z), rz
        p = z + (rz / old) * p
        iterations += 1
    return x, iterations


def main():
    rows = N // comm.size
    for step in range(12):
        where = (np.arange(rows) + rows * comm.rank) / N
        _, iterations = solve(np.cos(3 * where + step) + np.cos(40 * where))
    if comm.rank == 0:
        print(iterations)


main()
