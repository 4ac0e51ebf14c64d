"""Rank 0 starts a process for each rank to describe its input, one after the other."""

import subprocess
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD


def describe(rank):
    return subprocess.run(["uname", "-n"], capture_output=True, text=True).stdout + str(rank)


def describe_all():
    texts = [describe(rank) for rank in range(comm.size)] if comm.rank == 0 else None
    return comm.scatter(texts, 0)


def describe_own():
    return describe(comm.rank)


def work(n):
    s = 0.0
    for i in range(n):
        s += i * 0.5
    return s


for _step in range(10):
    work(100000)
    if len(sys.argv) > 1:
        describe_own()
    else:
        describe_all()
    comm.Barrier()
