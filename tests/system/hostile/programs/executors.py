"""Executors of threads and processes with functions of the program."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from mpi4py import MPI


def triple(n):
    return 3 * n


if __name__ == "__main__":
    with ThreadPoolExecutor(4) as threads:
        print(list(threads.map(triple, range(50)))[-1], flush=True)
    with ProcessPoolExecutor(2, get_context("fork")) as processes:
        print(list(processes.map(triple, range(6))), flush=True)
    MPI.COMM_WORLD.Barrier()
