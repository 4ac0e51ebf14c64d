"""The signal that ended a run was sent to it, or is read from the exit code of the launcher."""

import signal

import pytest

from insitu.entities import STATUS_UNKNOWN, RunKey, RunRecord, RunState
from insitu.run.end_signal import find_signal
from insitu.run.program import ProgramEnd

LOST = (STATUS_UNKNOWN, STATUS_UNKNOWN)


def record_of(exit_status, state=RunState.INCOMPLETE):
    return RunRecord("r1", RunKey.of({"p": len(exit_status)}), state, exit_status=exit_status)


@pytest.fixture
def hydra(tmp_path):
    """The path of a launcher that is not that of Open MPI."""
    path = tmp_path / "mpiexec"
    path.write_text("#!/bin/sh\necho HYDRA build details\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("code", [11, 139])
def test_a_launcher_that_ends_after_a_signal_names_it(code, hydra):
    finding = find_signal(record_of(LOST), ProgramEnd(hydra, code))

    assert finding is not None
    assert (finding.code, finding.where) == ("rank-signal", "r1")
    assert finding.text == (
        f"signal 11 (SIGSEGV) ended one of the ranks 0, 1: the launcher ended with exit code {code}"
    )


def test_a_single_rank_without_an_exit_code_is_named():
    finding = find_signal(record_of((0, STATUS_UNKNOWN, 0)), ProgramEnd("srun", 137))

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
def test_without_evidence_no_signal_is_named(exit_status, state, code, hydra):
    assert find_signal(record_of(exit_status, state), ProgramEnd(hydra, code)) is None


@pytest.mark.parametrize("text", ["mpiexec (OpenRTE) 4.1.4", ""])
def test_a_small_exit_code_is_a_signal_for_hydra_only(text, tmp_path):
    launcher = tmp_path / ("mpiexec" if text else "srun")
    launcher.write_text(f"#!/bin/sh\necho '{text}'\n")
    launcher.chmod(0o755)

    assert find_signal(record_of(LOST), ProgramEnd(str(launcher), 1)) is None


def test_a_signal_that_was_sent_to_an_incomplete_run_is_its_cause():
    ended = ProgramEnd("mpiexec", 143, received=signal.SIGTERM)
    finding = find_signal(record_of((195, 195)), ended)

    assert finding is not None
    assert finding.text == "signal 15 (SIGTERM) was sent to the run, as by a time limit"
    assert find_signal(record_of(LOST, RunState.COMPLETE), ended) is None
    assert find_signal(record_of((0, 1)), ended._replace(received=signal.SIGUSR1)) is None
