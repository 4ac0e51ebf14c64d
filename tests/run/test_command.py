"""`python -m insitu.run` in a rank: it becomes the program, which measures itself."""

import json
import os
import subprocess
import sys

import pytest

from insitu.campaign import layout
from insitu.collectors.rank import JOB_VARIABLES, RANK_VARIABLES
from insitu.run import command
from insitu.run.environment import InheritedState


class ProgramStarts(Exception):
    """Instead of the program."""


@pytest.fixture
def rank(monkeypatch, tmp_path):
    """Run the command as a rank of a launcher, up to where the program begins."""
    for name in [*JOB_VARIABLES, *(name for name, _ in RANK_VARIABLES), command.VARIABLES]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "restore_signals", lambda: None)
    monkeypatch.setenv("PMI_SIZE", "2")

    def become(number, *words):
        started = []

        def execve(path, argv, environment):
            started.extend((argv, environment))
            raise ProgramStarts

        monkeypatch.setenv("PMI_RANK", str(number))
        monkeypatch.setattr(os, "execve", execve)
        with pytest.raises(ProgramStarts):
            command.main(list(words))
        return started

    return become


def test_ranks_of_a_launcher_become_the_program_in_one_run(rank, capsys):
    ((first, of_first), (_, of_second)) = (rank(i, "--param", "n=8", "true", "x") for i in (0, 1))

    message = capsys.readouterr().err
    meta = json.loads(of_first["INSITU_META"])
    assert list(first) == ["true", "x"]
    assert of_first["INSITU_RUN"] == of_second["INSITU_RUN"]
    assert meta["parameters"] == {"n": 8.0}
    campaign = f"{os.getcwd()}/true.insitu"
    assert message == (  # once, not once per rank
        f"insitu: no aggregator serves {campaign}; after the run: insitu ingest {campaign}\n"
    )


def test_jobs_and_campaigns_have_runs_of_their_own(rank, monkeypatch):
    runs = set()
    for job in ("a", "b"):
        monkeypatch.setenv("PMI_JOBID", job)
        for campaign in ("x.insitu", "y.insitu"):
            _, environment = rank(0, "-q", "--campaign", campaign, "true")
            runs.add(environment["INSITU_RUN"])

    assert len(runs) == 4


def test_no_hint_to_ingest_where_an_aggregator_serves_or_it_is_quiet(rank, tmp_path, capsys):
    rank(0, "--quiet", "true")
    address = tmp_path / "true.insitu" / layout.AGGREGATOR_ADDRESS
    address.parent.mkdir(parents=True)
    address.touch()
    rank(0, "true")

    assert capsys.readouterr().err == ""


def test_a_rank_of_insitu_run_keeps_the_run_that_it_was_given(rank, monkeypatch):
    monkeypatch.setenv(command.VARIABLES, "INSITU_RUN")
    monkeypatch.setenv("INSITU_RUN", "abc")

    _, environment = rank(1, "true")

    assert environment["INSITU_RUN"] == "abc"
    assert "INSITU_META" not in environment


def test_a_program_that_does_not_exist_ends_the_rank_as_a_shell_would(rank, monkeypatch, capsys):
    monkeypatch.setenv("PMI_RANK", "0")

    with pytest.raises(SystemExit) as end:
        command.main(["no-such-program"])

    assert end.value.code == 127
    assert "no-such-program" in capsys.readouterr().err


def test_help_is_printed_and_succeeds(capsys):
    with pytest.raises(SystemExit) as end:
        command.main(["--help"])

    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("usage: insitu run [-n RANKS]")


def test_the_locale_that_python_chose_for_itself_is_not_the_programs():
    code = (
        "import os; from insitu.run.environment import program_environment;"
        " print('LC_CTYPE' in os.environ, 'LC_CTYPE' in program_environment())"
    )

    answer = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, check=True)

    assert answer.stdout == b"True False\n"


def test_what_was_closed_for_insitu_is_closed_for_the_program():
    kept = os.dup(0)
    os.close(0)
    try:
        state = InheritedState()
        assert os.open(os.devnull, os.O_RDONLY) == 0  # as SQLite does
        is_closed = subprocess.run(
            ["sh", "-c", "[ ! -e /proc/self/fd/0 ]"],
            close_fds=False,
            preexec_fn=state.restore,
            check=False,
        )
    finally:
        os.dup2(kept, 0)
        os.close(kept)

    assert is_closed.returncode == 0
