"""Master and workers: before each assignment the master sorts the workers by their last results."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
repaired = len(sys.argv) > 1
TASKS = 240  # all in all, or for each worker


def compute(task):
    return sum(i * i % (task + 7) for i in range(8000))


def score(done):
    return sum(done[-3:])


def choose(history):
    return sorted(history, key=lambda worker: score(history[worker]))[0]


def master():
    history = {worker: [0] for worker in range(1, size)}
    for task in range(TASKS):
        status = MPI.Status()
        result = comm.recv(source=MPI.ANY_SOURCE, status=status)
        worker = status.Get_source()
        if not repaired:
            choose(history)
        history[worker].append(result)
        comm.send(task, dest=worker)
    for _ in range(1, size):
        status = MPI.Status()
        comm.recv(source=MPI.ANY_SOURCE, status=status)
        comm.send(-1, dest=status.Get_source())


def worker():
    result = 0
    while True:
        comm.send(result, dest=0)
        task = comm.recv(source=0)
        if task < 0:
            return
        result = compute(task)


if size == 1:
    for task in range(TASKS):
        compute(task)
else:
    master() if rank == 0 else worker()
