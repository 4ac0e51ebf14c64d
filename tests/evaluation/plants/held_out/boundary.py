"""Only the last rank has a wall, whose layer is integrated over the length of all ranks."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size


class Wall:
    def __init__(self, cells):
        self.cells = cells

    def layer(self, i):
        return (i * 31) % 17

    def integrate(self):
        return sum(self.layer(i) for i in range(self.cells))


class Interior:
    def __init__(self, n):
        self.u = np.ones(n)

    def relax(self):
        for _ in range(40):
            self.u[1:-1] = 0.5 * (self.u[2:] + self.u[:-2])
        return float(self.u.sum())


interior = Interior(3000)
wall = Wall(200 * (1 if len(sys.argv) > 1 else size)) if rank == size - 1 else None
for _ in range(10):
    s = interior.relax()
    if wall:
        s += wall.integrate()
    comm.allreduce(s)
