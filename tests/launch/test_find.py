"""Which launcher starts the ranks."""

import sys

import pytest

from insitu.errors import LaunchError
from insitu.launch import find
from insitu.launch.base import Job
from insitu.launch.mpiexec import OpenMPI


@pytest.fixture
def machine_without_mpi(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return tmp_path


def test_inside_a_job_of_slurm_srun_starts_ranks_where_there_is_no_mpiexec(
    machine_without_mpi, monkeypatch
):
    srun = machine_without_mpi / "srun"
    srun.write_text("#!/bin/sh\n")
    srun.chmod(0o700)

    monkeypatch.setenv("SLURM_JOB_ID", "7")
    inside = find.find_launcher()
    monkeypatch.delenv("SLURM_JOB_ID")

    assert inside.name == "srun"
    with pytest.raises(LaunchError, match="no mpiexec beside this Python or on PATH"):
        find.find_launcher()


@pytest.mark.parametrize(("installed", "found"), [("Open MPI", "orterun"), ("HYDRA", "mpiexec")])
def test_a_program_gets_a_launcher_of_its_own_mpi_if_there_is_one(
    machine_without_mpi, installed, found
):
    library = "libmpi.so.40 => /opt/lib/libmpi.so.40 (0x7)\n libopen-pal.so.40 => /opt (0x8)"
    texts = {"ldd": library, "mpiexec": "HYDRA", "orterun": installed}
    for name, text in texts.items():
        (machine_without_mpi / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (machine_without_mpi / name).chmod(0o700)

    assert find.fitting_mpiexec("solver").endswith(f"/{found}")


def test_a_program_without_mpi_gets_the_default_launcher(machine_without_mpi):
    launcher = machine_without_mpi / "mpirun"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o700)

    assert find.fitting_mpiexec("solver") == str(launcher)  # nor is there an ldd


def test_open_mpi_is_given_only_the_options_that_ranks_need():
    launcher = OpenMPI("mpiexec")
    free = launcher.command(Job(("solver",), ranks=2, environment={"A": "1"}, cores=2))
    crowded = launcher.command(Job(("solver",), ranks=3, cores=2, is_root=True))

    assert free.argv == ("mpiexec", "-n", "2", "-x", "A", "solver")
    assert free.environment == {"A": "1"}
    assert crowded.argv == ("mpiexec", "-n", "3", "--oversubscribe", "solver")
    assert crowded.environment["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
