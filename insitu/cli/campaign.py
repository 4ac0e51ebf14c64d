"""`insitu campaign`: all runs of a campaign with one command."""

import math
import os

import click

from insitu.analysis.progress import Agenda
from insitu.campaign.layout import RUNS_LOG
from insitu.campaign.lock import find_lock_holder
from insitu.cli.options import Command, campaign_argument, json_option
from insitu.cli.output import print_json
from insitu.design.campaign_plan import LAUNCHERS, PSIJ
from insitu.design.factorial import Point
from insitu.design.schedule import Progress
from insitu.launch.batch import BatchSystem
from insitu.launch.pilots import TIMEOUT_CODE
from insitu.units import quantity
from insitu.workflows.campaign import CampaignStatus, PlannedCampaign, plan_campaign
from insitu.workflows.jobs import SubmittedJob, batch_system_of, plan_jobs, submit_jobs
from insitu.workflows.runner import (
    NOT_MEASURED,
    FinishedRun,
    RunnerOptions,
    RunReporter,
    make_runs,
)

FAILED_EXIT_CODE = 1


HELP = """Make all runs that campaign.toml of CAMPAIGN requests.

No configuration is run more often than requested: all stored runs count, whoever made them, and
only one process at a time makes runs. `insitu init` writes the file. It looks like this:

\b
[levels]
p = [1, 2, 4, 8]                   # numbers of ranks
n = "64..512:4"                    # four values in equal ratios
[run]
command = "./heat.py --cells {n}"  # as after `insitu run --`
repetitions = 3                    # or "auto"
launcher = "mpiexec"               # or srun, flux, sbatch, psij:pbs

Launchers named psij: use PSI/J; psij:lsf, psij:flux and others work as well. Further keys of [run]
are mpiexec, timeout_s, budget_core_h, iterations, only and packages, as in `insitu run`, the lists
of words srun, flux, sbatch and setup, the table psij, and design: "full", "sparse", "deduced"
(requires dependencies = "dependencies.json"; includes check points), or "advise", which makes one
run after the other, each the one that improves a prediction most per core hour, until predict =
"p=1024, n=4096" is known to goal = 0.05.
"""


@click.group(name="campaign", help=HELP)
def command() -> None:
    """Make all runs that campaign.toml requests; users see HELP instead of this text."""


def _plan_options(function: Command) -> Command:
    """Add the campaign, --launcher, --ranks and --json."""
    launcher = click.option(
        "-l",
        "--launcher",
        type=click.Choice([*LAUNCHERS, *PSIJ]),
        metavar="NAME",
        help="Use this launcher instead of the one in campaign.toml.",
    )
    ranks = click.option(
        "-n",
        "--ranks",
        type=int,
        metavar="N",
        help="Only the runs with N ranks, as job scripts do.",
    )
    return campaign_argument(launcher(ranks(json_option(function))))


def _runner_options(function: Command) -> Command:
    """Add the options of `_plan_options`, --once and --wait."""
    once = click.option(
        "-1", "--once", "is_once", is_flag=True, help="Run each configuration at most once."
    )
    wait = click.option(
        "-w",
        "--wait",
        "is_waiting",
        is_flag=True,
        help="Wait while another process makes runs of this campaign.",
    )
    return _plan_options(once(wait(function)))


@command.command(name="plan")
@_plan_options
def plan_command(campaign: str, launcher: str | None, ranks: int | None, is_json: bool) -> None:
    """Print what would be run, with estimates and job scripts."""
    plan = plan_campaign(campaign, launcher=launcher, ranks=ranks)
    _print_status(plan, batch_system_of(plan), is_json=is_json, is_plan=True)


@command.command(name="status")
@_plan_options
def status_command(campaign: str, launcher: str | None, ranks: int | None, is_json: bool) -> None:
    """Print how far the campaign is, who makes runs, and queued jobs."""
    plan = plan_campaign(campaign, launcher=launcher, ranks=ranks)
    _print_status(plan, batch_system_of(plan), is_json=is_json, is_plan=False)


@command.command(name="run")
@_runner_options
def run_command(
    campaign: str,
    launcher: str | None,
    ranks: int | None,
    *,
    is_once: bool,
    is_waiting: bool,
    is_json: bool,
) -> None:
    """Make the missing runs; continue after runs that fail."""
    plan = plan_campaign(campaign, launcher=launcher, ranks=ranks)
    _make_runs(plan, RunnerOptions(False, is_once, is_waiting), is_json=is_json)


@command.command(name="resume")
@_runner_options
def resume_command(
    campaign: str,
    launcher: str | None,
    ranks: int | None,
    *,
    is_once: bool,
    is_waiting: bool,
    is_json: bool,
) -> None:
    """Make the missing runs, and retry what failed before."""
    plan = plan_campaign(campaign, launcher=launcher, ranks=ranks)
    _make_runs(plan, RunnerOptions(True, is_once, is_waiting), is_json=is_json)


def _make_runs(plan: PlannedCampaign, options: RunnerOptions, *, is_json: bool) -> None:
    """Make runs, or submit them as jobs."""
    batch = batch_system_of(plan)
    if batch is not None:
        _submit(plan, batch, is_retrying=options.is_retrying, is_json=is_json)
        return

    result = make_runs(plan, options, _RunPrinter(plan.path, is_json=is_json))
    _print_conclusion(plan, result.status, is_once=options.is_once)
    if result.has_failures:
        raise click.exceptions.Exit(FAILED_EXIT_CODE)


