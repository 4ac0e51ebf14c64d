"""Statistics of species: dictionaries with the counts of each rank are merged by a reduction."""

import sys
from collections import Counter

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
KINDS = 60
rng = np.random.default_rng(comm.rank)
species = rng.integers(0, KINDS, 20000)
field = rng.random(30000)


def merge(left, right):
    both = dict(left)
    both.update(right)
    return both


def count_species():
    return Counter(species.tolist())


def take_census():
    counts = count_species()
    if len(sys.argv) > 1:
        dense = np.array([counts[kind] for kind in range(KINDS)])
        total = np.empty_like(dense)
        comm.Allreduce(dense, total)
        return int(total.sum())
    records = {(comm.rank, kind): number for kind, number in counts.items()}
    everyone = comm.allreduce(records, op=merge)
    return sum(everyone.values())


def evolve():
    for _ in range(10):
        np.sin(field + 0.1, out=field)


for _ in range(40):
    evolve()
    total = take_census()
assert total == 20000 * comm.size
