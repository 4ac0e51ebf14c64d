"""The program of a run ends as it does alone, whatever happens to the process that waits for it."""

import signal
from types import SimpleNamespace

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
