"""Ray tracing of a fixed image; the rows are dealt in chunks of 16, so that some ranks get none.

Repaired: row by row.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
HEIGHT, WIDTH = 96, 400
CHUNK = 1 if "repaired" in sys.argv else 16


def my_rows():
    rows = []
    for number, start in enumerate(range(0, HEIGHT, CHUNK)):
        if number % comm.size == comm.rank:
            rows.extend(range(start, min(start + CHUNK, HEIGHT)))
    return rows


def trace(y):
    x = np.linspace(-1, 1, WIDTH)
    light = np.zeros(WIDTH)
    for bounce in range(40):
        light += np.exp(-((x - y / HEIGHT) ** 2) * bounce) * np.cos(bounce * x)
    return light


def render(frame):
    image = np.zeros((HEIGHT, WIDTH))
    for row in my_rows():
        image[row] = trace(row + 0.1 * frame)
    return image


def main():
    total = np.zeros(WIDTH)
    for frame in range(12):
        image = render(frame)
        comm.Allreduce(image.sum(axis=0), total)
    if comm.rank == 0:
        print(total.mean())


main()
