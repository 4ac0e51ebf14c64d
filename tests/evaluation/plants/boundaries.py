"""Plants: work of corners, a buffer per peer, volume of an all-to-all, a communicator per rank."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, p = comm.rank, comm.size
dims = MPI.Compute_dims(p, 2)
cart = comm.Create_cart(dims)
cx, cy = cart.Get_coords(cart.rank)
corner = cx in (0, dims[0] - 1) and cy in (0, dims[1] - 1)


def element(k):
    return k * k


def assemble_boundary():
    # corners do 40 + 20 p elements, all others 40
    for k in range(40 + (20 * p if corner else 0)):
        element(k)


class Peers:
    def __init__(self):
        # a dict with a buffer for each peer
        self.buffers = {}
        for q in range(p):
            self.buffers[q] = np.zeros(5000)


def transpose():
    # each rank sends 8 kB to each other rank
    send = np.zeros(1000 * p)
    recv = np.zeros(1000 * p)
    counts = [1000] * p
    comm.Alltoallv([send, counts], [recv, counts])


def pair_communicators():
    # a communicator for each rank
    for q in range(p):
        sub = comm.Split(0 if rank <= q else 1, rank)
        sub.Free()


def halo(x):
    for d in (0, 1):
        a, b = cart.Shift(d, 1)
        cart.Sendrecv(x, dest=b, source=a, recvbuf=x.copy())


def main():
    peers = Peers()
    x = np.zeros(500)
    for _ in range(20):
        assemble_boundary()
        halo(x)
        transpose()
        pair_communicators()
    return peers


keep = main()
