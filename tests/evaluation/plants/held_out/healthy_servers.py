"""No limit: a server of files for each four ranks, so that the clients of each stay as many."""

import os
import tempfile

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
WIDTH = 4
SERVER = world.rank - world.rank % WIDTH
BLOCK = 5000


def serve(clients, path):
    """Receive the block of each client and write it."""
    block = np.empty(BLOCK)
    with open(path, "wb", buffering=0) as file:
        for client in clients:
            world.Recv(block, client, 3)
            file.write(block.tobytes())


def advance(field):
    for _ in range(60):
        field[1:-1] += 0.1 * (field[2:] - 2 * field[1:-1] + field[:-2])


def swap_edges(field):
    right = world.rank + 1 if world.rank + 1 < world.size else MPI.PROC_NULL
    left = world.rank - 1 if world.rank else MPI.PROC_NULL
    edge = np.array([field[-2]])
    world.Sendrecv_replace(edge, right, 0, left, 0)
    field[0] = edge[0]


def main():
    field = np.linspace(0, 1, 20_000)
    clients = range(SERVER + 1, min(SERVER + WIDTH, world.size))
    path = os.path.join(tempfile.gettempdir(), f"servers-{os.getpid()}.bin")
    for step in range(120):
        advance(field)
        swap_edges(field)
        if step % 4 == 0:
            if world.rank == SERVER:
                serve(clients, path)
            else:
                world.Send(field[:BLOCK].copy(), SERVER, 3)
    if world.rank == SERVER:
        os.remove(path)
    world.barrier()


main()
