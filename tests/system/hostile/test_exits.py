"""However a rank of Python ends, the job goes on and ends as it does without insitu."""

import pytest

from insitu.entities import RunState
from tests.support.parameters import plain_and_full
from tests.system.hostile.compare import compare

pytestmark = [pytest.mark.mpi, pytest.mark.native]

# Rank 1 is finished early; rank 0 goes on to write its result.
EARLY = """
    import sys, time
    from mpi4py import MPI
    if MPI.COMM_WORLD.rank == 1:
        sys.exit({status})
    time.sleep(0.5)
    open("result", "w").write("written")
    print("rank 0 has written its result", flush=True)
"""
ALL = """
    import sys
    from mpi4py import MPI
    MPI.COMM_WORLD.allreduce(1)
    print("ready", flush=True)
    sys.exit({status})
"""
ONE = """
    import sys
    from mpi4py import MPI
    MPI.COMM_WORLD.allreduce(1)
    sys.exit(2 if MPI.COMM_WORLD.rank == 0 else 0)
"""


@plain_and_full("status", [1, -1, "'no convergence'"])
def test_sys_exit_on_one_rank_does_not_end_the_others(bench, status):
    script = bench.script(EARLY.format(status=status))

    both = compare(bench, "python", script, ranks=2)

    assert both.differences() == []
    assert (bench.folder / "result").exists()


@plain_and_full("text", [ALL.format(status=3), ONE], ids=["all", "one"])
def test_sys_exit_gives_the_exit_code_and_a_complete_run(bench, text):
    script = bench.script(text)

    both = compare(bench, "python", script, ranks=2, options=("--agent", "on"))

    assert both.differences() == []
    assert [record.state for record in bench.records()] == [RunState.COMPLETE]


# A child that ends normally runs the functions of atexit that it inherited.
FORKING = """
    import glob, os, sys, time
    while not glob.glob(sys.argv[1] + "/**/welcomed", recursive=True):
        time.sleep(0.05)
    began = time.monotonic()
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    print("the child took", "long" if time.monotonic() - began > 1.5 else "no time")
"""


@pytest.mark.full
def test_a_forked_child_does_not_wait_for_the_agent(bench, monkeypatch):
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "1")
    script = bench.script(FORKING)

    outcome = bench.run("--ranks", 1, "--", script, bench.tables)

    assert outcome.out == "the child took no time\n", outcome.err
