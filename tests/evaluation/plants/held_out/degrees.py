"""PageRank on a graph whose vertices are sorted by degree: rank 0 has the hubs, and their edges."""

import sys

import numpy as np
from mpi4py import MPI

VERTICES = 2000
EDGES_PER_VERTEX = 16


class Graph:
    def __init__(self, world, repaired):
        self.world = world
        rng = np.random.default_rng(world.rank)
        edges = EDGES_PER_VERTEX * VERTICES if repaired else self.degrees().sum()
        self.sources = rng.integers(VERTICES, size=edges)
        self.targets = rng.integers(VERTICES, size=edges)

    def degrees(self):
        vertices = VERTICES * self.world.size
        harmonic = (1 / np.arange(1, vertices + 1)).sum()
        own = VERTICES * self.world.rank + np.arange(1, VERTICES + 1)
        return (EDGES_PER_VERTEX * vertices / harmonic / own).astype(np.int64)

    def spread(self, score):
        return np.bincount(self.targets, weights=score[self.sources], minlength=VERTICES)


def main():
    world = MPI.COMM_WORLD
    graph = Graph(world, "repaired" in sys.argv)
    score = np.ones(VERTICES)
    for _ in range(40):
        score = graph.spread(score)
        score /= world.allreduce(score.sum())


main()
