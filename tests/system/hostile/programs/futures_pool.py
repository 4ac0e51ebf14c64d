"""A pool of MPI processes."""

from mpi4py.futures import MPIPoolExecutor


def double(n):
    return 2 * n


if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print(list(pool.map(double, range(5))), flush=True)
