"""Threads that all call MPI."""

import threading
from mpi4py import MPI

comm = MPI.COMM_WORLD
comms = [comm.Dup() for _ in range(4)]
totals = [0] * 4


def body(i):
    for n in range(200):
        totals[i] += comms[i].allreduce(1)
        comms[i].sendrecv(n, comm.rank, i, source=comm.rank)


threads = [threading.Thread(target=body, args=(i,)) for i in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(totals, MPI.Query_thread() == MPI.THREAD_MULTIPLE, flush=True)
