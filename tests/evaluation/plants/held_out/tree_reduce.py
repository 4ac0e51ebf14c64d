"""Gradient descent with a reduction by hand along a tree of ranks."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
repaired = sys.argv[-1] == "repaired"
PARAMETERS = 2000


class Tree:
    """Parent and children of each rank."""

    def __init__(self):
        self.fan_out = 2 if repaired else max(2, size // 2)
        self.parent = (rank - 1) // self.fan_out if rank else None
        first = rank * self.fan_out + 1
        self.children = [child for child in range(first, first + self.fan_out) if child < size]

    def reduce(self, values):
        for child in self.children:
            part = np.empty_like(values)
            comm.Recv(part, source=child, tag=1)
            values = values + part
        if self.parent is not None:
            comm.Send(values, dest=self.parent, tag=1)
        return values

    def broadcast(self, values):
        if self.parent is not None:
            comm.Recv(values, source=self.parent, tag=2)
        for child in self.children:
            comm.Send(values, dest=child, tag=2)
        return values


def make_batch(rng, count=30):
    x = rng.standard_normal((count, PARAMETERS))
    return x, x[:, :5].sum(axis=1)


def gradient(weights, x, y):
    residual = x @ weights - y
    return x.T @ residual / len(y), float(residual @ residual)


def update(weights, velocity, grad, rate=1e-4):
    velocity *= 0.9
    velocity -= rate * grad
    weights += velocity


def validate(weights, x, y):
    loss = gradient(weights, x, y)[1]
    return comm.allreduce(loss) / size


def main():
    rng = np.random.default_rng(rank)
    tree = Tree()
    weights, velocity = np.zeros(PARAMETERS), np.zeros(PARAMETERS)
    x, y = make_batch(rng)
    for epoch in range(80):
        grad, loss = gradient(weights, x, y)
        total = tree.reduce(grad)
        total = tree.broadcast(total)
        update(weights, velocity, total / size)
        if epoch % 20 == 19:
            loss = validate(weights, x, y)
    if rank == 0:
        print("loss", round(loss, 3))


main()
