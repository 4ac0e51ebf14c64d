"""Rank 0 writes the blocks of all to one file, whose header tells where they are."""

import os
import sys
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
repaired = sys.argv[-1] == "repaired"


def write_header(file, offsets):
    file.seek(0)
    file.write(np.array(offsets, dtype=np.int64).tobytes())
    file.flush()


def write_block(file, offsets, owner, block):
    file.seek(0, 2)
    offsets[2 * owner] = file.tell()
    offsets[2 * owner + 1] = len(block)
    file.write(block.tobytes())


def save(path, summary):
    blocks = comm.gather(summary, root=0)
    if rank != 0:
        return
    with open(path, "w+b") as file:
        offsets = [0] * (2 * size)
        write_header(file, offsets)
        for owner, block in enumerate(blocks):
            write_block(file, offsets, owner, block)
            if not repaired:
                write_header(file, offsets)
        write_header(file, offsets)


def advance(u):
    for _ in range(20):
        u[1:-1] = 0.25 * u[:-2] + 0.5 * u[1:-1] + 0.25 * u[2:]
    return u[::500].copy()


def main():
    directory = comm.bcast(tempfile.mkdtemp() if rank == 0 else None)
    u = np.random.default_rng(rank).random(20000)
    for step in range(8):
        save(os.path.join(directory, f"step{step}.bin"), advance(u))
    comm.Barrier()
    if rank == 0:
        print("done")


main()
