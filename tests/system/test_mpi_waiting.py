"""How long ranks waited in collective calls, against what the program says itself, on both MPIs."""

import pytest

from tests.system.test_mpi_compiled import PROGRAMS, Compiled, compiled

pytestmark = [pytest.mark.mpi, pytest.mark.native]
__all__ = ["compiled"]  # a fixture

P = 3
APART_S = 0.08  # stamps of the program and ours, on a busy machine; a wrong rank is 0.16 s off


@pytest.mark.usefixtures("sleeping_waiters")
def test_waiting_is_what_the_program_measures_itself(compiled: Compiled) -> None:
    compiled.compile(PROGRAMS / "late.c", flags=("-o", "late"))

    outcome = compiled.bench.measure("-n", P, "--", "./late")

    assert outcome.code == 0, outcome.err
    lines = [line.split() for line in outcome.out.splitlines()]
    assert len(lines) == 7 * P
    for call in {call for call, _, _ in lines}:
        said = {int(rank): float(waited) for name, rank, waited in lines if name == call}
        found = compiled.bench.values(f"late->main->{call}", "time_waiting")
        time = compiled.bench.values(f"late->main->{call}", "time")
        assert found == pytest.approx([said[rank] for rank in range(P)], abs=APART_S), call
        assert all(0 <= part <= whole for part, whole in zip(found, time, strict=True)), call
    for call in ("MPI_Exscan", "MPI_Reduce_scatter_block"):  # alone, nobody waits
        assert compiled.bench.values(f"late->main->{call}", "time_waiting") == [0.0] * P
