"""The benchmark of [VAL §3.2] measures what it says, compiled and in Python, with either MPI."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.native, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIMED = ("Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Allgather", "Alltoall")
KEPT = ("MPI", "MPI_Comm_create", "MPI_Comm_dup", "MPI_Win_create", "MPI_Cart_create")


def measured(bench, *program):
    environment = {**bench.environment, "OMPI_MCA_osc": "^ucx"}
    words = [*bench.mpiexec, "-n", "2", *map(str, program), "8", "64", "3"]
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(row["params"]["p"], row["repetition"]) for row in rows} == {(2, 3)}
    return {(row["callpath"], row["metric"]): row["value"] for row in rows}


def holds(values):
    """Everything was measured; repetitions are kept or counted as missed."""
    for name in (*(f"MPI_{call}" for call in TIMED), "tree_bcast"):
        missed = values[name, "windows_missed"]
        assert 0 <= missed <= 8
        if missed < 8:
            assert 0 < values[name, "time"] < 60
    assert all(values[name, "memory"] > 0 for name in KEPT)


def test_compiled_ranks_measure_everything(each_mpi, tmp_path):
    compiler = Path(each_mpi.mpiexec[0]).with_name("mpicc")
    if not compiler.exists() or not shutil.which("cc"):
        pytest.skip(f"no {compiler} or no C compiler")
    program = tmp_path / "mpi_collectives"
    source = EXAMPLES / "native" / "mpi_collectives.c"
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", program, source], check=True)

    holds(measured(each_mpi, program))


def test_ranks_in_python_measure_the_same(bench):
    holds(measured(bench, sys.executable, EXAMPLES / "collectives.py"))


def test_the_expectations_of_the_tables_can_be_read():
    from insitu.expectations.entries import load_entries

    entries = load_entries(str(EXAMPLES / "mpi_collectives.toml"))

    assert len(entries) == 15
    assert {str(one.subject) for one in entries if one.callpath == "MPI_Barrier"} == {"O(log(p))"}
