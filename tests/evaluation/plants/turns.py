"""Plants: a barrier and a broadcast per rank, a gather to rank 0, a file per rank and step."""

import os
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.rank, comm.size


def ordered_print(x):
    # ranks take turns, a barrier each
    for turn in range(p):
        if turn == rank:
            x.sum()
        comm.Barrier()


def dump(step, folder):
    # a file for each rank and step
    with open(os.path.join(folder, f"out.{rank}.{step}"), "w") as f:
        f.write("x" * 100)


def share_all(x):
    # each rank broadcasts in turn
    for root in range(p):
        comm.Bcast(x, root=root)


def key_of(item):
    return item[1]


def rank_particles(mine):
    # rank 0 visits key_of 50 p times
    items = comm.gather(mine, root=0)
    if rank == 0:
        flat = [i for part in items for i in part]
        flat.sort(key=key_of)
        return flat
    return None


def smooth(x):
    for _ in range(5):
        x = 0.5 * (x + np.roll(x, 1))
    return x


def main():
    folder = tempfile.gettempdir() + "/plant_c"
    os.makedirs(folder, exist_ok=True)
    x = np.random.default_rng(rank).random(20000)
    mine = [(i, float(x[i])) for i in range(50)]
    for step in range(10):
        x = smooth(x)
        ordered_print(x)
        share_all(x)
        rank_particles(mine)
        dump(step, folder)


main()
