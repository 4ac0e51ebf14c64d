"""Rank 0 collects the field and compresses it in a thread while the solver goes on."""

import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def compress(block):
    return len(zlib.compress(block.tobytes()))


class Writer:
    def __init__(self):
        self.pool = ThreadPoolExecutor(1)
        self.jobs = []

    def snapshot(self, field):
        if len(sys.argv) > 1:
            self.jobs.append(self.pool.submit(compress, field.copy()))
            return
        blocks = comm.gather(field, root=0)
        if comm.rank == 0:
            for block in blocks:
                self.jobs.append(self.pool.submit(compress, block))

    def close(self):
        return sum(job.result() for job in self.jobs)


def solve(field):
    for _ in range(30):
        field[1:-1] += 0.1 * (field[2:] - 2 * field[1:-1] + field[:-2])


writer = Writer()
field = np.random.default_rng(comm.rank).random(4000)
for _step in range(10):
    solve(field)
    writer.snapshot(field)
writer.close()
comm.Barrier()
