"""No plant: halo, a tree by hand, a cache of constant size, lines that rank 0 writes."""

import os
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.rank, comm.size
cart = comm.Create_cart(MPI.Compute_dims(p, 2), periods=(True, True))


def halo(x):
    for d in (0, 1):
        a, b = cart.Shift(d, 1)
        for dst, src in ((a, b), (b, a)):
            cart.Sendrecv(x, dest=dst, source=src, recvbuf=x.copy())


def tree_sum(v):
    mask = 1
    while mask < p:
        if rank & mask:
            comm.send(v, dest=rank - mask)
            return v
        if rank + mask < p:
            v += comm.recv(source=rank + mask)
        mask <<= 1
    return v


def cell(k):
    return k + 1


def compute():
    for k in range(100):
        cell(k)


def cache():
    return {k: bytearray(1000) for k in range(500)}


def report(step):
    if rank == 0:
        with open(os.path.join(tempfile.gettempdir(), "healthy.log"), "a") as f:
            f.write(f"{step}\n")


def main():
    c = cache()
    x = np.zeros(1000)
    for step in range(20):
        compute()
        halo(x)
        tree_sum(1.0)
        comm.allreduce(1.0)
        if step % 5 == 0:
            report(step)
    return c


keep = main()
