"""Particles with a controller: rank 0 keeps the statistics of each step and sends all of it to all.

Repaired: only those of this step.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv
STEPS = 40


class Particles:
    def __init__(self, count):
        rng = np.random.default_rng(100 + comm.rank)
        self.x = rng.random((count, 3))
        self.v = rng.normal(0, 0.01, (count, 3))

    def push(self, dt):
        for _ in range(8):
            force = np.sin(2 * np.pi * self.x)
            self.v += dt * force
            self.x = (self.x + dt * self.v) % 1.0

    def statistics(self):
        return {
            "rank": comm.rank,
            "energy": float((self.v**2).sum()),
            "speed": [float(s) for s in np.abs(self.v).mean(axis=0)],
            "slowest": float(np.abs(self.v).min()),
        }


class Controller:
    def __init__(self):
        self.history = []

    def update(self, step, rows):
        self.history.append({"step": step, "rows": rows})

    def choose_dt(self):
        energies = [row["energy"] for row in self.history[-1]["rows"]]
        return 0.01 / (1 + max(energies) * 1e-6)


def steer(controller, step, particles):
    mine = particles.statistics()
    if REPAIRED:
        energy = comm.allreduce(mine["energy"], op=MPI.MAX)
        return 0.01 / (1 + energy * 1e-6)
    rows = comm.gather(mine, root=0)
    if comm.rank == 0:
        controller.update(step, rows)
    controller = comm.bcast(controller, root=0)
    return controller.choose_dt()


def main():
    particles = Particles(6000)
    controller = Controller()
    dt = 0.01
    for step in range(STEPS):
        particles.push(dt)
        dt = steer(controller, step, particles)
    if comm.rank == 0:
        print("dt", dt)


main()
