"""Compiled loops of numba, callbacks into Python, and a C callback."""

import numba
from mpi4py import MPI


@numba.njit
def total(n):
    s = 0
    for i in range(n):
        s += i
    return s


@numba.njit
def mixed(n):
    with numba.objmode(m="int64"):
        m = back(n)
    return m


def back(n):
    return n + 1


@numba.cfunc("int64(int64)")
def twice(n):
    return 2 * n


print(total(1000), [mixed(i) for i in range(5)], twice.ctypes(21), flush=True)
MPI.COMM_WORLD.Barrier()
