"""Particles that move among ranks, with three limits; --repaired has none of them.

    mpiexec -n 4 python examples/particles.py
    mpiexec -n 4 python examples/particles.py --repaired

In a run of t steps on p ranks, a rank counts exactly:

    function          quantity                as it is                  --repaired
    neighbour_table   heap_growth             160,000 p bytes           320,000 bytes
    balance           bytes_received          2,048 p t                 2,048 t
    write_output      messages_received       t (p - 1) on rank 0       t on even ranks
    exchange          messages_received       t                         t
    push              visits                  t                         t
"""

import argparse

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

ENTRY = 20_000  # numbers about a rank, in the table of neighbours
CELLS = 256  # of the load that is balanced
BLOCK = 1_000  # numbers that a rank exchanges and writes
PARTICLES = 200_000

Numbers = NDArray[np.float64]


def main(steps: int, *, is_repaired: bool) -> None:
    """Move the particles."""
    comm = MPI.COMM_WORLD
    table = neighbour_table(comm, is_repaired=is_repaired)
    particles = np.ones(PARTICLES)
    load = np.ones(CELLS)
    for _ in range(steps):
        push(particles, table)
        exchange(comm, particles)
        balance(comm, load, is_repaired=is_repaired)
        write_output(comm, particles, is_repaired=is_repaired)


def neighbour_table(comm: MPI.Intracomm, *, is_repaired: bool) -> Numbers:
    """A table of all ranks, where two neighbours are enough."""
    return np.zeros((2 if is_repaired else comm.size, ENTRY))


def push(particles: Numbers, table: Numbers) -> None:
    """Move the particles of this rank."""
    for _ in range(5):
        particles *= 1.0001 + table[0, 0]


def exchange(comm: MPI.Intracomm, particles: Numbers) -> None:
    """Send particles to the next rank, receive some from the one before."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    arrived = np.empty(BLOCK)
    comm.Sendrecv(particles[:BLOCK], after, 0, arrived, before, 0)


def balance(comm: MPI.Intracomm, load: Numbers, *, is_repaired: bool) -> None:
    """Collect the load of every rank, where the sum is enough."""
    if is_repaired:
        comm.Allreduce(load, np.empty(CELLS))
    else:
        comm.Allgather(load, np.empty((comm.size, CELLS)))


def write_output(comm: MPI.Intracomm, particles: Numbers, *, is_repaired: bool) -> None:
    """Collect a block of each rank on rank 0; repaired, ranks write in pairs."""
    block = particles[:BLOCK].copy()
    if is_repaired:
        partner = comm.rank ^ 1
        if comm.rank % 2:
            comm.Send(block, partner, 1)
        elif partner < comm.size:
            comm.Recv(block, partner, 1)
    elif comm.rank:
        comm.Send(block, 0, 1)
    else:
        for source in range(1, comm.size):
            comm.Recv(block, source, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, metavar="T", help="default: 20")
    parser.add_argument("--repaired", action="store_true", help="without the three limits")
    options = parser.parse_args()
    main(options.steps, is_repaired=options.repaired)
