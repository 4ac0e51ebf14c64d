"""Statements about runs that did not end as they should."""

import pytest

from insitu.analysis.diagnosis.diagnose import diagnose_experiment
from insitu.analysis.diagnosis.runs import describe_failures, find_failed_runs
from insitu.entities import RunKey, RunRecord, RunState
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment
from tests.analysis.programs import HEALTHY, SCALES, table_at


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


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ([(3,), (3, 3)], "no run completed: 2 ended with exit code 3"),
        ([(-11,)], "no run completed: 1 ended with signal 11 (SIGSEGV)"),
        ([(3,), (0, 0)], ""),
        ([], ""),
    ],
)
def test_the_first_line_says_if_every_run_ended_with_an_error(states, text):
    records = [record(i, RunState.COMPLETE, exit_status=status) for i, status in enumerate(states)]
    of_killed = record(len(states), RunState.INCOMPLETE)

    line = describe_failures("app", [*records, of_killed])

    assert line == (f"app: {text}, 1 lacks ranks" if text else "")


def test_a_diagnosis_of_runs_that_all_failed_begins_with_that():
    runs = [(RunKey.of({"p": p}), table_at(HEALTHY, p)) for p in SCALES]
    records = [
        RunRecord(str(key), key, RunState.COMPLETE, exit_status=(3,) * key.size) for key, _ in runs
    ]

    diagnosis = diagnose_experiment(
        Experiment(("p",), tuple(runs)), records, ModelSet(), program="app"
    )

    assert diagnosis.verdict.startswith(f"app: no run completed: {len(SCALES)} ended with")
