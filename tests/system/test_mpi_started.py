"""How long ranks wait in collectives of several kinds, by the stamps of the program, both MPIs."""

import math

import pytest

from tests.system.conftest import mpi_standard
from tests.system.test_mpi_compiled import PROGRAMS, Compiled, compiled

pytestmark = [pytest.mark.mpi, pytest.mark.native]
__all__ = ["compiled"]  # a fixture

P = 3
SCENES = 13
APART_S = 0.1  # stamps of the program and ours, on a busy machine; a wrong rank is 0.24 s off


@pytest.mark.full
def test_waiting_is_what_the_program_measures_itself(compiled: Compiled) -> None:
    compiled.compile(PROGRAMS / "started.c", flags=("-o", "started"))

    outcome = compiled.bench.measure("-n", P, "--", "./started")

    assert outcome.code == 0, outcome.err
    lines = [line.split() for line in outcome.out.splitlines()]
    persistent = [line for line in lines if line[0] == "persistent"]
    assert len(lines) - len(persistent) == SCENES * P
    assert len(persistent) == (P if mpi_standard(compiled.bench.mpi) >= 4 else 0)
    for scene, call, rank, measured in lines:
        path = f"started->main->{scene}->{call}"
        waited = compiled.bench.values(path, "time_waiting")[int(rank)]
        assert waited == pytest.approx(float(measured), abs=APART_S), (scene, rank)
    (record,) = compiled.bench.records()
    unclear = {
        finding.where: finding.text
        for finding in record.findings
        if finding.code == "waiting-unclear"
    }
    assert "not known of collective calls on intercommunicators: " in unclear[""]
    barrier = compiled.bench.values("started->main->across->MPI_Barrier", "time_waiting")
    assert all(map(math.isnan, barrier))
