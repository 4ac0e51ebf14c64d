"""The checkers of style and types, as in .pre-commit-config.yaml."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
SOURCES = [str(path) for path in sorted((ROOT / "collectors" / "native").glob("*.[ch]"))]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["ruff", "check", "."], id="ruff-check"),
        pytest.param(["ruff", "format", "--check", "."], id="ruff-format"),
        pytest.param(["mypy"], id="mypy", marks=pytest.mark.slow),
        pytest.param(["clang-format", "--dry-run", "--Werror", *SOURCES], id="clang-format"),
    ],
)
def test_a_checker_has_nothing_to_say(command):
    if not (BIN / command[0]).exists():
        pytest.skip(f"{command[0]} is not installed: pip install -e .[dev]")

    checker = subprocess.run(
        [BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert checker.returncode == 0, checker.stdout + checker.stderr
