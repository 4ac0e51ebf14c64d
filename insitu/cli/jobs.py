"""Handing the runs of a campaign to a batch system, a job per number of ranks."""

import math
import os
import sys

from insitu.campaign.lock import RunsLock
from insitu.cli.making import conclude, say
from insitu.cli.output import print_json
from insitu.cli.work import State, Work
from insitu.design.campaign_plan import AUTO, TIMEOUT_S
from insitu.design.schedule import MAX_REPETITIONS
from insitu.entities import RANKS
from insitu.errors import UsageError
from insitu.launch.batch import BatchJob, BatchSystem, Slurm
from insitu.launch.portable import INSIDE, PSIJ, SCHEME

INSIDE_A_JOB = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")
MARGIN_MIN = 1  # of a job: start and end of runs


def batch_system(work: Work) -> BatchSystem | None:
    """The batch system that the launcher names; None where the runs are made here."""
    launcher, study = work.study.launcher, work.study
    if launcher == "sbatch":
        return Slurm(work.path, study.sbatch)
    if launcher.startswith(SCHEME):
        return PSIJ(work.path, launcher.removeprefix(SCHEME), study.psij)
    return None


def submit_jobs(work: Work, *, is_retrying: bool, is_json: bool) -> None:
    """Hand a job per number of ranks to the batch system.

    Raises:
        UsageError: jobs of this campaign wait or run.
        CampaignError: somebody makes runs of it, or hands over jobs at this moment.
        LaunchError: the batch system refuses.
    """
    batch = batch_system(work)
    assert batch is not None
    is_inside = any(name in os.environ for name in INSIDE_A_JOB)
    with RunsLock(work.path):
        waiting = batch.queued()
        if waiting and is_inside:
            say(f"jobs of this campaign are queued already ({', '.join(waiting)}); they go on")
            return
        if waiting:
            raise UsageError(
                f"jobs of this campaign are queued already ({', '.join(waiting)}); wait for them,"
                " or cancel them"
            )
        state = work.state()
        handed_over = jobs(work, state, is_retrying=is_retrying)
        for job in handed_over:
            number = batch.submit(job)
            say(f"{job.path}: job {number}")
            if is_json:
                print_json([{"script": job.path, "ranks": job.ranks, "job": number}])
    if handed_over:
        say(f"follow them with: insitu campaign status {work.path}")
    else:
        conclude(work, state)


def jobs(work: Work, state: State, *, is_retrying: bool) -> list[BatchJob]:
    """The jobs that make what is left, the smallest first.

    Raises:
        UsageError: PSI/J wants to know how long a job takes, and campaign.toml does not say; or
            jobs have to hand over the next one, and cannot.
    """
    study = work.study
    is_psij = study.launcher.startswith(SCHEME)
    is_limited = study.timeout_s < TIMEOUT_S
    if is_psij and not is_limited:
        raise UsageError("PSI/J gives every job a time limit: say timeout_s in [run]")
    is_followed = study.design == "advise"
    if is_followed and study.launcher == f"{SCHEME}flux":
        raise UsageError(
            'design = "advise" has each job hand over the next, but inside a job of Flux that would'
            ' end with it: run the campaign inside an allocation instead, with launcher = "flux"'
        )
    left = [one for one in state.agenda.lines if one.left and (is_retrying or not one.failed)]
    asks = any(option.startswith(("--time", "-t")) for option in study.sbatch)
    found = []
    for size in sorted({int(one.point[RANKS]) for one in left}):
        here = [one.left for one in left if int(one.point[RANKS]) == size]
        rounds = MAX_REPETITIONS if study.repetitions == AUTO else max(here)
        minutes = math.ceil(study.timeout_s * len(here) / 60) + MARGIN_MIN
        found.append(
            BatchJob(
                campaign=work.path,
                ranks=size,
                python=sys.executable,
                inside=INSIDE.get(study.launcher.removeprefix(SCHEME), "mpiexec")
                if is_psij
                else "srun",
                minutes=minutes if is_limited and not asks else 0,
                rounds=rounds,
                setup=study.setup,
                is_followed=is_followed,
            )
        )
    return found
