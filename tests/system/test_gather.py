"""Tables that come to the campaign over MPI when it is finalised: no sockets, no shared disk."""

import math
import subprocess

import pytest

from insitu.entities import RunState
from tests.system.conftest import BINARIES

pytestmark = [pytest.mark.mpi, pytest.mark.native]

PROGRAM = """
    import pathlib, sys, time
    from mpi4py import MPI

    def solve():
        pass

    for _ in range(5 + MPI.COMM_WORLD.rank):
        solve()
    MPI.COMM_WORLD.Barrier()
    tables = pathlib.Path(sys.argv[1])
    while MPI.COMM_WORLD.rank == 3 and list(tables.rglob("rank-000000-*")):
        time.sleep(0.1)
"""
COMPILED = """
    #include <mpi.h>
    int main(int argc, char **argv) {
      MPI_Init(&argc, &argv);
      MPI_Barrier(MPI_COMM_WORLD);
      return MPI_Finalize();
    }
"""


def on_two_nodes(bench, *program, gather_s="60"):
    """Four ranks, two on each of two nodes that see no tables of each other."""
    words = bench.command("--agent", "mpi", "--quiet", *program)
    argv = list(bench.mpiexec)
    for node in ("a", "b"):
        tables = bench.tables / node
        tables.mkdir()
        place = ["env", f"INSITU_TABLES={tables}", f"INSITU_GATHER_S={gather_s}"]
        argv += [*([":"] if node == "b" else []), "-n", "2", *place, *words]
    return bench.execute(argv)


def test_every_rank_comes_to_the_campaign_of_rank_0(each_mpi):
    outcome = on_two_nodes(each_mpi, each_mpi.script(PROGRAM), "nowhere")

    assert (outcome.code, outcome.out, outcome.err) == (0, "", outcome.err)
    assert each_mpi.left_tables() == []
    spooled = list((each_mpi.campaign / "spool").iterdir())
    assert len(spooled) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in [*spooled, *spooled[0].iterdir()])
    assert each_mpi.insitu("ingest", each_mpi.campaign).code == 0
    (record,) = each_mpi.records()
    assert (record.state, record.exit_status) == (RunState.COMPLETE, (0, 0, 0, 0))
    assert each_mpi.values("app.py->solve", "visits") == [5, 6, 7, 8]
    assert not any(map(math.isnan, each_mpi.values("app.py", "memory_rss")))


def test_a_compiled_program_sends_its_tables_too(bench):
    source = bench.script(COMPILED, "app.c")
    compiler = str(BINARIES["mpich"] / "mpicc")
    subprocess.run([compiler, str(source), "-o", str(bench.folder / "app")], check=True)

    outcome = on_two_nodes(bench, bench.folder / "app")

    assert (outcome.code, outcome.out) == (0, "")
    assert bench.left_tables() == []
    assert bench.insitu("ingest", bench.campaign).code == 0
    assert bench.values("app->MPI_Barrier", "visits") == [1, 1, 1, 1]


def test_who_comes_late_is_not_waited_for_and_keeps_its_table(bench):
    outcome = on_two_nodes(bench, bench.script(PROGRAM), bench.tables, gather_s="3")

    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    (left,) = bench.left_tables()
    assert left.name.startswith("rank-000003-")
    assert bench.insitu("ingest", bench.campaign).code == 0
    (record,) = bench.records()
    assert (record.state, record.missing) == (RunState.INCOMPLETE, (3,))


def test_a_campaign_that_cannot_be_written_leaves_the_tables_where_they_are(bench):
    bench.campaign.mkdir()
    (bench.campaign / "spool").write_text("no directory")

    outcome = on_two_nodes(bench, bench.script(PROGRAM), "nowhere")

    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert len(bench.left_tables()) == 4
