"""Compute with an executor of any library: `concurrent.futures`, mpi4py, Dask."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_tasks(
    executor: Executor | None, function: Callable[[T], R], tasks: Iterable[T]
) -> Iterator[R]:
    """Apply a function to every task, in order; here if there is no executor.

    An executor receives a list, since that of Dask refuses generators.
    """
    return map(function, tasks) if executor is None else iter(executor.map(function, list(tasks)))
