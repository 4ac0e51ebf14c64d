"""mpi4py: particles over ranks, buffers, pickled lists, ring and collectives.

params: p=1,2,3 n=120,240,360 t=2,4,6
launch: {p}
command: {n} {t}
main: t
main->place: n * p
main->push: n * p * t
main->ring: t
main->ring->MPI_Sendrecv_replace: n * p * t
main->energy: n * p * t
main->energy->MPI_Allreduce: p * t
main->census: n
main->census->MPI_Gather: p * n
main->spread: n
main->spread->MPI_Bcast: n + p
"""

import sys

import numpy as np
from mpi4py import MPI


def place(comm, n):
    here = n // comm.size
    return np.linspace(0, 1, here), np.zeros(here)


def push(x, v):
    v -= 0.1 * x
    x += 0.1 * v


def ring(comm, x):
    sent = x
    comm.Sendrecv_replace(
        sent, dest=(comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size
    )


def energy(comm, v):
    own = float(np.dot(v, v))
    return comm.allreduce(own)


def census(comm, n):
    mine = list(range(n))
    return comm.gather(mine, root=0)


def spread(comm, n):
    table = np.zeros(n)
    comm.Bcast(table, root=0)
    return table


def main():
    comm = MPI.COMM_WORLD
    n, t = map(int, sys.argv[1:])
    x, v = place(comm, n)
    for _ in range(t):
        push(x, v)
        ring(comm, x)
        energy(comm, v)
    census(comm, n)
    spread(comm, n)


main()
