"""Particle in cell: the potential is solved on rank 0 from charges of the cells of all ranks."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
CELLS, PARTICLES = 2000, 20000
rng = np.random.default_rng(comm.rank)
position = rng.random(PARTICLES) * CELLS
velocity = rng.normal(size=PARTICLES)


def deposit():
    return np.bincount(position.astype(int) % CELLS, minlength=CELLS).astype(float)


def push(field):
    global position, velocity
    velocity += 0.01 * field[position.astype(int) % CELLS]
    position = (position + 0.1 * velocity) % CELLS


def solve_on_root(charge):
    whole = np.empty(CELLS * comm.size) if comm.rank == 0 else None
    comm.Gather(charge, whole, root=0)
    potential = np.cumsum(np.cumsum(whole - whole.mean())) if comm.rank == 0 else None
    mine = np.empty(CELLS)
    comm.Scatter(potential, mine, root=0)
    return np.gradient(mine)


def solve_local(charge):
    edge = comm.sendrecv(
        charge[-1], (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size
    )
    mean = comm.allreduce(charge.mean()) / comm.size
    return np.gradient(np.cumsum(np.cumsum(charge - mean)) + edge)


for _ in range(100):
    push((solve_local if len(sys.argv) > 1 else solve_on_root)(deposit()))
