"""A licence server admits one client in a round and refuses all others, who ask again."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
repaired = "repaired" in sys.argv
pool = world.Split(world.rank // 2 if repaired else 0, world.rank)
REQUEST, ANSWER = 1, 2


def admit(waiting):
    """Answers all requests of a round; the first gets the licence."""
    names = []
    for _ in range(waiting):
        names.append(pool.recv(source=MPI.ANY_SOURCE, tag=REQUEST))
    chosen = min(names)
    for name in names:
        pool.send(name == chosen, dest=name, tag=ANSWER)


def serve():
    for waiting in range(pool.size - 1, 0, -1):
        admit(waiting)


def ask():
    pool.send(pool.rank, dest=0, tag=REQUEST)
    return pool.recv(source=0, tag=ANSWER)


def obtain():
    while not ask():
        pass


def solve(matrix):
    for _ in range(10):
        matrix = np.tanh(matrix) + 0.1 * matrix
    return matrix


def main():
    matrix = np.random.default_rng(world.rank).random((90, 90))
    for _ in range(10):
        if pool.rank == 0:
            serve()
        else:
            obtain()
        matrix = solve(matrix)
        world.Barrier()


main()
