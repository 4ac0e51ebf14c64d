"""The benchmark of [VAL §3.2] measures what it says, compiled and in Python, with either MPI."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.native, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIMED = ("Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Allgather", "Alltoall")
CREATORS = ("MPI_Comm_create", "MPI_Comm_dup", "MPI_Win_create", "MPI_Cart_create")


def measured(bench, *program):
    done = bench.measure("-n", 2, "--", *program, 8, 64, 3)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    assert {(row["params"]["p"], row["repetition"]) for row in rows} == {(2, 3)}
    return {(row["callpath"], row["metric"]): row["value"] for row in rows}


def holds(values):
    """Every time was measured; repetitions are kept or counted as missed."""
    for name in (*(f"MPI_{call}" for call in TIMED), "tree_bcast"):
        missed = values[name, "windows_missed"]
        assert 0 <= missed <= 8
        if missed < 8:
            assert 0 < values[name, "time"] < 60


def keeps(bench):
    """What each call that makes something keeps, without what the first of all set up."""
    paths = bench.table().callpaths
    for name in CREATORS:
        rows = [str(path) for path in paths if path.name == name]  # mpi4py makes some for itself
        most = max(rows, key=lambda row: bench.values(row, "visits")[0])
        assert bench.values(most, "visits") == [8, 8]
        assert all(500 < grown / 8 < 50_000 for grown in bench.values(most, "heap_growth"))


def test_compiled_ranks_measure_everything(each_mpi, tmp_path):
    compiler = Path(each_mpi.mpiexec[0]).with_name("mpicc")
    if not compiler.exists() or not shutil.which("cc"):
        pytest.skip(f"no {compiler} or no C compiler")
    program = tmp_path / "mpi_collectives"
    source = EXAMPLES / "native" / "mpi_collectives.c"
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", program, source], check=True)

    holds(measured(each_mpi, program))
    keeps(each_mpi)


@pytest.mark.full
def test_ranks_in_python_measure_the_same(bench):
    holds(measured(bench, EXAMPLES / "collectives.py"))
    keeps(bench)


def test_the_expectations_of_the_tables_can_be_read():
    from insitu.expectations.entries import load_entries

    entries = load_entries(str(EXAMPLES / "mpi_collectives.toml"))

    assert len(entries) == 16
    assert {str(entry.subject) for entry in entries if entry.callpath == "MPI_Barrier"} == {
        "O(log(p))"
    }
