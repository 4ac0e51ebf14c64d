"""Discrete events: each rank keeps the queue of the events of all ranks, and handles its own."""

import heapq
import random
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
OWN = 400
owners = [comm.rank] if len(sys.argv) > 1 else range(comm.size)


class Simulation:
    def __init__(self):
        self.queue = []
        self.state = 0.0

    def schedule(self, window):
        random.seed(window)
        for owner in owners:
            for _ in range(OWN):
                heapq.heappush(self.queue, (window + random.random(), owner))

    def handle(self, time):
        for k in range(200):
            self.state = 0.999 * self.state + time * k

    def run_window(self):
        while self.queue:
            time, owner = heapq.heappop(self.queue)
            if owner == comm.rank:
                self.handle(time)


simulation = Simulation()
for window in range(25):
    simulation.schedule(window)
    simulation.run_window()
    comm.allreduce(simulation.state, op=MPI.MAX)
