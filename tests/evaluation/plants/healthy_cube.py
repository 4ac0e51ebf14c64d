"""No plant: a butterfly, a scan, and one rank that always works a fifth more."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.rank, comm.size


def butterfly(x):
    mask = 1
    while mask < p:
        q = rank ^ mask
        if q < p:
            comm.Sendrecv(x, dest=q, source=q, recvbuf=x.copy())
        mask <<= 1


def cell(k):
    return k


def assemble():
    for k in range(60 if rank == p - 1 else 50):
        cell(k)


def scan(x):
    comm.exscan(x)


def main():
    x = np.zeros(300)
    for _ in range(25):
        assemble()
        butterfly(x)
        scan(1)


main()
