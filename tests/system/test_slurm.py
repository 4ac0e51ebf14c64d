"""A campaign under a real Slurm: one job per number of ranks, agents on several nodes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from insitu.campaign.store import open_store
from insitu.entities import RunState
from tests.system.slurm import slurm, why_not

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import os
from mpi4py import MPI
comm = MPI.COMM_WORLD
for _ in range(10):
    comm.Barrier()
"""
TOLD = """
[levels]
p = [2, 4]
[run]
command = "app.py"
launcher = "sbatch"
srun = ["--mpi=pmi2"]
sbatch = ["--nodes=2"]
setup = ["export PYTHONPATH={root}"]
"""
DONE_S = 90.0


@pytest.mark.mpi
@pytest.mark.native
def test_campaign_as_jobs_of_a_batch_system(tmp_path):
    reason = why_not()
    if reason:
        pytest.skip(reason)
    (tmp_path / "state").mkdir()
    (tmp_path / "app.py").write_text(PROGRAM)
    campaign = tmp_path / "app.insitu"
    campaign.mkdir(mode=0o700)
    (campaign / "campaign.toml").write_text(TOLD.format(root=ROOT))
    with slurm(tmp_path / "state") as environment:
        environment["PYTHONPATH"] = str(ROOT)

        def insitu(*words: str) -> subprocess.CompletedProcess[str]:
            start = [sys.executable, "-m", "insitu", "campaign", *words, str(campaign)]
            return subprocess.run(
                start, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False
            )

        submitted = insitu("run")
        assert submitted.returncode == 0, submitted.stderr
        assert submitted.stderr.count(": job ") == 2
        assert "queued already" in insitu("run").stderr
        deadline = time.monotonic() + DONE_S
        while time.monotonic() < deadline:
            rows = [json.loads(line) for line in insitu("status", "--json").stdout.splitlines()]
            if all(row["done"] + row["failed"] for row in rows):
                break
            time.sleep(1)
    logs = "".join(path.read_text() for path in (campaign / "jobs").glob("*.log"))
    assert [(row["params"]["p"], row["done"]) for row in rows] == [(2, 1), (4, 1)], logs
    with open_store(str(campaign)) as store:
        runs = store.runs()
        assert all(run.state is RunState.SEALED for run in runs)
        largest = max(runs, key=lambda run: run.key.size)
        table = store.table(largest.id)
    rows = zip(map(str, table.callpaths), table.values["visits"], strict=True)
    visits = {path: list(row) for path, row in rows}
    assert visits["app.py->MPI_Barrier"] == [10, 10, 10, 10]
    assert os.access(campaign / "jobs" / "p2.sh", os.X_OK)
