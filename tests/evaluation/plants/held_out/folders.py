"""Output: rank 0 makes the folders of all ranks in each step, and removes the previous ones."""

import os
import shutil
import sys
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
root = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
field = np.random.default_rng(comm.rank).random((300, 300))


def relax():
    for _ in range(4):
        field[1:-1, 1:-1] = 0.25 * (
            field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
        )


def prepare_output(step):
    if comm.rank == 0:
        if len(sys.argv) > 1:
            os.mkdir(f"{root}/{step}")
        else:
            for owner in range(comm.size):
                os.makedirs(f"{root}/{step}/{owner:05d}/fields")
                os.makedirs(f"{root}/{step}/{owner:05d}/particles")
            if step > 0:
                shutil.rmtree(f"{root}/{step - 1}")
    comm.Barrier()


for step in range(60):
    relax()
    prepare_output(step)
comm.Barrier()
if comm.rank == 0:
    shutil.rmtree(root)
