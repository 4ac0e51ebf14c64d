"""Submitting the runs of a campaign to a batch system: one job per number of ranks."""

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from insitu.campaign.layout import CAMPAIGN_FILE
from insitu.campaign.lock import RunsLock
from insitu.campaign.ownership import check_own
from insitu.design.campaign_plan import AUTO, TIMEOUT_S
from insitu.design.schedule import MAX_REPETITIONS
from insitu.entities import RANKS
from insitu.errors import UsageError
from insitu.launch.batch import JOBS, BatchJob, BatchSystem, Slurm
from insitu.launch.portable import INSIDE, PSIJ, SCHEME
from insitu.workflows.campaign import CampaignStatus, PlannedCampaign

JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")  # set inside a job
MARGIN_MIN = 1  # of a job's time limit, for starting and ending runs


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A job that the batch system accepted: its script, number of ranks and id."""

    script: str
    ranks: int
    id: str


@dataclass(frozen=True, slots=True)
class Submission:
    """The result of `submit_jobs`.

    Attributes:
        jobs: the submitted jobs.
        queued: jobs of this campaign that are queued already and do the work; then nothing is
            submitted.
        status: how far the campaign has come; None if jobs are queued already.
    """

    jobs: tuple[SubmittedJob, ...]
    queued: tuple[str, ...]
    status: CampaignStatus | None


def batch_system_of(plan: PlannedCampaign) -> BatchSystem | None:
    """Return the batch system that the launcher names; None if runs are made in this process."""
    launcher, study = plan.study.launcher, plan.study
    if launcher == "sbatch":
        return Slurm(plan.path, study.sbatch)
    if launcher.startswith(SCHEME):
        return PSIJ(plan.path, launcher.removeprefix(SCHEME), study.psij)
    return None


def submit_jobs(
    plan: PlannedCampaign,
    batch: BatchSystem,
    *,
    is_retrying: bool = False,
    report: Callable[[SubmittedJob], None] = lambda job: None,
) -> Submission:
    """Submit a job per number of ranks for the runs that are left.

    Args:
        plan: the campaign.
        batch: its batch system, see `batch_system_of`.
        is_retrying: run configurations again that failed before.
        report: called with each job as soon as it is submitted.

    Raises:
        UsageError: jobs of this campaign are queued already.
        CampaignError: another process makes or submits runs of this campaign, or somebody else
            could have written campaign.toml or a job script.
        LaunchError: the batch system refuses a job.
    """
    check_own(plan.path, os.path.join(plan.path, CAMPAIGN_FILE), os.path.join(plan.path, JOBS))
    is_inside_job = any(name in os.environ for name in JOB_VARIABLES)
    with RunsLock(plan.path):
        queued = tuple(batch.queued_jobs())
        if queued and is_inside_job:
            return Submission((), queued, None)
        if queued:
            raise UsageError(
                f"jobs of this campaign are queued already ({', '.join(queued)}); wait for them or"
                " cancel them"
            )

        status = plan.load_status()
        submitted = []
        for job in plan_jobs(plan, status, is_retrying=is_retrying):
            check_own(job.path)
            submitted.append(SubmittedJob(job.path, job.ranks, batch.submit(job)))
            report(submitted[-1])

    return Submission(tuple(submitted), (), status)


def plan_jobs(
    plan: PlannedCampaign, status: CampaignStatus, *, is_retrying: bool
) -> list[BatchJob]:
    """Return the jobs that make the runs that are left, the smallest first.

    Raises:
        UsageError: campaign.toml has no timeout_s, which PSI/J requires, or the design requires
            jobs that submit the next one, which this batch system cannot do.
    """
    study = plan.study
    is_psij = study.launcher.startswith(SCHEME)
    is_limited = study.timeout_s < TIMEOUT_S
    if is_psij and not is_limited:
        raise UsageError("PSI/J requires a time limit for each job; set timeout_s in [run]")

    submits_next = study.design == "advise"
    if submits_next and study.launcher == f"{SCHEME}flux":
        raise UsageError(
            'with design = "advise", each job submits the next one, but a job submitted inside a'
            " job of Flux ends with it; run the campaign inside an allocation instead,"
            ' with launcher = "flux"'
        )

    runs_left: dict[int, list[int]] = {}  # runs left of each configuration, by number of ranks
    for entry in status.agenda.lines:
        if entry.remaining and (is_retrying or not entry.failed):
            runs_left.setdefault(int(entry.point[RANKS]), []).append(entry.remaining)

    user_sets_time = any(option.startswith(("--time", "-t")) for option in study.sbatch)
    launcher = "srun"
    if is_psij:
        launcher = INSIDE.get(study.launcher.removeprefix(SCHEME), "mpiexec")

    jobs = []
    for ranks, counts in sorted(runs_left.items()):
        minutes = math.ceil(study.timeout_s * len(counts) / 60) + MARGIN_MIN
        job = BatchJob(
            campaign=plan.path,
            ranks=ranks,
            python=sys.executable,
            inside=launcher,
            minutes=minutes if is_limited and not user_sets_time else 0,
            rounds=MAX_REPETITIONS if study.repetitions == AUTO else max(counts),
            setup=study.setup,
            is_followed=submits_next,
        )
        jobs.append(job)
    return jobs
