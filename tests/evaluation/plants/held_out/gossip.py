"""Ranks tell a partner the state of all ranks they have heard of. Repaired: their own state."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv


def describe(rank, step):
    return {"step": step, "load": [0.25 * rank] * 40, "name": f"host-{rank:06d}", "alive": True}


def gossip(view, step):
    """Swap views with a partner whose distance doubles."""
    view[world.rank] = describe(world.rank, step)
    told = {world.rank: view[world.rank]} if REPAIRED else view
    distance = 1 << (step % max(1, (world.size - 1).bit_length()))
    there = (world.rank + distance) % world.size
    back = (world.rank - distance) % world.size
    heard = world.sendrecv(told, dest=there, source=back)
    for rank, state in heard.items():
        if rank not in view or view[rank]["step"] < state["step"]:
            view[rank] = state
    if REPAIRED:
        for rank in list(view):
            if view[rank]["step"] < step:
                del view[rank]


def advance(field):
    for _ in range(30):
        field[1:-1] += 0.1 * (field[2:] - 2 * field[1:-1] + field[:-2])


def main():
    field = np.linspace(0, 1, 30_000)
    view = {}
    for step in range(120):
        advance(field)
        gossip(view, step)
    world.barrier()


main()
