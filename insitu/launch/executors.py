"""Executors for a large refit: none, other processes, or the ranks of an MPI job."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import cast

from insitu.errors import LaunchError
from insitu.extras import install_command

EXECUTORS = ("none", "processes", "mpi")


@contextmanager
def open_executor(name: str) -> Iterator[Executor | None]:
    """Open an executor; for "none", yield None: the caller computes by itself.

    With "mpi", every rank must call this. Rank 0 gets the executor; in the other ranks, which
    compute for it, this raises `WorkerFinished` when rank 0 has finished.

    Args:
        name: one of EXECUTORS.

    Raises:
        LaunchError: mpi4py is not installed, or there is no other rank.
        WorkerFinished: in the ranks that computed for rank 0.
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
                f"--executor mpi needs mpi4py and an MPI library: {error};"
                f" {install_command('mpi')}, or use --executor processes"
            ) from error
        with MPICommExecutor(MPI.COMM_WORLD, root=0) as served:
            team = cast(Executor | None, served)
            if team is not None and MPI.COMM_WORLD.size == 1:
                raise LaunchError(
                    "--executor mpi needs several ranks; start it as `mpiexec -n 4 python -m insitu"
                    " refit CAMPAIGN --executor mpi`"
                )
            if team is not None:
                yield team
        if team is None:
            raise WorkerFinished


class WorkerFinished(Exception):
    """This rank computed for rank 0 and has nothing left to do."""
