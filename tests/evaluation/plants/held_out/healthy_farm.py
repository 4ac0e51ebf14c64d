"""Without a limit: a master gives workers a fixed number of tasks, each of which takes a while."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
TASKS = 120


def integrate(task):
    x = np.linspace(0.0, 1.0 + task, 200_000)
    return float(np.sum(np.exp(-x * x)))


def give_out():
    status = MPI.Status()
    total = 0.0
    for task in range(TASKS + comm.size - 1):
        total += comm.recv(source=MPI.ANY_SOURCE, status=status)
        comm.send(task if task < TASKS else None, dest=status.Get_source())
    return total


def work():
    result = 0.0
    while True:
        comm.send(result, dest=0)
        task = comm.recv(source=0)
        if task is None:
            return
        result = integrate(task)


if comm.size == 1:
    sum(integrate(task) for task in range(TASKS))
elif comm.rank == 0:
    give_out()
else:
    work()
