"""The largest of all values on all ranks, by an algorithm that changes at 6 ranks.

    mpiexec -n 8 python examples/segmented.py --values 1000 --steps 50

Up to SWITCH = 6 ranks each rank sends its values to every rank, itself included; above, it passes
on what it knows to the rank 1, 2, 4, … further, which takes ⌈log2(p)⌉ rounds (the dissemination
algorithm; right for every p, since taking a maximum twice does no harm). Libraries switch their
algorithms in the same way, and a single function through all points would be wrong on both sides
[SEG §1]. In a run of t steps with n values a rank counts exactly, below segmented.py,

    call path                           visits                     bytes sent = bytes received
    main->largest                       t
    main->largest->swap->MPI_Sendrecv   t p             p ≤ 6      8 n t p
                                        t ⌈log2(p)⌉     p > 6      8 n t ⌈log2(p)⌉
"""

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Values = NDArray[np.float64]

SWITCH = 6  # with more ranks, dissemination is used


def main(count: int, steps: int) -> bool:
    """Find the largest values repeatedly; return whether they are right."""
    comm = MPI.COMM_WORLD
    own = np.sin(np.arange(count, dtype=np.float64) * (comm.rank + 1))
    for _ in range(steps):
        found = largest(comm, own)
    expected = np.empty_like(own)
    comm.Allreduce(own, expected, op=MPI.MAX)
    return bool((found == expected).all())


def largest(comm: MPI.Intracomm, own: Values) -> Values:
    """Return the largest value of each element over all ranks."""
    known = own.copy()
    for away in distances(comm.size):
        known = np.maximum(known, swap(comm, known, away))
    return known


def distances(size: int) -> list[int]:
    """Return the distance to send to in each round."""
    if size <= SWITCH:
        return list(range(size))
    return [1 << i for i in range((size - 1).bit_length())]


def swap(comm: MPI.Intracomm, values: Values, away: int) -> Values:
    """Send to the rank `away` ranks ahead, receive from the rank as far behind."""
    received = np.empty(values.size)
    ahead, behind = (comm.rank + away) % comm.size, (comm.rank - away) % comm.size
    comm.Sendrecv(values, ahead, 0, received, behind, 0)
    return received


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The largest of all values, by two algorithms.")
    parser.add_argument("--values", type=int, default=1000, help="values per rank")
    parser.add_argument("--steps", type=int, default=50, help="how often the largest are found")
    options = parser.parse_args()
    began_s = MPI.Wtime()
    is_right = main(options.values, options.steps)
    if MPI.COMM_WORLD.rank == 0:
        took_s = MPI.Wtime() - began_s
        print(f"p={MPI.COMM_WORLD.size}: {options.steps} steps in {took_s:.2f} s")
    sys.exit(not is_right)
