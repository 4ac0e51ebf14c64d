"""Rank 0 hands out the samples of all ranks through an executor of mpi4py.futures.

Repaired: each rank computes its own samples.
"""

import sys

import numpy as np
from mpi4py import MPI
from mpi4py.futures import MPICommExecutor

SAMPLES = 40


def sample(seed):
    generator = np.random.default_rng(seed)
    values = generator.random(4000)
    for _ in range(30):
        values = np.sqrt(values + 0.1 * values * values)
    return float(values.mean())


def run_pool(comm):
    with MPICommExecutor(comm, root=0) as executor:
        if executor is not None:
            futures = [executor.submit(sample, seed) for seed in range(SAMPLES * comm.size)]
            return sum(future.result() for future in futures)
    return 0.0


def run_own(comm):
    return sum(sample(seed + SAMPLES * comm.rank) for seed in range(SAMPLES))


def main():
    comm = MPI.COMM_WORLD
    total = 0.0
    for _ in range(3):
        total += run_own(comm) if "repaired" in sys.argv else run_pool(comm)
        total = comm.allreduce(total)


main()
