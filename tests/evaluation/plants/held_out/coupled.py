"""Two limits: each rank of the ocean sends to each of the atmosphere, whose first rank regrids the
fluxes of all. Repaired: pairs of ranks, each of which regrids its own."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv
HALF = world.size // 2
CELLS = 2000


def send_fluxes(flux):
    """Each rank of the ocean sends a strip to each of the atmosphere."""
    strip = flux[:50].copy()
    targets = [HALF + world.rank] if REPAIRED else range(HALF, 2 * HALF)
    for target in targets:
        world.Send(strip, target, 7)


def receive_fluxes():
    strip = np.empty(50)
    sources = [world.rank - HALF] if REPAIRED else range(HALF)
    for source in sources:
        world.Recv(strip, source, 7)
    return strip


def regrid_cell(fluxes, cell):
    return 0.25 * fluxes[cell - 1] + 0.75 * fluxes[cell]


def regrid(atmosphere, flux):
    """The fluxes on the grid of the atmosphere."""
    if REPAIRED:
        return np.array([regrid_cell(flux, cell) for cell in range(100)])
    fluxes = atmosphere.gather(flux[:100].copy())
    parts = None
    if atmosphere.rank == 0:
        parts = [[regrid_cell(part, cell) for cell in range(100)] for part in fluxes]
    return np.array(atmosphere.scatter(parts))


def advance(field):
    for _ in range(60):
        field[1:-1] += 0.1 * (field[2:] - 2 * field[1:-1] + field[:-2])


def main():
    is_ocean = world.rank < HALF
    component = world.Split(min(world.rank // max(HALF, 1), 2), world.rank)
    field = np.linspace(0, 1, CELLS * 10)
    for _ in range(100):
        advance(field)
        if is_ocean:
            send_fluxes(field)
        elif world.rank < 2 * HALF:
            receive_fluxes()
            regrid(component, field)
    world.barrier()


main()
