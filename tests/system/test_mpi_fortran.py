"""Calls and marks from Fortran, by each of its three interfaces, counted once, on both MPIs."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.native]

RING = Path(__file__).parent / "programs" / "ring.F90"
MARKS = Path(__file__).parents[2] / "collectors" / "insitu.f90"
MAIN = "ring->main->MAIN__"  # how gfortran calls a main program
P, B = 3, 80
# visits, bytes sent and received, messages sent and received by every rank
EXPECTED = {
    "MPI_Init": (1, 0, 0, 0, 0),
    "MPI_Sendrecv": (5, 5 * B, 5 * B, 5, 5),
    "MPI_Irecv": (1, 0, 0, 0, 0),
    "MPI_Isend": (1, 56, 0, 1, 0),
    "MPI_Waitall": (1, 0, 56, 0, 1),
    "MPI_Startall": (3, 3 * B, 0, 3, 0),
    "MPI_Wait": (6, 0, 3 * B, 0, 3),
    "MPI_Allreduce": (1, B, B, 0, 0),
    "MPI_Allgather": (1, B, P * B, 0, 0),
    "MPI_Cart_create": (1, 0, 0, 0, 0),
    "MPI_Comm_split": (1, 0, 0, 0, 0),
    "MPI_Comm_free": (1, 0, 0, 0, 0),
    "MPI_Finalize": (1, 0, 0, 0, 0),
}


@pytest.mark.parametrize(
    ("family", "interface"),
    [
        ("mpich", "MODULE"),
        pytest.param("mpich", "F08", marks=pytest.mark.full),
        pytest.param("openmpi", "HEADER", marks=pytest.mark.full),
        pytest.param("mpich", "HEADER", marks=pytest.mark.full),
        pytest.param("openmpi", "MODULE", marks=pytest.mark.full),
        pytest.param("openmpi", "F08", marks=pytest.mark.full),
    ],
)
def test_calls_from_fortran_are_counted_once(bench, family, interface):
    compiler, mpiexec = shutil.which(f"mpif90.{family}"), shutil.which(f"mpiexec.{family}")
    if not (compiler and mpiexec and shutil.which("gfortran")):
        pytest.skip(f"no Fortran with this MPI: apt-get install gfortran lib{family}-dev")
    subprocess.run(
        [compiler, "-cpp", f"-D{interface}", str(MARKS), str(RING), "-o", "ring"],
        cwd=bench.folder,
        check=True,
        capture_output=True,
    )

    outcome = bench.measure("--mpiexec", mpiexec, "-n", P, "--", "./ring")

    assert (outcome.code, outcome.out.split()) == (0, ["done", "3"]), outcome.err
    metrics = ("visits", "bytes_sent", "bytes_received", "messages_sent", "messages_received")
    for call, expected in EXPECTED.items():
        found = [bench.values(f"{MAIN}->{call}", metric) for metric in metrics]
        assert found == [[value] * P for value in expected], call
    assert bench.values(f"{MAIN}->MPI_Bcast", "bytes_received") == [0, B, B]
    assert bench.values(f"{MAIN}->MPI_Barrier", "comm_ranks") == [2, 1, 2]
    for phase in ("send", "gather"):
        assert bench.values(f"ring->(phase {phase})", "visits") == [1] * P
    assert [bench.values("ring", f"position_{axis}") for axis in "xy"] == [[0, 0, 0], [0, 1, 2]]
