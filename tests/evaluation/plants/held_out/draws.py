"""Tasks of heavy-tailed cost fall on random ranks: the heaviest rank has ever more than the mean.

Repaired: each task costs the same, and each rank has as many.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv
PER_RANK = 30


def make_tasks():
    """Costs and owners of the tasks of all ranks, the same on each rank."""
    rng = np.random.default_rng(7)
    count = PER_RANK * comm.size
    if REPAIRED:
        return np.full(count, 30), np.arange(count) % comm.size
    costs = np.minimum(10 * (1 + rng.pareto(1.3, count)), 4000).astype(int)
    return costs, rng.integers(0, comm.size, count)


def evaluate(seed):
    x = np.linspace(0, 1, 2000) + seed
    return float(np.sqrt(1 + np.sin(x) ** 2).sum())


def run_task(cost):
    return sum(evaluate(k) for k in range(cost))


def main():
    costs, owners = make_tasks()
    mine = costs[owners == comm.rank]
    for _ in range(2):
        total = sum(run_task(int(cost)) for cost in mine)
        total = comm.allreduce(total)
    if comm.rank == 0:
        print(total)


main()
