"""The signal that ended a run is read from the exit code of the launcher if no rank reports it."""

import pytest

from insitu.entities import STATUS_UNKNOWN, RunKey, RunRecord, RunState
from insitu.run.end_signal import find_signal

LOST = (STATUS_UNKNOWN, STATUS_UNKNOWN)


def record_of(exit_status, state=RunState.INCOMPLETE):
    return RunRecord("r1", RunKey.of({"p": len(exit_status)}), state, exit_status=exit_status)


@pytest.mark.parametrize("code", [11, 139])
def test_a_launcher_that_ends_after_a_signal_names_it(code):
    finding = find_signal(record_of(LOST), code)

    assert finding is not None
    assert (finding.code, finding.where) == ("rank-signal", "r1")
    assert finding.text == (
        f"signal 11 (SIGSEGV) ended one of the ranks 0, 1: the launcher ended with exit code {code}"
    )


def test_a_single_rank_without_an_exit_code_is_named():
    finding = find_signal(record_of((0, STATUS_UNKNOWN, 0)), 137)

    assert finding is not None
    assert finding.text.startswith("signal 9 (SIGKILL) ended rank 1:")


@pytest.mark.parametrize(
    ("exit_status", "state", "code"),
    [
        ((0, 11), RunState.INCOMPLETE, 11),  # the rank has reported its exit code itself
        ((0, 0), RunState.INCOMPLETE, 11),
        (LOST, RunState.COMPLETE, 11),
        (LOST, RunState.INCOMPLETE, 0),
        (LOST, RunState.INCOMPLETE, 127),
    ],
)
def test_without_evidence_no_signal_is_named(exit_status, state, code):
    assert find_signal(record_of(exit_status, state), code) is None
