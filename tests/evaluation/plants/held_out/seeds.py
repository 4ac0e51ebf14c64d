"""Each rank makes the seeds of the random numbers of all ranks, in each step, and takes its own."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def make_stream(step, variable):
    root = np.random.SeedSequence([step, variable])
    if len(sys.argv) > 1:
        own = np.random.SeedSequence([step, variable], spawn_key=(comm.rank,))
    else:
        own = root.spawn(comm.size)[comm.rank]
    return np.random.default_rng(own)


def perturb(values, step):
    for variable in range(4):
        values += 0.01 * make_stream(step, variable).standard_normal(len(values))


def main():
    values = np.zeros(4000)
    total = 0.0
    for step in range(120):
        perturb(values, step)
        total += comm.allreduce(float(values.mean()))


main()
