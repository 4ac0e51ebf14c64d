"""Statements about runs that did not end as they should."""

import pytest

from insitu.analysis.diagnosis.runs import find_failed_runs
from insitu.entities import RunKey, RunRecord, RunState


def record(repetition: int, state: RunState, *, exit_status: tuple[int, ...] = ()) -> RunRecord:
    key = RunKey.of({"p": 8}, repetition)
    return RunRecord(str(key), key, state, started_at=repetition + 1.0, exit_status=exit_status)


@pytest.mark.parametrize(
    ("later", "exit_status", "count"),
    [
        (RunState.INCOMPLETE, (), 2),
        (RunState.COMPLETE, (), 0),  # a time limit, and the run was made again
        (RunState.COMPLETE, (-11, 0), 1),  # a crash may come again
    ],
)
def test_a_run_that_was_killed_and_made_again_is_no_news(later, exit_status, count):
    killed = record(0, RunState.INCOMPLETE, exit_status=exit_status)

    statements = find_failed_runs([killed, record(1, later)])

    assert len(statements) == count


def test_a_run_that_is_killed_after_others_were_complete_is_named():
    (statement,) = find_failed_runs([record(0, RunState.COMPLETE), record(1, RunState.INCOMPLETE)])

    assert statement.text == "run p=8#1 is incomplete and not used: no cause is known"
