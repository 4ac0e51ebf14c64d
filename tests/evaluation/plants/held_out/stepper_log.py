"""Shallow water with an adaptive step, and a log of what each rank does."""

import os
import sys
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
repaired = sys.argv[-1] == "repaired"


class Log:
    def __init__(self, path):
        self.path = path
        self.events = []

    def write(self, step, **values):
        line = f"{step} {rank} " + " ".join(f"{k}={v:.4g}" for k, v in values.items()) + "\n"
        if repaired:
            self.events.append(line)
            return
        with open(self.path, "a") as file:
            file.write(line)

    def close(self):
        if repaired:
            last = comm.reduce(len(self.events), op=MPI.MAX)
            if rank == 0:
                with open(self.path, "a") as file:
                    file.write(f"{last}\n" + "".join(self.events))


class Water:
    def __init__(self, n=120, m=400):
        rng = np.random.default_rng(rank)
        self.h = 1 + 0.01 * rng.random((n + 2, m))
        self.u = np.zeros((n + 2, m))

    def exchange(self):
        up, down = (rank + 1) % size, (rank - 1) % size
        for field in (self.h, self.u):
            comm.Sendrecv(field[-2].copy(), dest=up, recvbuf=field[0], source=down)
            comm.Sendrecv(field[1].copy(), dest=down, recvbuf=field[-1], source=up)

    def limit(self):
        speed = float(np.abs(self.u).max() + np.sqrt(self.h.max()))
        return 0.3 / comm.allreduce(speed, op=MPI.MAX)

    def advance(self, dt):
        h, u = self.h, self.u
        du = -dt * 0.5 * (h[2:] - h[:-2])
        dh = -dt * 0.5 * (u[2:] - u[:-2])
        u[1:-1] += du
        h[1:-1] += dh


def run(path):
    water, log = Water(), Log(path)
    time = 0.0
    for step in range(100):
        water.exchange()
        dt = water.limit()
        water.advance(dt)
        time += dt
        log.write(step, dt=dt, mass=float(water.h.sum()))
    log.close()
    return time


def main():
    folder = tempfile.mkdtemp() if rank == 0 else None
    folder = comm.bcast(folder)
    path = os.path.join(folder, "run.log")
    time = run(path)
    comm.Barrier()
    if rank == 0:
        print("time", round(time, 3), os.path.getsize(path) > 0)
        os.remove(path)
        os.rmdir(folder)


main()
