"""Strong scaling: rank 0 hands out 240 tasks in single pieces, however many ranks there are."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
repaired = "repaired" in sys.argv
TASKS = 240


def integrate(task):
    x = np.linspace(task, task + 1.0, 20000)
    return float(np.exp(-(np.sin(x) ** 2)).sum())


def hand_out():
    """Gives each worker that asks the next task."""
    workers = size - 1
    for task in range(TASKS):
        worker = 1 + task % workers
        world.recv(source=worker, tag=1)
        world.send(task, dest=worker, tag=2)
    for worker in range(1, size):
        world.recv(source=worker, tag=1)
        world.send(None, dest=worker, tag=2)


def work():
    total = 0.0
    while True:
        world.send(total, dest=0, tag=1)
        task = world.recv(source=0, tag=2)
        if task is None:
            return total
        total += integrate(task)


def own_tasks():
    return sum(integrate(task) for task in range(rank, TASKS, size))


def main():
    for _ in range(2):
        if repaired:
            own_tasks()
        elif rank == 0:
            hand_out()
        else:
            work()
        world.Barrier()


main()
