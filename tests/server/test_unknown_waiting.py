"""Which MPI calls have no waiting times, and that a finding says how long they take."""

import re
from pathlib import Path

import numpy as np
import pytest

from insitu.entities import TIME, TIME_WAITING, VISITS, CallPath
from insitu.modeling.measurement import RunTable
from insitu.server.unknown_waiting import COLLECTIVES, UNMEASURED, find_unknown_waiting

CALLS = (Path(__file__).parents[2] / "collectors/native/mpi_calls.def").read_text(encoding="utf-8")
ELAPSED_S = 100.0
KNOWN = 0.0


def table_of(calls, waiting=np.nan):
    """Two ranks of ELAPSED_S; the second one alone makes these calls, name to seconds."""
    paths = (CallPath(("main",)), *(CallPath(("main", name)) for name in calls))
    time = np.array([[ELAPSED_S] * 2, *([np.nan, seconds] for seconds in calls.values())])
    visits = np.where(np.isnan(time), np.nan, 1.0)
    waits = np.full(time.shape, waiting)
    values = {VISITS.name: visits, TIME.name: time, TIME_WAITING.name: waits}
    return RunTable(paths, (VISITS, TIME, TIME_WAITING), values)


@pytest.mark.parametrize(
    ("calls", "named"),
    [
        ({"MPI_Wait": 40}, []),  # of messages
        ({"MPI_Iallreduce": 1, "MPI_Wait": 40}, ["MPI_Wait"]),
        ({"MPI_Iallreduce": 1, "MPI_Wait": 1.9}, []),  # below 1 % of the time of two ranks
        ({"MPI_Allreduce_init": 1, "MPI_Waitall": 30, "MPI_Test": 10}, ["MPI_Waitall"]),
        ({"MPI_Send_init": 1, "MPI_Wait": 40}, []),
        ({"MPI_Win_fence": 30, "MPI_Comm_split": 20}, ["MPI_Win_fence", "MPI_Comm_split"]),
        ({"MPI_File_write_all": 40, "MPI_File_write": 50}, ["MPI_File_write_all"]),
        ({"MPI_Allreduce": 40, "MPI_Recv": 40}, []),
    ],
)
def test_calls_whose_waiting_is_unknown_are_named_where_they_take_time(calls, named):
    findings = find_unknown_waiting(table_of(calls))

    assert [finding.where for finding in findings] == [f"main->{name}" for name in named]


def test_the_finding_has_the_time_of_all_calls_of_its_kind():
    (finding,) = find_unknown_waiting(table_of({"MPI_Ibarrier": 1, "MPI_Wait": 30, "MPI_Test": 10}))

    assert ": 40 s in all ranks together, most of it in main->MPI_Wait" in finding.text


def test_calls_whose_waiting_is_known_are_not_named():
    calls = {"MPI_Iallreduce": 1, "MPI_Waitall": 40}  # which complete messages, too

    assert find_unknown_waiting(table_of(calls, waiting=KNOWN)) == []


def test_all_non_blocking_collectives_and_only_functions_that_are_wrapped_are_known():
    wrapped = re.findall(r"^(?:COLLECTIVE|NEIGHBOURS)\((\w+), (\w+),", CALLS, re.MULTILINE)
    others = re.findall(r"^(?:CALL|SMALL|COMPLETION)\((\w+),", CALLS, re.MULTILINE)

    assert sorted(name for name, _ in wrapped) == sorted(COLLECTIVES)
    requests = UNMEASURED[0]
    assert {f"MPI_{name}" for _, name in wrapped} <= requests.started_by
    names = {f"MPI_{name}" for name in others}
    for calls in UNMEASURED:
        assert calls.functions <= names, calls.text
