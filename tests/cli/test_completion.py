"""Completion in real shells: commands, options, choices, files."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.parameters import plain_and_full

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60
SETUP = {
    "bash": ("bash --norc --noprofile -i", 'eval "$(_INSITU_COMPLETE=bash_source insitu)"'),
    "zsh": (
        "zsh -f -i",
        'autoload -U compinit; compinit -D -u; eval "$(_INSITU_COMPLETE=zsh_source insitu)"',
    ),
}
TYPED = {
    "insitu repo": "insitu report",
    "insitu export --to folde": "insitu export --to folded",
    "insitu run --recu": "insitu run --recursion",
    "insitu models hea": "insitu models heat.insitu",
    "insitu run -n 4 -- prog": "insitu run -n 4 -- program.py",
}


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder with a campaign and a program, and an environment whose insitu is this one."""
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "insitu"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m insitu "$@"\n')
    shim.chmod(0o755)
    (tmp_path / "heat.insitu").mkdir()
    (tmp_path / "program.py").write_text("")
    path = os.pathsep.join((str(tmp_path / "bin"), os.environ["PATH"]))
    more = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TERM": "dumb"}
    return tmp_path, {**os.environ, **more}


@plain_and_full("shell", SETUP)
def test_the_tabulator_key_completes(shell: str, place: tuple[Path, dict[str, str]]):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    folder, environment = place
    command, setup = SETUP[shell]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command.split(), cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        try:
            type_in(ours, f"PS1='> '; {setup}; echo rea''dy\n", "ready")
            for typed, completed in TYPED.items():
                type_in(ours, f"{typed}\t", completed)
                type_in(ours, "\x15", "")  # away with the line
        finally:
            process.kill()
    os.close(ours)


@pytest.mark.full
def test_fish_completes(place: tuple[Path, dict[str, str]]):
    if shutil.which("fish") is None:
        pytest.skip("there is no fish")
    folder, environment = place
    asked = "\n".join(f'complete -C "{typed}"' for typed in TYPED)
    script = f"_INSITU_COMPLETE=fish_source insitu | source\n{asked}"

    answer = subprocess.run(
        ["fish", "--no-config", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )

    words = [line.split("\t")[0].rstrip("/") for line in answer.stdout.splitlines()]
    assert words == [completed.split()[-1] for completed in TYPED.values()], answer.stderr


def type_in(terminal: int, keys: str, awaited: str) -> None:
    """Press keys and wait for what the terminal then shows."""
    os.write(terminal, keys.encode())
    seen = ""
    until = time.monotonic() + WAIT_S
    while awaited and awaited not in seen:
        ready, _, _ = select.select([terminal], [], [], max(until - time.monotonic(), 0))
        assert ready, f"{keys!r} gave {seen!r}, not {awaited!r}"
        seen += os.read(terminal, 4096).decode(errors="replace")
