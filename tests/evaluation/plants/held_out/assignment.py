"""Rank 0 assigns the cells of all ranks anew in each step, and everyone receives the whole list."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
CELLS = 100


def assign(step):
    owners = None
    if comm.rank == 0:
        owners = [(cell + step) % comm.size for cell in range(CELLS * comm.size)]
    return comm.bcast(owners, 0)


def assign_by_rule(step):
    return [(cell + step) % comm.size for cell in range(CELLS)]


def work(n):
    s = 0.0
    for i in range(n):
        s += i * 0.5
    return s


rule = assign_by_rule if len(sys.argv) > 1 else assign
for step in range(50):
    owners = rule(step)
    work(20000)
    comm.allreduce(len(owners))
