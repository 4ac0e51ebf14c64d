"""`insitu campaign` with scripts in place of Slurm's commands."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from insitu.campaign.attempts import AttemptRecord, append_attempt
from insitu.campaign.lock import RunsLock
from insitu.campaign.store import open_store
from insitu.entities import RunState
from tests.support.campaigns import heat_run

PLAN = """
[levels]
p = [1, 2]
[run]
command = "app.py"
launcher = "sbatch"
"""


@pytest.fixture
def campaign(insitu, tmp_path, monkeypatch) -> Path:
    """A campaign on a cluster that numbers its jobs 101, 102 and so on, and runs none."""
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    tools = {
        "sbatch": 'cd "$(dirname "$0")"; echo x >> jobs; n=$(wc -l < jobs);'
        ' echo "$((100 + n)) $((100 + n)) PENDING Priority" >> queue; echo $((100 + n))',
        "squeue": 'cat "$(dirname "$0")/queue" 2>/dev/null; exit 0',
    }
    (tmp_path / "bin").mkdir()
    for name, text in tools.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    path = tmp_path / "app.insitu"
    path.mkdir(mode=0o700)
    (path / "campaign.toml").write_text(PLAN)
    return path


def test_each_number_of_ranks_becomes_a_job_once(insitu, campaign):
    submitted = insitu("campaign", "run", "app.insitu")
    again = insitu("campaign", "run", "app.insitu")
    status = insitu("campaign", "status", "app.insitu")

    assert submitted.code == 0, submitted.err
    assert submitted.err.splitlines() == [
        f"{campaign}/jobs/p1.sh: job 101",
        f"{campaign}/jobs/p2.sh: job 102",
        f"follow them with: insitu campaign status {campaign}",
    ]
    assert again.code == 2
    assert "queued already (101 PENDING (Priority), 102 PENDING (Priority)); wait" in again.err
    assert status.lines[-2:] == ["job 101 PENDING (Priority)", "job 102 PENDING (Priority)"]


def test_submitted_jobs_are_lines_of_json(insitu, campaign):
    answer = insitu("campaign", "run", "app.insitu", "--ranks", "2", "--json")

    (row,) = map(json.loads, answer.lines)
    assert row == {"script": f"{campaign}/jobs/p2.sh", "ranks": 2, "job": "101"}


def test_a_job_leaves_what_is_left_to_the_jobs_that_are_queued(insitu, campaign, monkeypatch):
    insitu("campaign", "run", "app.insitu")
    monkeypatch.setenv("SLURM_JOB_ID", "101")

    answer = insitu("campaign", "run", "app.insitu")

    assert answer.code == 0
    assert answer.err == (
        "jobs of this campaign are queued already (102 PENDING (Priority)) and will continue\n"
    )


def test_jobs_that_failed_are_submitted_again_only_on_request(insitu, campaign):
    for p, times in ((1, 1), (2, 3)):
        for _ in range(times):
            append_attempt(str(campaign), AttemptRecord({"p": p}, 0.0, 5.0, 3))

    status = insitu("campaign", "status", "app.insitu")
    first = insitu("campaign", "run", "app.insitu")
    retried = insitu("campaign", "resume", "app.insitu")

    assert "p=1: 0 of 1 runs, failed once, duration unknown" in status.lines
    assert "p=2: 0 of 1 runs, failed 3 times, duration unknown" in status.lines
    assert first.err == (
        f"2 runs are missing, failed: p=1; p=2; try again with: insitu campaign resume {campaign}\n"
    )
    assert "job 102" in retried.err


def test_psij_needs_a_time_limit_for_its_jobs(insitu, campaign):
    answer = insitu("campaign", "run", "app.insitu", "--launcher", "psij:pbs")

    assert answer.code == 2
    assert "PSI/J requires a time limit for each job; set timeout_s in [run]" in answer.err


def test_whoever_makes_runs_is_named(insitu, campaign):
    with RunsLock(str(campaign)) as lock:
        lock.describe("p=2")
        status = insitu("campaign", "status", "app.insitu")
        answer = insitu("campaign", "run", "app.insitu")

    assert "runs are being made by pid" in status.out
    assert answer.code == 3
    assert "is already making its runs; nothing is run twice" in answer.err


def test_interrupted_runs_are_counted_and_bound_the_time_of_the_next(insitu, campaign):
    with open_store(str(campaign), create=True) as store:
        for repetition, seconds in enumerate((40.0, 60.0)):
            record, table = heat_run(2, repetition)
            ended_at = record.started_at + seconds
            store.add_run(replace(record, state=RunState.INCOMPLETE, ended_at=ended_at), table)

    status = insitu("campaign", "status", "app.insitu")

    assert "p=2: 0 of 1 runs, interrupted 2 times, more than 60 s each" in status.out


@pytest.mark.parametrize("once", [(), ("--once",)])
def test_runs_beyond_the_budget_are_not_made(insitu, campaign, once):
    text = PLAN.replace('launcher = "sbatch"', "budget_core_h = 1.0")
    (campaign / "campaign.toml").write_text(text)
    append_attempt(str(campaign), AttemptRecord({"p": 1}, 0.0, 7200.0, 0))

    answer = insitu("campaign", "run", "app.insitu", *once)

    assert answer.code == 0
    assert "2 runs are missing: they would exceed the budget of 1 core hours" in answer.err
