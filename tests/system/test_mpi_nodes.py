"""How long ranks waited in calls across nodes whose clocks differ, on both MPIs.

The nodes are on this machine. Each has its own directory of tables, and so its own agent, and a
preloaded library changes its clocks (`programs/skew.c`).
"""

import math
import platform
import subprocess
from functools import partial

import numpy as np
import pytest

from insitu.server.collectives import MAX_UNCERTAINTY
from tests.support.attempts import repeat_if_disturbed
from tests.system.test_delays import nearly, share_of_compared
from tests.system.test_mpi_compiled import PROGRAMS, Compiled, compiled
from tests.system.test_mpi_messages import LATE_RECEIVER, UNKNOWN
from tests.system.test_mpi_waiting import APART_S

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.native,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="other clocks are not replaced"),
]
__all__ = ["compiled"]  # a fixture

P, PER_NODE = 4, 2
# Starts a rank on its node: the second one's clock is 1,000 s ahead and runs 50 ppm faster.
# So has its agent, from whose environment insitu removes what is preloaded into the program.
ON_NODE = """\
#!/bin/sh
node=$((${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}} / {per_node}))
export INSITU_TABLES=$PWD/tables$node SKEW_OFFSET=$((node * 1000)) SKEW_RATE=0.0000$((node * 5))
mkdir -p $INSITU_TABLES
export INSITU_PYTHON=$PWD/python
export LD_PRELOAD=$LD_PRELOAD:$PWD/skew.so
exec "$@"
"""
PYTHON = """\
#!/bin/sh
LD_PRELOAD={folder}/skew.so exec {python} "$@"
"""


def start_nodes(compiled: Compiled, *, per_node: int = PER_NODE) -> None:
    folder = compiled.bench.folder
    flags = ("-shared", "-fPIC", "-O1", "-o", str(folder / "skew.so"))
    subprocess.run(["cc", *flags, str(PROGRAMS / "skew.c")], check=True)
    agent_python = PYTHON.format(folder=folder, python=compiled.bench.python)
    for name, text in {
        "on_node": ON_NODE.format(per_node=per_node),
        "python": agent_python,
    }.items():
        script = folder / name
        script.write_text(text)
        script.chmod(0o755)


@pytest.mark.full
@pytest.mark.usefixtures("sleeping_waiters")
def test_waiting_across_nodes_is_what_the_program_measures_itself(compiled: Compiled) -> None:
    start_nodes(compiled)
    compiled.compile(PROGRAMS / "late.c", flags=("-o", "late"))

    outcome = compiled.bench.run("-n", P, "-q", "--", "./on_node", "./late")

    assert outcome.code == 0, outcome.err
    lines = [line.split() for line in outcome.out.splitlines()]
    assert len(lines) == 7 * P
    for call in {call for call, _, _ in lines}:
        measured = {int(rank): float(waited) for name, rank, waited in lines if name == call}
        found = compiled.bench.values(f"late->main->{call}", "time_waiting")
        if call == "MPI_Scan":
            assert all(map(math.isnan, found))
            continue
        expected = [measured[rank] for rank in range(P)]
        assert found == pytest.approx(expected, abs=APART_S), call
    nodes = {path.parent.name for path in compiled.bench.folder.glob("tables?/*")}
    assert nodes == {"tables0", "tables1"}
    (record,) = compiled.bench.records()
    unclear = [finding for finding in record.findings if finding.code == "waiting-unclear"]
    where = {finding.where.rpartition(">")[2] for finding in unclear}
    # Few calls bound the clocks too little for the short ones that create communicators.
    assert {"MPI_Scan"} <= where <= {"MPI_Scan", "MPI_Comm_split", "MPI_Comm_dup"}


@pytest.mark.usefixtures("sleeping_waiters")
@pytest.mark.parametrize(
    "compiled", ["mpich", pytest.param("openmpi", marks=pytest.mark.full)], indirect=True
)
def test_waiting_for_messages_of_other_nodes_is_what_the_program_measures_itself(
    compiled: Compiled,
) -> None:
    start_nodes(compiled, per_node=1)
    compiled.compile(PROGRAMS / "messages.c", flags=("-o", "messages"))

    outcome = compiled.bench.run("-n", 3, "-q", "--", "./on_node", "./messages", 100)

    assert outcome.code == 0, outcome.err
    known = set()
    for scene, call, rank, *texts in map(str.split, outcome.out.splitlines()):
        path = f"messages->main->{scene}->{call}"
        waited = compiled.bench.values(path, "time_waiting")[int(rank)]
        if math.isnan(waited):
            continue  # the messages of a busy machine bound the clocks too little
        known.add(scene)
        reason = "time_late_receiver" if scene in LATE_RECEIVER else "time_late_sender"
        measured = float(texts[0])
        assert waited == pytest.approx(measured, abs=APART_S + MAX_UNCERTAINTY * measured), scene
        if scene != "with_collective":
            assert compiled.bench.values(path, reason)[int(rank)] == waited, scene
    assert len(known) >= 4
    assert not known & UNKNOWN


@pytest.mark.full
@pytest.mark.usefixtures("sleeping_waiters")
@pytest.mark.parametrize("compiled", ["mpich", "openmpi"], indirect=True)
def test_delays_on_other_nodes_are_charged_to_their_functions_and_ranks(
    compiled: Compiled,
) -> None:
    bench = compiled.bench
    start_nodes(compiled, per_node=1)
    compiled.compile(PROGRAMS / "delays.c", flags=("-finstrument-functions", "-o", "delays"))

    def measure() -> None:
        outcome = bench.run("-n", 3, "-q", "--", "./on_node", "./delays")
        assert outcome.code == 0, outcome.err

    def check() -> None:
        delayed_by = partial(share_of_compared, bench)
        assert delayed_by("assemble", "fixed->MPI_Allreduce") == {2: nearly(1)}
        rotating = delayed_by("assemble", "rotating->MPI_Allreduce")
        assert sum(rotating.values()) == nearly(1)
        assert min(rotating.get(rank, 0) for rank in range(3)) > 0.2 / 3
        assert delayed_by("assemble", "two->MPI_Allreduce") == {0: nearly(0.6)}
        assert delayed_by("filter", "two->MPI_Allreduce") == {0: nearly(0.4)}
        assert delayed_by("filter", "rare->MPI_Barrier") == {1: nearly(1)}
        assert delayed_by("assemble", "rooted->MPI_Bcast") == {0: nearly(1)}
        assert delayed_by("filter", "rooted->MPI_Reduce") == {1: nearly(1)}
        # Rank 1 is late as well, but only since it has waited for rank 0.
        assert delayed_by("assemble", "chain->MPI_Barrier") == {0: nearly(1)}
        assert delayed_by("assemble", "passing->MPI_Recv") == {0: nearly(1)}
        assert delayed_by("assemble", "passing->MPI_Barrier") == {0: nearly(1)}

        fixed_cost = bench.values("delays->main->fixed->assemble->rest", "delay_cost")
        assert fixed_cost[2] == pytest.approx(12 * 2 * 0.040, rel=0.45)
        # Where all do the same, ranks that wake up late on a busy machine cause what others wait.
        even = np.nansum(bench.values("delays->main->even->work->rest", "delay_cost"))
        waited = np.nansum(bench.values("delays->main->even->MPI_Barrier", "time_waiting"))
        assert even <= waited + 0.05 * fixed_cost[2]

    repeat_if_disturbed(measure, check)
