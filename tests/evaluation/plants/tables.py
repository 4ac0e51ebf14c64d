"""Plants: memory kept per rank, p^2 entries, a search over all ranks, a funnel and its files."""

import os
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.rank, comm.size


def remember(log):
    # one object per peer and step kept for ever
    for peer in range(p):
        log.append(bytearray(2000 + peer % 3))


def route_table():
    # p^2 entries on every rank
    return np.ones((p, p, 64))


def distance(a, b):
    return abs(a - b)


def neighbour_search(mine, everyone):
    # weak scaling, mine is constant, everyone grows
    near = 0
    for a in mine:
        for b in everyone:
            if distance(a, b) < 0.01:
                near += 1
    return near


def halo(x):
    comm.Sendrecv(x, dest=(rank + 1) % p, source=(rank - 1) % p, recvbuf=x.copy())


def checkpoint(x, step):
    # all data through rank 0 with point to point
    if rank == 0:
        buf = np.empty_like(x)
        for src in range(1, p):
            comm.Recv(buf, source=src)
            with open(os.path.join(tempfile.gettempdir(), "plant_a.bin"), "ab") as f:
                f.write(buf[:10].tobytes())
    else:
        comm.Send(x, dest=0)


def main():
    rng = np.random.default_rng(rank)
    mine = rng.random(12).tolist()
    log, x = [], rng.random(4000)
    table = route_table()
    for step in range(10):
        everyone = [v for part in comm.allgather(mine) for v in part]
        neighbour_search(mine, everyone)
        halo(x)
        remember(log)
        checkpoint(x, step)
    table[0, 0, 0] = len(log)


main()
