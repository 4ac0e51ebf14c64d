"""`insitu campaign`: all runs of a campaign with one command."""

import math
import os
from dataclasses import replace

import click

from insitu.campaign.config import FILE, load_settings
from insitu.campaign.lock import find_lock_holder
from insitu.cli.jobs import batch_system, jobs, submit_jobs
from insitu.cli.making import make_runs, remaining
from insitu.cli.output import campaign_argument, json_option, print_json
from insitu.cli.work import Work
from insitu.design.campaign_plan import LAUNCHERS, PSIJ, parse_campaign_plan
from insitu.errors import UsageError
from insitu.launch.pilots import fill
from insitu.units import quantity
from insitu.workflows.progress import design_of


@click.command(name="campaign")
@click.argument("action", type=click.Choice(["plan", "run", "resume", "status"]))
@campaign_argument
@click.option(
    "--launcher",
    type=click.Choice([*LAUNCHERS, *PSIJ]),
    metavar="NAME",
    help="Another than campaign.toml says.",
)
@click.option(
    "--ranks", type=int, metavar="N", help="Only the runs with N ranks; job scripts say so."
)
@click.option("--once", "is_once", is_flag=True, help="Each configuration once at most.")
@click.option(
    "--wait", "waits", is_flag=True, help="Wait while another makes runs of this campaign."
)
@json_option
def command(
    *,
    action: str,
    campaign: str,
    launcher: str | None,
    ranks: int | None,
    is_once: bool,
    waits: bool,
    is_json: bool,
) -> None:
    """Make all runs that campaign.toml of CAMPAIGN asks for.

    \b
    plan     what would be run, with estimates and job scripts; nothing is started
    run      make the runs that are missing; goes on over runs that fail
    resume   the same, and try again what failed
    status   how far it has come, who makes runs of it, which jobs wait

    No configuration is run more often than asked for: runs that are kept count, whoever made them,
    and one process at a time makes them. The file looks like this:

    \b
    [levels]
    p = [1, 2, 4, 8]                   # numbers of ranks
    n = "64..512:4"                    # four values in equal ratios
    [run]
    command = "./heat.py --cells {n}"  # as behind `insitu run --`
    repetitions = 3                    # or "auto"
    launcher = "mpiexec"               # or srun, flux, sbatch, psij:pbs

    psij:lsf, psij:flux and others go through PSI/J as well. The file may say in [run] mpiexec,
    timeout_s, budget_core_h, lists of words srun, flux, sbatch and setup, a table psij, and
    design: "full", "sparse", "deduced" (with dependencies =
    "dependencies.json", check points included), or "advise": one run after the other, each where
    it tells most per core-hour, until predict = "p=1024, n=4096" is known to goal = 0.05.
    """
    path = os.path.abspath(campaign)
    if not os.path.exists(os.path.join(campaign, FILE)):
        raise UsageError(
            f"{campaign}: no {FILE} in it; it says what to run: see `insitu campaign --help`"
        )
    study = parse_campaign_plan(load_settings(path), os.path.join(campaign, FILE))
    fill(study.command, {name: values[0] for name, values in study.levels.items()})
    if launcher:
        study = replace(study, launcher=launcher)
    work = Work(path, study, design_of(study, path), ranks)
    is_retrying = action == "resume"
    if action in ("plan", "status"):
        _show(work, is_json=is_json, is_plan=action == "plan")
    elif batch_system(work) is not None:
        submit_jobs(work, is_retrying=is_retrying, is_json=is_json)
    else:
        code = make_runs(
            work, is_retrying=is_retrying, is_once=is_once, waits=waits, is_json=is_json
        )
        if code:
            raise click.exceptions.Exit(code)


def _show(work: Work, *, is_json: bool, is_plan: bool) -> None:
    state = work.state()
    agenda = state.agenda
    if is_json:
        print_json(
            {
                "params": dict(one.point.values),
                "done": one.done,
                "wanted": one.wanted,
                "failed": one.failed,
                "seconds": None if math.isnan(one.seconds) else one.seconds,
            }
            for one in agenda.lines
        )
        return
    for one in agenda.lines:
        time_text = "?" if math.isnan(one.seconds) else quantity(one.seconds, "s")
        times = "once" if one.failed == 1 else f"{one.failed} times"
        failures = f", failed {times}" if one.failed else ""
        click.echo(
            f"{one.point}: {one.done} of {one.wanted} runs{failures}, about {time_text} each"
        )
    click.echo(f"\n{agenda.done} of {agenda.done + agenda.left} runs made{remaining(agenda)}")
    if is_plan or state.is_advised:
        for text in state.insights:
            click.echo(f"- {text}")
    making = find_lock_holder(work.path)
    if making:
        click.echo(f"runs are being made by {making}")
    batch = batch_system(work)
    if batch is not None and is_plan:
        for job in jobs(work, state, is_retrying=True):
            click.echo(f"\n# {job.path}\n{batch.preview(job)}", nl=False)
    elif batch is not None:
        for line in batch.queued():
            click.echo(f"job {line}")
