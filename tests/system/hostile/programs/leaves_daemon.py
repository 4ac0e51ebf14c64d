"""Leaves a daemon behind, which writes a file after the program has ended."""

import os, time
from mpi4py import MPI

if MPI.COMM_WORLD.rank == 0 and os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for n in range(3):
        os.dup2(null, n)
    os.closerange(3, 4096)
    time.sleep(0.2)
    open("daemon", "w").write("ran")
    os._exit(0)
MPI.COMM_WORLD.Barrier()
print("end", flush=True)
