"""How long ranks waited for messages, against what the program says itself, on both MPIs."""

import math

import pytest

from tests.support.parameters import plain_and_full
from tests.system.conftest import Bench
from tests.system.test_mpi_compiled import PROGRAMS, Compiled, compiled

pytestmark = [pytest.mark.mpi, pytest.mark.native]
__all__ = ["compiled"]  # a fixture

P = 3
APART_S = 0.05  # stamps of the program and ours, on a busy machine; a wrong message is 0.2 s off
# Of 1,500 messages, about 700 are sampled, in a few windows. A sum without weights is 0.5 off; one
# long wait counts twice or not at all, so that standard deviations of the sum are added.
APART_MANY = 0.35
MANY_DEVIATIONS = 4
LATE_RECEIVER = {"synchronous", "large_send", "start_synchronous"}
# Tags in another order, receives that cannot be numbered, and a request that is not compared.
UNKNOWN = {"overtake", "ambiguous", "with_read"}


@pytest.mark.usefixtures("sleeping_waiters")
def test_waiting_for_messages_is_what_the_program_measures_itself(compiled: Compiled) -> None:
    compiled.compile(PROGRAMS / "messages.c", flags=("-o", "messages"))

    outcome = compiled.bench.measure("-n", P, "--", "./messages")

    assert outcome.code == 0, outcome.err
    lines = [line.split() for line in outcome.out.splitlines()]
    assert len(lines) == 18
    for scene, call, rank, *texts in lines:
        path = f"messages->main->{scene}->{call}"
        measured, squares = map(float, texts)
        values = {}
        for metric in ("time_waiting", "time_late_sender", "time_late_receiver"):
            values[metric] = compiled.bench.values(path, metric)[int(rank)]
        if scene in UNKNOWN:
            assert all(map(math.isnan, values.values())), scene
            continue

        reason = "time_late_receiver" if scene in LATE_RECEIVER else "time_late_sender"
        apart = APART_S
        if scene == "many":
            apart = APART_MANY * measured + MANY_DEVIATIONS * math.sqrt(squares)
        if scene == "with_collective":
            assert values["time_waiting"] == pytest.approx(measured, abs=apart)
            assert values["time_late_sender"] == pytest.approx(0, abs=apart)
            continue
        assert values[reason] == pytest.approx(measured, abs=apart), scene
        assert values["time_waiting"] == values[reason], scene


@plain_and_full(
    ("reason", "text"),
    [
        ("", ""),
        ("cancel", "calls MPI_Cancel"),
        ("order", "those of MPI_Comm_idup"),
        ("threads", "several threads"),
        ("wildcard", "from MPI_ANY_SOURCE"),
    ],
    plain=2,
)
def test_a_finding_says_why_messages_are_not_compared(
    compiled: Compiled, reason: str, text: str
) -> None:
    compiled.compile(PROGRAMS / "unnumbered.c", flags=("-o", "unnumbered", "-pthread"))

    outcome = compiled.bench.measure("-n", 2, "--", "./unnumbered", reason)

    assert outcome.code == 0, outcome.err
    (record,) = compiled.bench.records()
    found = [item for item in record.findings if item.code == "messages-unnumbered"]
    assert bool(found) == bool(reason)
    assert all(text in item.text for item in found)
    is_absent = "time_late_sender" not in compiled.bench.table().values
    path = "unnumbered->main->send_one->MPI_Recv"
    if is_absent or math.isnan(compiled.bench.values(path, "time_late_sender")[1]):
        assert reason
    else:
        assert not reason


SWEEPS = """
    import time
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, last = comm.rank, comm.size - 1
    for _ in range(4):
        if rank:
            comm.recv(source=rank - 1)
            time.sleep(0.02)
        if rank < last:
            comm.send(None, rank + 1)
        for _ in range({collectives}):
            comm.Barrier()
"""


@pytest.mark.usefixtures("sleeping_waiters")
@pytest.mark.parametrize(
    ("collectives", "passes"), [(1, 4), (0, 1), pytest.param(1500, 1, marks=pytest.mark.full)]
)
def test_passes_between_collective_calls_follow_one_another_if_all_calls_are_known(
    bench: Bench, collectives: int, passes: int
) -> None:
    """Of 6,000 calls on each rank only some are kept."""
    program = bench.script(SWEEPS.format(collectives=collectives))

    outcome = bench.measure("-n", P, "--", program)

    assert outcome.code == 0, outcome.err
    links = bench.values("app.py->MPI_Mprobe", "message_chain")
    (between,) = set(bench.values("app.py->MPI_Mprobe", "message_chain_time")[1:])
    assert list(links[1:]) == [passes * (P - 1)] * (P - 1)
    assert 0.02 * passes <= between < 0.02 * passes + 1.0


EDGES = """
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    lower = comm.Split(comm.rank // 2, comm.rank)
    upper = comm.Split((comm.rank + 1) // 2, comm.rank)
    by_rank = [lower, upper] if {in_turn} or comm.rank % 2 else [upper, lower]
    for _ in range(4):
        for edge in by_rank:
            if edge.size > 1:
                edge.Barrier()
                time.sleep(0.02)
        comm.Barrier()
"""


@pytest.mark.usefixtures("sleeping_waiters")
@pytest.mark.parametrize(("in_turn", "of_a_step"), [(False, 3), (True, 2)])
def test_collective_calls_of_neighbours_are_a_chain_through_all_ranks(
    bench: Bench, in_turn: bool, of_a_step: int
) -> None:
    """The lower edge of each rank first, or even and odd edges in turn."""
    program = bench.script(EDGES.format(in_turn=in_turn))

    outcome = bench.measure("-n", 4, "--", program)

    assert outcome.code == 0, outcome.err
    assert set(bench.values("app.py->MPI_Barrier", "message_chain")) == {4 * of_a_step}
