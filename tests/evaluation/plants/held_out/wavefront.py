"""A sweep over a line of ranks: each waits for its left neighbour before it computes (sleeps)."""

import sys
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
buffer = np.zeros(100)


def work():
    time.sleep(0.01)


def sweep():
    if rank > 0:
        comm.Recv(buffer, rank - 1)
    work()
    if rank < size - 1:
        comm.Send(buffer, rank + 1)


def jacobi():
    work()
    comm.Sendrecv(buffer.copy(), (rank + 1) % size, recvbuf=buffer, source=(rank - 1) % size)


for _ in range(10):
    jacobi() if len(sys.argv) > 1 else sweep()
    comm.Barrier()
