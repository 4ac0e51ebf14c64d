"""A box and a cut-off of fixed length: the more ranks, the more of them are within the cut-off.

Repaired: the box grows with the number of ranks.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
PARTICLES = 400
LENGTH = float(comm.size) if "repaired" in sys.argv else 4.0
CUTOFF = 0.9


def bounds(rank):
    return LENGTH * rank / comm.size, LENGTH * (rank + 1) / comm.size


def within_reach():
    """The other ranks whose slab begins or ends within the cut-off of this rank's."""
    low, high = bounds(comm.rank)
    for rank in range(max(0, comm.rank - comm.size), comm.size):
        their_low, their_high = bounds(rank)
        if rank != comm.rank and their_low < high + CUTOFF and their_high > low - CUTOFF:
            yield rank


def fetch_ghosts(x, peers):
    pieces = []
    requests = []
    for peer in peers:
        low, high = bounds(peer)
        requests.append(comm.isend(x[(x > low - CUTOFF) & (x < high + CUTOFF)], peer, tag=7))
    for peer in peers:
        pieces.append(comm.recv(source=peer, tag=7))
    MPI.Request.waitall(requests)
    return np.concatenate([x, *pieces])


def accelerate(x, ghosts):
    for first in range(0, len(x), 50):
        distance = x[first : first + 50, None] - ghosts[None, :]
        near = np.abs(distance) < CUTOFF
        x[first : first + 50] += 1e-9 * (distance * near).sum(axis=1)


def main():
    low, high = bounds(comm.rank)
    x = np.random.default_rng(comm.rank).uniform(low, high, PARTICLES)
    peers = list(within_reach())
    for _ in range(30):
        ghosts = fetch_ghosts(x, peers)
        accelerate(x, ghosts)


main()
