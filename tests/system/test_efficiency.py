"""Efficiencies against those computed from a trace that the same run writes."""

import json
import shutil

import pytest

from insitu.analysis.diagnosis.efficiency import (
    COMMUNICATION,
    LOAD_BALANCE,
    MAIN_LOOP,
    PARALLEL,
    WHOLE_RUN,
)
from insitu.modeling import crowding
from insitu.workflows.efficiency import load_efficiencies
from tests.support.attempts import repeat_if_disturbed
from tests.support.parameters import plain_and_full

pytestmark = pytest.mark.mpi

P = 2
APART = 0.01  # a point, as POP reports print efficiencies
AROUND = 0.04  # the same for the whole run, which begins before the trace and ends after it
STEPS = 20

# A program that records when it enters and leaves MPI; MPI_Init is over when it starts.
TRACED = """
    import json, sys, time
    import insitu
    from mpi4py import MPI

    world, events = MPI.COMM_WORLD, []
    rank, size = world.rank, world.size

    def traced(call, *arguments, **named):
        entered = time.perf_counter()
        result = call(*arguments, **named)
        events.append((entered, time.perf_counter()))
        return result

    def work(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            sum(range(2000))

    def halo(step):
        work(0.04)
        traced(world.Sendrecv, bytearray(8000), rank ^ 1, recvbuf=bytearray(8000), source=rank ^ 1)

    def imbalance(step):
        work(0.04 + 0.04 * rank)
        traced(world.Barrier)

    def pipeline(step):
        if rank:
            traced(world.Recv, bytearray(8), rank - 1)
        work(0.04)
        if rank < size - 1:
            traced(world.Send, bytearray(8), rank + 1)
        traced(world.Barrier)

    def solve(body):
        for step in range({steps}):
            body(step)

    body = globals()[sys.argv[1]]
    world.Barrier()
    insitu.phase("solve")
    begin = time.perf_counter()
    solve(body)
    trace = [begin, time.perf_counter(), events]
    insitu.phase("end")
    with open(f"trace{rank}.json", "w") as file:
        json.dump(trace, file)
"""


@plain_and_full("program", ["halo", "imbalance", "pipeline"])
def test_efficiencies_are_those_of_the_trace_of_the_same_run(bench, program, monkeypatch):
    # Other tests use the cores as well. What delays ranks then is in the trace, too.
    monkeypatch.setattr(crowding, "LEAST_QUEUED", 2.0)
    script = bench.script(TRACED.replace("{steps}", str(STEPS)))

    def measure() -> None:
        shutil.rmtree(bench.campaign, ignore_errors=True)  # of an attempt before
        outcome = bench.measure("-n", P, "--", script, program, fits=True)
        assert outcome.code == 0, outcome.err

    def check() -> None:
        elapsed, useful = [], []
        for rank in range(P):
            begin, end, events = json.loads((bench.folder / f"trace{rank}.json").read_text())
            assert len(events) >= STEPS
            elapsed.append(end - begin)
            useful.append(end - begin - sum(left - entered for entered, left in events))

        sections = load_efficiencies(str(bench.campaign)).sections
        by_name = {entry.section.name: entry.scales[0].factors for entry in sections}
        for name, apart in ((WHOLE_RUN, AROUND), (MAIN_LOOP, APART), ("(phase solve)", APART)):
            factors = {factor: values.value for factor, values in by_name[name].items()}
            mean = sum(useful) / P
            assert factors[LOAD_BALANCE] == pytest.approx(mean / max(useful), abs=apart)
            assert factors[COMMUNICATION] == pytest.approx(max(useful) / max(elapsed), abs=apart)
            assert factors[PARALLEL] == pytest.approx(mean / max(elapsed), abs=apart)

    repeat_if_disturbed(measure, check)
