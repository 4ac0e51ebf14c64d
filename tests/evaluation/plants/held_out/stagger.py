"""To spare the file system, the ranks begin to write one after the other, by sleeping.

Repaired: they do not sleep.
"""

import os
import sys
import tempfile
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
DELAY = 0.0 if "repaired" in sys.argv else 0.004


def open_output():
    name = comm.bcast(os.path.join(tempfile.mkdtemp(), "fields.dat") if comm.rank == 0 else None)
    return MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_WRONLY | MPI.MODE_DELETE_ON_CLOSE)


def advance(field):
    for _ in range(15):
        field += 0.1 * (np.roll(field, 1, 0) + np.roll(field, -1, 0) - 2 * field)


def write_fields(output, field, step):
    if DELAY:
        time.sleep(DELAY * comm.rank)
    output.Write_at((step * comm.size + comm.rank) * field.nbytes, field)


def main():
    output = open_output()
    field = np.random.default_rng(comm.rank).random((150, 150))
    for step in range(25):
        advance(field)
        write_fields(output, field, step)
        comm.allreduce(float(field.max()), op=MPI.MAX)
    output.Close()


main()
