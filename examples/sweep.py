"""Transport sweeps like Kripke's: sets of directions pass through a row of MPI ranks.

    mpiexec -n 4 python examples/sweep.py --zones 64 --dirsets 8 --steps 10

Each rank owns --zones zones. In a step, particles of each set of directions come in from one
neighbour, are followed through the zones and go on to the other, to the right for even sets and to
the left for odd ones; then all ranks tell each other how much went through. With Z = zones,
D = dirsets, t steps, a rank counts, below sweep.py,

    call path                                visits    work of a visit
    main->step                               t
    main->step->moments                      t         D Z values
    main->step->follow                       D t
    main->step->follow->sweep                D t       Z zones
    main->step->follow->MPI_Recv             D t       1 value
    main->step->follow->MPI_Send             D t       1 value
    main->step->balance                      t         p ranks
    main->step->balance->MPI_Allgather       t         1 value sent, p received

Nothing depends on both D and p, as in [DET §5.2]: five runs show what 25 do.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Field = NDArray[np.float64]

ABSORPTION = 0.05  # of what passes a zone
SOURCE = 1.0  # in each zone, spread over all sets


@dataclass
class Zones:
    """What a rank owns: particles of each set in each zone, and what comes of scattering."""

    comm: MPI.Intracomm
    flux: Field  # (dirsets, zones)
    scattered: Field  # (zones,)


def main(zones: int, dirsets: int, steps: int) -> float:
    """Iterate; return what went through all ranks in the last step."""
    part = Zones(MPI.COMM_WORLD, np.zeros((dirsets, zones)), np.zeros(zones))
    total = 0.0
    for _ in range(steps):
        total = step(part)
    return total


def step(part: Zones) -> float:
    """One sweep of all sets."""
    moments(part)
    through = 0.0
    for number in range(len(part.flux)):
        through += follow(part, number)
    return balance(part, through)


def moments(part: Zones) -> None:
    """What scatters from all sets into each."""
    part.scattered[:] = np.add.reduce(part.flux, axis=0) / len(part.flux)


def follow(part: Zones, number: int) -> float:
    """A set of directions from the neighbour upstream to the one downstream."""
    comm, ahead = part.comm, 1 if number % 2 == 0 else -1
    before, after = comm.rank - ahead, comm.rank + ahead
    particles = np.zeros(1)
    comm.Recv(particles, before if 0 <= before < comm.size else MPI.PROC_NULL, number)
    particles[0] = sweep(part, number, float(particles[0]), ahead)
    comm.Send(particles, after if 0 <= after < comm.size else MPI.PROC_NULL, number)
    return float(particles[0])


def sweep(part: Zones, number: int, incoming: float, ahead: int) -> float:
    """Zone after zone, in the direction of flight."""
    source = ((SOURCE + part.scattered) / len(part.flux))[::ahead].tolist()
    flux = []
    for gained in source:
        incoming = (incoming + gained * ABSORPTION) * (1.0 - ABSORPTION)
        flux.append(incoming)
    part.flux[number] = flux[::ahead]
    return incoming


def balance(part: Zones, through: float) -> float:
    """What went through all ranks, added in the order of ranks wherever it is computed."""
    everywhere = np.empty(part.comm.size)
    part.comm.Allgather(np.array([through]), everywhere)
    total = 0.0
    for value in everywhere.tolist():
        total += value
    return total


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Transport sweeps through a row of ranks.")
    parser.add_argument("--zones", type=int, default=64, help="zones of each rank")
    parser.add_argument("--dirsets", type=int, default=8, help="sets of directions")
    parser.add_argument("--steps", type=int, default=10, help="iterations")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    world, options = MPI.COMM_WORLD, parse(sys.argv[1:])
    if min(options.zones, options.dirsets) < 1:
        sys.exit("--zones and --dirsets are 1 or more")
    began_s = MPI.Wtime()
    through = main(options.zones, options.dirsets, options.steps)
    took_s = MPI.Wtime() - began_s
    if world.rank == 0:
        print(f"p={world.size}: {options.steps} steps in {took_s:.2f} s, {through:.6f} through")
