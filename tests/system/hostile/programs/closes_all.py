"""Closes every descriptor it did not open, as daemons do, and opens others with their numbers."""

import os
from mpi4py import MPI

MPI.Finalize()
os.closerange(3, 4096)
files = [os.open("/dev/null", os.O_RDWR) for _ in range(30)]


def work(n):
    return [open(os.devnull).fileno() for _ in range(n)]


for i in range(20):
    exec(compile(f"def g{i}(): return {i}\ng{i}()", f"g{i}.py", "exec"))
print(files == list(range(3, 33)), work(3)[0] >= 33, flush=True)
