"""A library is given its own communicator in each step, and never frees it."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
x = np.random.default_rng(world.rank).random(20000)


class Solver:
    def __init__(self, comm):
        self.comm = comm.Dup()
        self.residual = 1.0

    def solve(self):
        for _ in range(8):
            np.add(x, 0.1 * np.cos(x), out=x)
        self.residual = self.comm.allreduce(float(np.abs(np.cos(x)).sum()))


solver = None
for _ in range(100):
    if solver is None or len(sys.argv) == 1:
        solver = Solver(world)
    solver.solve()
if len(sys.argv) > 1:
    solver.comm.Free()
