"""Parallel in time: each rank has a slice, and takes the coarse steps of all slices before it.

Repaired: a fixed number of slices before its own.
"""

import functools
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
REPAIRED = "repaired" in sys.argv
calls = {}


def counted(function):
    @functools.wraps(function)
    def wrapper(*args):
        calls[function.__name__] = calls.get(function.__name__, 0) + 1
        return function(*args)

    return wrapper


@counted
def coarse_step(u):
    return u + 0.05 * np.roll(u, 1) - 0.05 * u


@counted
def fine_step(u):
    for _ in range(30):
        u = u + 0.001 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
    return u


def start_value(u, slices):
    for _ in range(slices):
        for _ in range(20):
            u = coarse_step(u)
    return u


def main():
    initial = np.sin(np.linspace(0, 6, 4000))
    slices = 3 if REPAIRED else comm.rank
    for _ in range(8):
        u = start_value(initial, slices)
        for _ in range(15):
            u = fine_step(u)
        comm.allreduce(float(np.abs(u).max()), op=MPI.MAX)


main()
