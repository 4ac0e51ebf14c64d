"""Who causes waiting in collective calls, against delays that programs plant, on both MPIs."""

import math

import pytest

from insitu.campaign.delays import WaitingCauses, waiting_causes
from insitu.entities import CallPath
from tests.support.attempts import repeat_if_disturbed
from tests.system.conftest import Bench
from tests.system.test_mpi_compiled import PROGRAMS, Compiled, compiled

pytestmark = [pytest.mark.mpi, pytest.mark.native]
__all__ = ["compiled"]  # a fixture

P, TIMES = 3, 12  # ranks, and steps of each scene of delays.c
APART = 0.45  # of the waiting: ranks share cores here, and wake up late
APART_SHARE = 0.05  # of two planted delays


def causes(bench: Bench, call: str) -> WaitingCauses:
    """The causes of the waiting in a call of the last run."""
    *_, record = bench.records()
    return waiting_causes(record)[CallPath.parse(call)]


def seconds(waiting: WaitingCauses, function: str) -> dict[int, float]:
    """What a function causes, by rank."""
    return {rank: cost for (path, rank), cost in waiting.costs.items() if function in path.frames}


def share_of_compared(bench: Bench, function: str, call: str) -> dict[int, float]:
    """The share of the waiting in a call of delays.c that each rank causes by a function."""
    waiting = causes(bench, f"delays->main->{call}")
    return {rank: s / waiting.waited for rank, s in seconds(waiting, function).items()}


def nearly(share: float) -> object:
    """All waiting but that for a core."""
    return pytest.approx(share, abs=APART * share)


@pytest.mark.usefixtures("sleeping_waiters")
def test_planted_delays_are_charged_to_their_functions_and_ranks(compiled: Compiled) -> None:
    bench = compiled.bench
    compiled.compile(PROGRAMS / "delays.c", flags=("-finstrument-functions", "-o", "delays"))

    def measure() -> None:
        outcome = bench.measure("-n", P, "--", "./delays")
        assert outcome.code == 0, outcome.err

    repeat_if_disturbed(measure, lambda: check_planted_delays(bench))


def check_planted_delays(bench: Bench) -> None:
    """Check the causes of waiting in the last run of delays.c."""
    main = "delays->main"

    def delayed_by(function: str, call: str) -> dict[int, float]:
        """The share of the waiting in a call that each rank causes by a function."""
        waits = bench.values(f"{main}->{call}", "time_waiting")
        waited = sum(wait for wait in waits if not math.isnan(wait))
        known = seconds(causes(bench, f"{main}->{call}"), function)
        return {rank: cost / waited for rank, cost in known.items()}

    assert delayed_by("assemble", "fixed->MPI_Allreduce") == {P - 1: nearly(1)}

    rotating = delayed_by("assemble", "rotating->MPI_Allreduce")
    assert sum(rotating.values()) == nearly(1)
    assert min(rotating.get(rank, 0) for rank in range(P)) > 0.2 / P

    first = delayed_by("assemble", "two->MPI_Allreduce")
    second = delayed_by("filter", "two->MPI_Allreduce")
    assert first == {0: nearly(0.6)}
    assert second == {0: nearly(0.4)}
    assert first[0] / (first[0] + second[0]) == pytest.approx(0.6, abs=APART_SHARE)

    assert delayed_by("filter", "rare->MPI_Barrier") == {1: nearly(1)}
    assert delayed_by("assemble", "rooted->MPI_Bcast") == {0: nearly(1)}
    assert delayed_by("filter", "rooted->MPI_Reduce") == {1: nearly(1)}

    # Rank 1 is late as well, but only since it has waited for rank 0.
    assert delayed_by("assemble", "chain->add_all->MPI_Allreduce") == {0: nearly(1)}
    assert delayed_by("assemble", "chain->MPI_Barrier") == {0: nearly(1)}
    assert sum(delayed_by("add_all", "chain->MPI_Barrier").values()) < 0.1
    assert delayed_by("assemble", "passing->MPI_Recv") == {0: nearly(1)}


PYTHON = """
import time
from mpi4py import MPI

comm = MPI.COMM_WORLD

def assemble(ms):
    time.sleep(ms / 1000)

def even():
    for i in range(12):
        assemble(40)
        comm.Barrier()

def rotating():
    for i in range(12):
        assemble(48 if comm.rank == i % comm.size else 8)
        comm.Barrier()

def reducing():
    for i in range(12):
        assemble(48 if comm.rank == i % comm.size else 8)
        comm.allreduce(1)  # in mpi4py: messages to rank 0 and a broadcast

def passing():
    for i in range(12):
        if comm.rank == 0:
            assemble(40)
            comm.Send(bytes(8), 1, tag=3)
        elif comm.rank == 1:
            comm.Recv(bytearray(8), source=0, tag=3)
        comm.Barrier()

def in_turn():
    for i in range(12):
        assemble(48 if comm.rank == i % comm.size else 8)
        request = comm.Isend(bytes(8), (comm.rank + 1) % comm.size, tag=4)
        comm.Recv(bytearray(8), source=(comm.rank - 1) % comm.size, tag=4)
        request.Wait()

comm.Barrier()
even()
rotating()
comm.Barrier()
reducing()
comm.Barrier()
passing()
comm.Barrier()
in_turn()
comm.Barrier()
"""


@pytest.mark.full
def test_a_python_program_whose_ranks_take_turns_in_being_late(bench: Bench) -> None:
    bench.script(PYTHON)

    outcome = bench.measure("-n", P, "--", bench.python, "app.py")

    assert outcome.code == 0, outcome.err
    rotating = causes(bench, "app.py->rotating->MPI_Barrier")
    planted = TIMES * (P - 1) * 0.040
    assert sum(seconds(rotating, "assemble").values()) == nearly(planted)
    assert seconds(rotating, "assemble").keys() == set(range(P))
    metric = bench.values("app.py->rotating->assemble", "delay_cost")
    assert sum(metric) == pytest.approx(sum(seconds(rotating, "assemble").values()), rel=0.01)
    broadcast = causes(bench, "app.py->reducing->MPI_Bcast")
    assert sum(seconds(broadcast, "assemble").values()) > (1 - APART) * broadcast.waited
    message = causes(bench, "app.py->passing->MPI_Recv")
    assert seconds(message, "assemble") == {0: nearly(TIMES * 0.040)}
    barrier = causes(bench, "app.py->passing->MPI_Barrier")  # rank 1 has waited for rank 0
    assert seconds(barrier, "assemble") == {0: nearly(barrier.waited)}
    # No rank did anything longer than another one until the next collective call.
    in_turn = causes(bench, "app.py->in_turn->MPI_Recv")
    assert in_turn.waited > (1 - APART) * TIMES * 0.040
    assert sum(in_turn.costs.values()) < APART * in_turn.waited
    even = bench.values("app.py->even->assemble", "delay_cost")
    assert sum(value for value in even if not math.isnan(value)) < 0.5 * planted
