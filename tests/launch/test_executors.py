"""Where the models of a refit are fitted."""

import sys

import pytest

from insitu.errors import LaunchError
from insitu.launch.executors import open_executor


def test_other_processes_compute(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})

    with open_executor("processes") as executor:
        assert executor is not None
        assert executor.submit(abs, -3).result() == 3


def test_ranks_that_compute_need_mpi4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)

    with pytest.raises(LaunchError, match="or use --executor processes"), open_executor("mpi"):
        pass
