"""The plug-in in a pytest of its own, as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.campaigns import modelled_campaign

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
def test_met(insitu):
    insitu.expect("MPI_Allreduce", "O(log p)")
    insitu.expect("solve", "<= O(1)", metric="time_exclusive")
    insitu.limit("MPI_Allreduce", "time at p=1024 < 2 s")
    insitu.rule("MPI_Allreduce <= MPI_Sendrecv + main")
    insitu.classes("MPI_Allreduce", "one class only", metric="visits")

def test_violated(insitu):
    insitu.expect("MPI_Allreduce", "O(1)")

def test_doubtful(insitu):
    insitu.expect("main", "O(p)", of_class="end")

def test_nonsense(insitu):
    insitu.expect("residul", "O(p)")
"""


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_scaling.py").write_text(TESTS)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "insitu.pytest_plugin", "-rsf", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("user")
    modelled_campaign(str(folder / "heat.insitu"), 2, (4, 8, 16, 32, 64)).close()
    return run_pytest(folder, "--insitu-campaign", "heat.insitu").stdout


def test_a_violated_expectation_fails_its_test_with_what_was_found(answer):
    assert "2 failed, 1 passed, 1 skipped" in answer
    assert "grows as O(log(p)), expected O(1)" in answer


def test_nonsense_fails_with_one_message(answer):
    assert "no call path 'residul' has a model" in answer
    assert "During handling of the above exception" not in answer


def test_a_doubt_skips_its_test_with_the_point_that_settles_it(answer):
    assert "undecided: main, time of class end" in answer
    assert "measure p=" in answer


def test_what_was_not_measured_fails_with_what_was(answer):
    assert "no call path 'residul' has a model; there are MPI_Allreduce" in answer


def test_without_a_campaign_tests_are_skipped(tmp_path):
    done = run_pytest(tmp_path)

    assert "4 skipped" in done.stdout
    assert done.returncode == 0


def test_the_plug_in_loads_nothing_heavy():
    code = "import sys, insitu.pytest_plugin; print(sorted({'numpy', 'scipy'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
