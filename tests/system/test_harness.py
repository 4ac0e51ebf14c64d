"""Under JUBE, ReFrame and Ramble, which decide what is run: each with its example, where it is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from insitu.campaign.store import open_store
from insitu.entities import RunState

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "harness"
BESIDE = Path(sys.prefix) / "reframe" / "bin"  # by bootstrap.py
PLACES = {
    "jube": "apt-get install jube",
    "reframe": "python3 bootstrap.py test puts it beside .venv/bin",
    "ramble": "its repository, github.com/GoogleCloudPlatform/ramble, and its requirements.txt",
}


@pytest.fixture
def harness(tmp_path, monkeypatch):
    """Run one of its commands in a folder in which `insitu` is this checkout's."""
    command = tmp_path / "bin" / "insitu"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nexport PYTHONPATH={ROOT}\nexec {sys.executable} -m insitu "$@"\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("INSITU_TABLES", str(tmp_path / "tables"))
    monkeypatch.setenv("HOME", str(tmp_path))  # where these tools keep reports and settings
    (tmp_path / "tables").mkdir()

    def run(name: str, *words: object, **variables: object) -> str:
        program = shutil.which(name) or shutil.which(name, path=BESIDE)
        if program is None:
            pytest.skip(f"no {name} on PATH: {PLACES[name]}")
        done = subprocess.run(
            [program, *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, **{key: str(of) for key, of in variables.items()}},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def ranks_of_sealed_runs(campaign: Path) -> list[int]:
    with open_store(str(campaign)) as store:
        return sorted(run.key.size for run in store.runs() if run.state is RunState.COMPLETE)


@pytest.mark.full
@pytest.mark.mpi
@pytest.mark.slow
def test_jube_makes_a_campaign_and_reads_what_became_of_each_run(harness, tmp_path):
    harness("jube", "run", EXAMPLES / "heat_jube.yaml", "-o", tmp_path / "heat_runs")
    said = harness("jube", "result", "-a", tmp_path / "heat_runs")

    assert [line.split(",")[:3] for line in said.split()[-3:]] == [
        [str(p), "64", "sealed"] for p in (1, 2, 4)
    ]
    assert ranks_of_sealed_runs(tmp_path / "heat_runs" / "heat.insitu") == [1, 2, 4]
    (diagnosis,) = (tmp_path / "heat_runs").glob("*/run_together/diagnosis.txt")
    assert "measured: 1 to 4 ranks, 3 runs" in " ".join(diagnosis.read_text().split())


@pytest.mark.full
@pytest.mark.mpi
@pytest.mark.slow
def test_reframe_runs_three_at_once_and_checks_the_campaign_last(harness, tmp_path):
    example = EXAMPLES / "heat_reframe.py"
    words = ("-c", example, "-r", "--prefix", tmp_path / "reframe", "--nocolor")
    said = harness("reframe", *words, INSITU_CAMPAIGNS=tmp_path)

    assert "Ran 4/4 test case(s) from 4 check(s) (0 failure(s)" in said
    assert ranks_of_sealed_runs(tmp_path / "heat.insitu") == [1, 2, 4]
    (diagnosis,) = (tmp_path / "reframe").glob("output/**/diagnosis.txt")
    assert "measured: 1 to 4 ranks, 3 runs" in " ".join(diagnosis.read_text().split())


@pytest.mark.full
@pytest.mark.mpi
@pytest.mark.slow
def test_a_modifier_of_ramble_measures_and_diagnoses(harness, tmp_path):
    own = {"RAMBLE_DISABLE_LOCAL_CONFIG": "1", "HEAT": ROOT / "examples" / "stencil2d.py"}
    workspace = tmp_path / "ws"
    scope = f"--config-scope={tmp_path / 'scope'}"
    (tmp_path / "scope").mkdir()
    for kind in ("repos", "modifier_repos"):
        repositories = f"{kind}:\n- {EXAMPLES / 'heat_ramble'}\n"
        (tmp_path / "scope" / f"{kind}.yaml").write_text(repositories)
    create = ("workspace", "create", "-d", workspace, "-c", EXAMPLES / "heat_ramble.yaml")
    harness("ramble", scope, *create, **own)
    for words in (("workspace", "setup"), ("on",)):
        harness("ramble", scope, "-D", workspace, *words, **own)
    said = harness("ramble", scope, "-D", workspace, "workspace", "analyze", "-p", **own)

    assert said.count("Status = SUCCESS") == 3
    assert said.count("run time = ") == 3
    experiments = workspace / "experiments" / "heat" / "plate"
    assert ranks_of_sealed_runs(experiments / "heat.insitu") == [1, 2, 4]
    diagnosis = (experiments / "p4" / "diagnosis.txt").read_text()
    assert "measured: 1 to 4 ranks, 3 runs" in " ".join(diagnosis.split())
