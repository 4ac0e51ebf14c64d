"""Rank 0 controls the other ranks through a socket to each of them, beside MPI."""

import math
import socket
import sys

from mpi4py import MPI


class Leader:
    def __init__(self, world):
        listener = socket.create_server(("127.0.0.1", 0), backlog=world.size)
        world.bcast(listener.getsockname()[1])
        self.clients = [listener.accept()[0] for _ in range(1, world.size)]

    def next_step(self, dt):
        order = f"advance {dt:.6e}".ljust(64).encode()
        for client in self.clients:
            client.sendall(order)
        answers = [float(client.recv(64)) for client in self.clients]
        return min(answers)


class Follower:
    def __init__(self, world):
        self.connection = socket.create_connection(("127.0.0.1", world.bcast(None)))

    def next_step(self, dt):
        order = self.connection.recv(64).split()
        self.connection.sendall(f"{dt:.6e}".ljust(64).encode())
        return float(order[1])


class Collective:
    def __init__(self, world):
        self.world = world

    def next_step(self, dt):
        return self.world.allreduce(dt, op=MPI.MIN)


def advance(cells, dt):
    for number, cell in enumerate(cells):
        cells[number] = math.sin(cell + dt)
    return 1e-3 / (1 + abs(cells[0]))


def main():
    world = MPI.COMM_WORLD
    if "repaired" in sys.argv:
        control = Collective(world)
    else:
        control = Follower(world) if world.rank else Leader(world)
    cells = [0.1 * world.rank + i for i in range(3000)]
    dt = 1e-3
    for _ in range(150):
        dt = control.next_step(advance(cells, dt))


main()
