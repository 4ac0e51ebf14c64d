"""Greenlets of gevent, which change the stack inside a call."""

import gevent
from mpi4py import MPI


def inner(i):
    gevent.sleep(0.001 * (i % 7))
    return i


def task(i):
    total = 0
    for _ in range(5):
        total += inner(i)
    return total


def main():
    tasks = [gevent.spawn(task, i) for i in range(50)]
    gevent.joinall(tasks)
    return sum(t.value for t in tasks)


print(main(), flush=True)
MPI.COMM_WORLD.Barrier()
