"""All ranks append to one file, and a lock file keeps them apart. Repaired: rank 0 writes a sum."""

import os
import sys
import tempfile
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
base = comm.bcast(tempfile.mktemp() if comm.rank == 0 else None)
field = np.linspace(0, 1, 20_000)


def acquire():
    while True:
        try:
            return os.open(base + ".lock", os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            time.sleep(0.0005)


def append(line):
    lock = acquire()
    with open(base, "a") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    os.close(lock)
    os.remove(base + ".lock")


def advance():
    for _ in range(20):
        field[1:-1] += 0.1 * (field[2:] - 2 * field[1:-1] + field[:-2])


def main():
    for step in range(60):
        advance()
        if step % 3:
            continue
        if len(sys.argv) == 1:
            append(f"{step} {comm.rank} {field[1]}\n")
            comm.barrier()
        else:
            total = comm.allreduce(float(field[1]))
            if comm.rank == 0:
                with open(base, "a") as file:
                    file.write(f"{step} {total}\n")
    comm.barrier()
    if comm.rank == 0:
        os.remove(base)


main()
