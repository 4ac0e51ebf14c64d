"""Particles that leave a rank are sent to a relay, the rank in the middle, which sends them on."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
RELAY = size // 2
rng = np.random.default_rng(rank)
particles = rng.random((6000, 3))


def push():
    for _ in range(5):
        particles[:] = np.abs(np.sin(particles + 0.01))


def leavers():
    return particles[:300].copy()


def forward():
    """The relay receives a parcel from each rank, and sends each to its destination."""
    parcels = {}
    for _ in range(size):
        destination, parcel = comm.recv(source=MPI.ANY_SOURCE, tag=1)
        parcels[destination] = parcel
    return [comm.isend(parcel, destination, tag=2) for destination, parcel in parcels.items()]


def migrate():
    destination = (rank + 1) % size
    if len(sys.argv) > 1:
        return comm.sendrecv(leavers(), destination, 2, source=(rank - 1) % size, recvtag=2)
    request = comm.isend((destination, leavers()), RELAY, tag=1)
    sent = forward() if rank == RELAY else []
    arrivals = comm.recv(tag=2)
    MPI.Request.waitall([request, *sent])
    return arrivals


for _ in range(40):
    push()
    particles[:300] = migrate()
    comm.Barrier()
