"""No plant: strong scaling, shifts, communicators of four ranks."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.rank, comm.size
N = 4800
row = comm.Split(rank // 4, rank)


def item(k):
    return k ^ 5


def work():
    for k in range(N // p):
        item(k)


def exchange(x, step):
    k = 1 + step % 3
    comm.Sendrecv(x, dest=(rank + k) % p, source=(rank - k) % p, recvbuf=x.copy())


def norms(x):
    row.allreduce(float(x[0]))
    buf = np.empty(1)
    comm.Allreduce(np.ones(1), buf)


def main():
    x = np.zeros(N // p)
    for step in range(20):
        work()
        exchange(x, step)
        norms(x)


main()
