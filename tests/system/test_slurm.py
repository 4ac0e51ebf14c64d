"""Campaigns under a real Slurm of four nodes: jobs and arrays, through PSI/J, and a reboot."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from insitu.campaign.store import open_store
from insitu.entities import RunState
from insitu.launch.batch import Slurm
from tests.system.slurm import Cluster, slurm, why_not

ROOT = Path(__file__).resolve().parents[2]
PSIJ = Path(sys.prefix) / "psij" / "bin" / "python"
PROGRAM = """
import os, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
for _ in range(10):
    comm.Barrier()
time.sleep(float(os.environ.get("NAP", "0")))
"""
TOLD = """
[levels]
p = {ranks}
n = {values}
[run]
command = "app.py {{n}}"
launcher = "{launcher}"
repetitions = {repetitions}
timeout_s = 60
srun = ["--mpi=pmi2"]
sbatch = ["--nodes=2"]
psij = {{ python = "{python}", per_node = 2 }}
setup = ["export PYTHONPATH={root}"]
"""
ADVISED = """
design = "advise"
predict = "p=8, n=1"
goal = 100.0
"""
DONE_S = 90.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with slurm(tmp_path_factory.mktemp("slurm")) as started:
        started.environment["PYTHONPATH"] = str(ROOT)
        yield started


@pytest.fixture
def campaign(tmp_path: Path, cluster: Cluster) -> Path:
    deadline = time.monotonic() + DONE_S  # the last job of another test ends after its last run
    while cluster.run("squeue", "--noheader", cwd=tmp_path).strip():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    (tmp_path / "app.py").write_text(PROGRAM)
    (tmp_path / "tables").mkdir()
    cluster.environment["INSITU_TABLES"] = str(tmp_path / "tables")
    path = tmp_path / "app.insitu"
    path.mkdir(mode=0o700)
    return path


def tell(
    campaign: Path,
    launcher: str,
    *,
    ranks: Sequence[int] = (4,),
    values: Sequence[int] = (1,),
    repetitions: int = 1,
    more: str = "",
) -> None:
    told = TOLD.format(
        launcher=launcher,
        ranks=list(ranks),
        values=list(values),
        repetitions=repetitions,
        python=PSIJ,
        root=ROOT,
    )
    (campaign / "campaign.toml").write_text(told + more)


def insitu(cluster: Cluster, campaign: Path, *words: str) -> str:
    start = [sys.executable, "-m", "insitu", "campaign", *words, campaign]
    return cluster.run(*start, cwd=campaign.parent)


def rows(cluster: Cluster, campaign: Path) -> list[dict[str, object]]:
    said = insitu(cluster, campaign, "status", "--json")
    return [json.loads(line) for line in said.splitlines()]


def wait_for_runs(cluster: Cluster, campaign: Path, *, is_resumed: bool = False) -> None:
    """Until all are made; jobs that were lost are handed over again where that is asked for."""
    deadline = time.monotonic() + DONE_S
    while any(row["done"] < row["wanted"] for row in rows(cluster, campaign)):
        logs = "".join(path.read_text() for path in (campaign / "jobs").glob("*.log"))
        assert time.monotonic() < deadline, f"{rows(cluster, campaign)}\n{logs}"
        if is_resumed and not cluster.run("squeue", "--noheader", cwd=campaign.parent).strip():
            insitu(cluster, campaign, "resume")
        time.sleep(0.5)


def sealed(campaign: Path) -> Counter[str]:
    """How often each configuration was run."""
    with open_store(str(campaign)) as store:
        whole = [run.key for run in store.runs() if run.state is RunState.COMPLETE]
    return Counter(str(key).partition("#")[0] for key in whole)


@pytest.mark.full
@pytest.mark.mpi
@pytest.mark.native
def test_job_has_an_array_of_repetitions(cluster, campaign):
    tell(campaign, "sbatch", repetitions=2)
    assert insitu(cluster, campaign, "plan").count("# sbatch --parsable --array=1-2%1") == 1

    assert insitu(cluster, campaign, "run").count(": job ") == 1
    wait_for_runs(cluster, campaign)

    assert sealed(campaign) == {"p=4,n=1": 2}
    with open_store(str(campaign)) as store:
        table = store.table(store.runs()[-1].id)
    visits = dict(zip(map(str, table.callpaths), table.values["visits"].tolist(), strict=True))
    assert visits["app.py->MPI_Barrier"] == [10, 10, 10, 10]
    assert os.access(campaign / "jobs" / "p4.sh", os.X_OK)


@pytest.mark.full
@pytest.mark.mpi
@pytest.mark.native
@pytest.mark.skipif(not PSIJ.exists(), reason=f"no PSI/J in {PSIJ}: python3 bootstrap.py test")
def test_job_through_psij_hands_over_what_its_runs_ask_for(cluster, campaign):
    tell(campaign, "psij:slurm", ranks=(2, 4), more=ADVISED)

    assert insitu(cluster, campaign, "run").count(": job ") == 1
    wait_for_runs(cluster, campaign)

    assert sealed(campaign) == {"p=2,n=1": 1, "p=4,n=1": 1}
    scripts = [path.read_text() for path in (campaign / "jobs" / "psij").rglob("*.job")]
    assert sum('--dependency="afterany:' in text for text in scripts) == 1


@pytest.mark.full
@pytest.mark.mpi
@pytest.mark.native
def test_power_fails_and_what_was_advised_is_neither_lost_nor_made_twice(cluster, campaign):
    tell(campaign, "sbatch", ranks=(2, 4), more=ADVISED)
    cluster.environment["NAP"] = "3"
    assert insitu(cluster, campaign, "run").count(": job ") == 1  # the other one follows from it
    running = campaign / "runs.lock"
    deadline = time.monotonic() + DONE_S
    while not (running.exists() and "p=4" in running.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(1)

    cluster.crash()
    cluster.environment["NAP"] = "0"
    cluster.up(is_again=True)
    name = Slurm(str(campaign)).name
    cluster.run("scancel", "--name", name, cwd=campaign.parent)  # Slurm would wait for 2 minutes
    wait_for_runs(cluster, campaign, is_resumed=True)

    assert sealed(campaign) == {"p=2,n=1": 1, "p=4,n=1": 1}


BESIDE = """#!/bin/bash
#SBATCH --nodes=4 --ntasks=8 --overcommit
srun --overlap -N1 -n1 {python} -m insitu serve app.insitu --bind tcp://127.0.0.1:0 &
until [ -e app.insitu/aggregator.json ]; do sleep 0.1; done
srun --overlap -n8 --mpi=pmi2 ./rank.sh {python} -m insitu.run --campaign app.insitu app.py
wait
"""
RANK = """#!/bin/bash
export INSITU_TABLES=$PWD/tables/$SLURMD_NODENAME  # nodes share this machine, not their memory
mkdir -p $INSITU_TABLES
exec "$@"
"""


@pytest.mark.full
@pytest.mark.mpi
@pytest.mark.native
def test_aggregator_beside_the_program_hears_the_agents_of_four_nodes(cluster, campaign):
    folder = campaign.parent
    for name, text in (("job.sh", BESIDE), ("rank.sh", RANK)):
        (folder / name).write_text(text.format(python=sys.executable) if "{" in text else text)
        (folder / name).chmod(0o755)

    number = cluster.run("sbatch", "--parsable", "job.sh", cwd=folder).strip()
    deadline = time.monotonic() + DONE_S
    while not ((campaign / "campaign.db").exists() and sealed(campaign)):
        logs = "".join(path.read_text() for path in folder.glob("slurm-*.out"))
        assert time.monotonic() < deadline, logs
        time.sleep(0.5)
    cluster.run("scancel", number, cwd=folder)

    with open_store(str(campaign)) as store:
        (run,) = store.runs()
    assert run.key.size == 8
    assert run.configuration.get("cost").count('"agent_cpu_s"') == 4  # each agent tells its own
