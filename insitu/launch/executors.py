"""Where a large refit is computed: here, in other processes, in the ranks of an MPI job."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import cast

from insitu.errors import LaunchError

EXECUTORS = ("none", "processes", "mpi")


@contextmanager
def open_executor(name: str) -> Iterator[Executor | None]:
    """The executor of that name; None where the work is done by who asks.

    "mpi" is for commands that every rank runs: rank 0 gets the executor, the others work for it
    and are told to leave by `Served` when it is done.

    Raises:
        LaunchError: there is no mpi4py, or no other rank.
        Served: in a rank that has worked for rank 0.
    """
    if name == "none":
        yield None
    elif name == "processes":
        with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            yield pool
    else:
        try:
            from mpi4py import MPI
            from mpi4py.futures import MPICommExecutor
        except (ImportError, RuntimeError) as error:
            raise LaunchError(
                f"--executor mpi needs mpi4py and an MPI library: {error}; pip install"
                " 'insitu[mpi]', or use --executor processes"
            ) from error
        with MPICommExecutor(MPI.COMM_WORLD, root=0) as served:
            team = cast(Executor | None, served)
            if team is not None and MPI.COMM_WORLD.size == 1:
                raise LaunchError(
                    "--executor mpi found one rank: start it as `mpiexec -n 4 python -m insitu"
                    " refit CAMPAIGN --executor mpi`"
                )
            if team is not None:
                yield team
        if team is None:
            raise Served


class Served(Exception):
    """This rank worked for another; there is nothing left for it to do."""
