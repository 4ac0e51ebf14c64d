"""Rank 0 collects the keys of all ranks and sorts them to choose the splitters."""

import sys

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
STEPS, KEYS = 10, 200


def move(particles):
    for _ in range(20):
        particles += np.sin(particles) * 0.01


def weight(key):
    return key[1]


def choose_splitters(keys):
    everything = WORLD.gather(keys)
    splitters = None
    if WORLD.rank == 0:
        pool = sorted((key for part in everything for key in part), key=weight)
        splitters = pool[:: max(1, len(pool) // 4)][:4]
    return WORLD.bcast(splitters)


def estimate_splitters(keys):
    middle = sorted(keys, key=weight)[len(keys) // 2][1]
    return WORLD.allreduce(middle, MPI.MAX)


def main():
    choose = estimate_splitters if sys.argv[1:] == ["repaired"] else choose_splitters
    particles = np.random.default_rng(WORLD.rank).random(20_000)
    for _ in range(STEPS):
        move(particles)
        choose([(index, float(particles[index])) for index in range(KEYS)])


main()
