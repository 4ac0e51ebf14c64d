"""Rank 0 decides for all pairs of replicas whether they swap. Repaired: each pair does."""

import math
import random
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv


def accepts(first, second, cold, hot):
    """The criterion of Metropolis for a swap of two replicas."""
    return random.random() < math.exp(min(0.0, (first - second) * (1 / cold - 1 / hot)))


def decide_swaps(energies, temperatures):
    """The order of the replicas after an attempt for each pair."""
    order = list(range(len(energies)))
    for low in range(len(energies) - 1):
        if accepts(energies[low], energies[low + 1], temperatures[low], temperatures[low + 1]):
            order[low], order[low + 1] = order[low + 1], order[low]
    return order


def swap_replicas(energy, temperature):
    energies = world.gather(energy)
    temperatures = world.gather(temperature)
    order = decide_swaps(energies, temperatures) if world.rank == 0 else None
    return world.bcast(order)[world.rank]


def swap_pairs(energy, temperature, sweep):
    partner = world.rank + 1 if (world.rank + sweep) % 2 == 0 else world.rank - 1
    if not 0 <= partner < world.size:
        return world.rank
    other, theirs = world.sendrecv((energy, temperature), dest=partner, source=partner)
    return partner if accepts(energy, other, temperature, theirs) else world.rank


def anneal(spins, temperature):
    """A sweep over the spins; their energy."""
    for _ in range(20):
        field = np.roll(spins, 1) + np.roll(spins, -1)
        spins[:] = np.tanh(field / temperature)
    return float(-(spins * np.roll(spins, 1)).sum())


def main():
    random.seed(5 + world.rank)
    spins = np.random.default_rng(world.rank).random(20_000)
    temperature = 1.0 + 0.1 * world.rank
    for sweep in range(150):
        energy = anneal(spins, temperature)
        if REPAIRED:
            swap_pairs(energy, temperature, sweep)
        else:
            swap_replicas(energy, temperature)
    world.barrier()


main()