class _RunPrinter(RunReporter):
    """Prints the progress on standard error and, with --json, each run on standard output."""

    def __init__(self, path: str, *, is_json: bool) -> None:
        self._path = path
        self._is_json = is_json

    def waiting(self, holder: str) -> None:
        """Print who makes runs now."""
        who = holder or "another insitu campaign"
        _print_message(f"waiting for {who}, which makes runs of this campaign")

    def report_start(self, point: Point, number: int, total: int) -> None:
        """Begin a line for this run."""
        _print_message(f"[{number}/{total}] {point} …", is_line_end=False)

    def report_end(self, run: FinishedRun, agenda: Agenda) -> None:
        """End the line of this run."""
        duration = quantity(run.seconds, "s")
        if run.code:
            log = os.path.join(self._path, RUNS_LOG)
            _print_message(f" {_describe_failure(run)} after {duration}; see {log}")
        else:
            _print_message(f" {duration}{_remaining_time(agenda)}")
        if self._is_json:
            row = {"params": dict(run.point.values), "code": run.code, "seconds": run.seconds}
            print_json([row | {"reason": run.reason}])

    def report_interruption(self) -> None:
        """Print how to continue."""
        path = os.path.relpath(self._path)
        _print_message(f" interrupted; continue with: insitu campaign run {path}")


def _describe_failure(run: FinishedRun) -> str:
    if run.code == TIMEOUT_CODE:
        return "timed out"
    if run.code == NOT_MEASURED:
        return f"could not be measured ({run.reason})"
    return f"failed with exit code {run.code}"


def _submit(plan: PlannedCampaign, batch: BatchSystem, *, is_retrying: bool, is_json: bool) -> None:
    def report(job: SubmittedJob) -> None:
        _print_message(f"{job.script}: job {job.id}")
        if is_json:
            print_json([{"script": job.script, "ranks": job.ranks, "job": job.id}])

    submission = submit_jobs(plan, batch, is_retrying=is_retrying, report=report)
    if submission.status is None:
        queued = ", ".join(submission.queued)
        _print_message(f"jobs of this campaign are queued already ({queued}) and will continue")
    elif submission.jobs:
        _print_message(f"follow them with: insitu campaign status {plan.path}")
    else:
        _print_conclusion(plan, submission.status)


def _print_status(
    plan: PlannedCampaign, batch: BatchSystem | None, *, is_json: bool, is_plan: bool
) -> None:
    status = plan.load_status()
    agenda = status.agenda
    if is_json:
        print_json(map(_row, agenda.lines))
        return

    for entry in agenda.lines:
        click.echo(_progress_line(entry))
    total = agenda.done + agenda.left
    click.echo(f"\n{agenda.done} of {total} runs made{_remaining_time(agenda)}")
    if is_plan or status.is_advised:
        for insight in status.insights:
            click.echo(f"- {insight}")

    holder = find_lock_holder(plan.path)
    if holder:
        click.echo(f"runs are being made by {holder}")
    if batch is not None and is_plan:
        for job in plan_jobs(plan, status, is_retrying=True):
            click.echo(f"\n# {job.path}\n{batch.preview(job)}", nl=False)
    elif batch is not None:
        for job_state in batch.queued_jobs():
            click.echo(f"job {job_state}")


def _row(entry: Progress) -> dict[str, object]:
    return {
        "params": dict(entry.point.values),
        "done": entry.done,
        "wanted": entry.wanted,
        "failed": entry.failed,
        "seconds": None if math.isnan(entry.seconds) else entry.seconds,
    }


def _progress_line(entry: Progress) -> str:
    failures = ""
    if entry.failed:
        failures = ", failed once" if entry.failed == 1 else f", failed {entry.failed} times"
    longest = max(entry.interrupted_s, default=0.0)
    if entry.interrupted_s:
        count = len(entry.interrupted_s)
        times = "once" if count == 1 else f"{count} times"
        failures += f", interrupted {times}"
    duration = "duration unknown"
    if longest and longest == entry.seconds:
        duration = f"more than {quantity(entry.seconds, 's')} each"
    elif not math.isnan(entry.seconds):
        duration = f"about {quantity(entry.seconds, 's')} each"
    return f"{entry.point}: {entry.done} of {entry.wanted} runs{failures}, {duration}"


def _print_conclusion(
    plan: PlannedCampaign, status: CampaignStatus, *, is_once: bool = False
) -> None:
    """Print how far the campaign is, and what to do next."""
    agenda = status.agenda
    failed = [str(entry.point) for entry in agenda.lines if entry.remaining and entry.failed]
    if status.is_advised:
        for insight in status.insights:
            _print_message(insight)

    if not agenda.left:
        _print_message(
            f"{agenda.done} runs are in {plan.path}; show their models with: insitu models"
            f" {plan.path}"
        )
    elif failed:
        _print_message(
            f"{agenda.left} runs are missing, failed: {'; '.join(failed)}; try again with: insitu"
            f" campaign resume {plan.path}"
        )
    elif is_once and status.next_run(plan.remaining_budget(), is_retrying=False, tried=()):
        _print_message(f"{agenda.left} runs are left for other tasks of the job array")
    else:
        budget = plan.study.budget_core_h
        _print_message(
            f"{agenda.left} runs are missing: they would exceed the budget of {budget:g} core hours"
        )


def _remaining_time(agenda: Agenda) -> str:
    """Return the time that the remaining runs will take; empty if it is not known."""
    if not agenda.left or math.isnan(agenda.seconds):
        return ""
    return f"; about {quantity(agenda.seconds, 's')} and {agenda.core_hours:.2g} core hours to go"


def _print_message(text: str, *, is_line_end: bool = True) -> None:
    """Print on standard error; standard output is for data."""
    click.echo(text, err=True, nl=is_line_end)
