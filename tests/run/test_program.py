"""The program of a run ends as it does alone, whatever happens to the process that waits for it."""

import signal
from types import SimpleNamespace

import pytest

from insitu.errors import LaunchError
from insitu.launch.base import Command
from insitu.run.environment import InheritedState
from insitu.run.program import run_program


def test_a_number_that_is_no_signal_is_not_forwarded(monkeypatch):
    """Seen once, where a debugger was attached to `insitu run`."""
    wait = signal.sigtimedwait
    answers = [SimpleNamespace(si_signo=21930, si_code=0)]
    monkeypatch.setattr(
        signal, "sigtimedwait", lambda *words: answers.pop() if answers else wait(*words)
    )

    ended = run_program(Command(("sh", "-c", "sleep 0.1; exit 3"), {}), InheritedState())

    assert (ended.code, ended.received, answers) == (3, 0, [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/nowhere/sh\n", "the interpreter named in its first line does not exist"),
        ("\x7fELF", "Exec format error"),
    ],
)
def test_a_program_that_cannot_be_started_leaves_the_signals_as_they_were(tmp_path, text, reason):
    program = tmp_path / "app"
    program.write_text(text)
    program.chmod(0o700)
    inherited = InheritedState()

    with pytest.raises(LaunchError, match=f"app: cannot be started: {reason}$"):
        run_program(Command((str(program),), {}), inherited)

    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == inherited.mask
