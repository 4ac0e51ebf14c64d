"""Two coupled components, an ocean and an atmosphere, each on half of the ranks."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
repaired = sys.argv[-1] == "repaired"
half = world.size // 2
is_ocean = world.rank < half
is_idle = world.rank == 2 * half  # the last one of an odd number of ranks
group = world.Split(MPI.UNDEFINED if is_idle else int(is_ocean), world.rank)
CELLS = 20000


class Component:
    def __init__(self, kind):
        self.kind = kind
        self.field = np.random.default_rng(world.rank).random(CELLS)
        self.boundary = np.zeros(CELLS)

    def halo(self):
        rank, size = group.rank, group.size
        edge = np.empty(1)
        after, before = (rank + 1) % size, (rank - 1) % size
        group.Sendrecv(self.field[-1:].copy(), dest=after, recvbuf=edge, source=before)
        self.field[0] = 0.5 * (self.field[0] + edge[0])

    def advance(self, substeps):
        for _ in range(substeps):
            self.field[1:-1] += 0.2 * (self.field[2:] + self.field[:-2] - 2 * self.field[1:-1])
            self.field += 0.01 * (self.boundary - self.field)

    def export(self):
        return self.field * (1.1 if self.kind == "ocean" else 0.9)


class Coupler:
    """Fields at the surface of one component become the boundary of the other."""

    def __init__(self):
        self.partner = (world.rank + half) % (2 * half)
        self.roots = (0, half)

    def exchange(self, field):
        if repaired:
            return self.direct(field)
        other = self.roots[1] if is_ocean else self.roots[0]
        whole = np.empty(CELLS * group.size) if group.rank == 0 else None
        group.Gather(field, whole)
        received = None
        if group.rank == 0:
            received = np.empty(CELLS * group.size)
            world.Sendrecv(whole, dest=other, recvbuf=received, source=other)
            received = self.remap(received)
        boundary = np.empty(CELLS)
        group.Scatter(received, boundary)
        return boundary

    def remap(self, values):
        return 0.25 * np.roll(values, 1) + 0.5 * values + 0.25 * np.roll(values, -1)

    def direct(self, field):
        received = np.empty(CELLS)
        world.Sendrecv(field, dest=self.partner, recvbuf=received, source=self.partner)
        return self.remap(received)


def energy(component):
    return group.allreduce(float(component.field @ component.field))


def main():
    if is_idle:
        return
    component = Component("ocean" if is_ocean else "atmosphere")
    coupler = Coupler()
    for _ in range(50):
        component.halo()
        component.advance(4 if is_ocean else 6)
        component.boundary = coupler.exchange(component.export())
    value = energy(component)
    if group.rank == 0:
        print(component.kind, round(value, 4))


main()
