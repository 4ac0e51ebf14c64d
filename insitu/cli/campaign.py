"""`insitu campaign`: all runs of a campaign with one command."""

import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from insitu.campaign.attempts import AttemptRecord, append_attempt, read_attempts
from insitu.campaign.config import FILE, load_table
from insitu.campaign.store import open_store
from insitu.cli.output import campaign_argument, json_option, print_json
from insitu.design.factorial import ExperimentDesign, Point
from insitu.design.schedule import Progress, next_run
from insitu.design.study import LAUNCHERS, TIMEOUT_S, Study, study_of
from insitu.entities import RANKS, number
from insitu.errors import UsageError
from insitu.launch.batch import BatchJob, queued, submit
from insitu.launch.find import find_mpiexec
from insitu.launch.pilots import LATE, fill, run_bounded
from insitu.monitor.progress import agenda_of, design_of, progress_in
from insitu.supervise import importable
from insitu.units import quantity

FAILED = 1
LOG = os.path.join("logs", "runs.log")


@click.command(name="campaign")
@click.argument("action", type=click.Choice(["plan", "run", "resume", "status"]))
@campaign_argument
@click.option("--launcher", type=click.Choice(LAUNCHERS), help="Another than campaign.toml says.")
@click.option(
    "--ranks", type=int, metavar="N", help="Only the runs with N ranks; job scripts say so."
)
@json_option
def command(
    *, action: str, campaign: str, launcher: str | None, ranks: int | None, is_json: bool
) -> None:
    """Make all runs that campaign.toml of CAMPAIGN asks for.

    \b
    plan     what would be run, with estimates and job scripts; nothing is started
    run      make the runs that are missing; goes on over runs that fail
    resume   the same, and try again what failed
    status   how far it has come

    No configuration is run more often than asked for: runs that are kept count, whoever made them.
    The file looks like this:

    \b
    [levels]
    p = [1, 2, 4, 8]                   # numbers of ranks
    n = "64..512:4"                    # four values in equal ratios
    [run]
    command = "./heat.py --cells {n}"  # as behind `insitu run --`
    repetitions = 3                    # or "auto"
    launcher = "mpiexec"               # or srun, sbatch

    and may say in [run] mpiexec, design ("full", "sparse", "deduced" with dependencies =
    "dependencies.json", check points included), timeout_s, budget_core_h, and lists of words srun,
    sbatch and setup.
    """
    path = os.path.abspath(campaign)
    study = study_of(load_table(path), os.path.join(campaign, FILE))
    if launcher:
        study = replace(study, launcher=launcher)
    work = Work(path, study, design_of(study, path), ranks)
    if action in ("plan", "status"):
        _show(work, is_json=is_json, is_plan=action == "plan")
    elif study.launcher == "sbatch":
        _submit(work, is_retrying=action == "resume")
    else:
        code = _run(work, is_retrying=action == "resume")
        if code:
            raise click.exceptions.Exit(code)


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to do: the study with its design, for one number of ranks or for all."""

    path: str
    study: Study
    design: ExperimentDesign
    ranks: int | None = None

    def progress(self) -> list[Progress]:
        """How far each configuration has come."""
        with open_store(self.path, create=True) as store:
            found = progress_in(self.path, self.study, self.design, store.runs())
        return [one for one in found if self.ranks in (None, int(one.point[RANKS]))]

    def spent_core_h(self) -> float:
        """Core hours of all runs that were tried."""
        return sum(
            one.seconds * one.parameters.get(RANKS, 1) / 3600 for one in read_attempts(self.path)
        )


def _run(work: Work, *, is_retrying: bool) -> int:
    """Make the runs that are left, one after another; 1 if any of them failed."""
    failed: list[Point] = []
    while True:
        progress = work.progress()
        budget = work.study.budget_core_h - work.spent_core_h()
        chosen = next_run(progress, budget_core_h=budget, is_retrying=is_retrying, tried=failed)
        if chosen is None:
            break
        made = sum(one.done for one in progress)
        _say(f"[{made + 1}/{made + sum(one.left for one in progress)}] {chosen.point} …", nl=False)
        code, seconds = _run_one(work, chosen.point)
        if code:
            failed.append(chosen.point)
            why = "took too long" if code == LATE else f"ended with exit code {code}"
            _say(f" {why} after {quantity(seconds, 's')}; see {os.path.join(work.path, LOG)}")
        else:
            _say(f" {quantity(seconds, 's')}{_remaining(work.progress())}")
    return _conclude(work, progress, bool(failed))


def _run_one(work: Work, point: Point) -> tuple[int, float]:
    study = work.study
    values = dict(point.values)
    params = [
        word
        for name, value in point.values
        if name != RANKS
        for word in ("--param", f"{name}={number(value)}")
    ]
    count = str(int(point[RANKS]))
    start = [sys.executable, "-m", "insitu.run", "--campaign", work.path, *params]
    program = fill(study.command, values)
    if program[0].endswith(".py"):
        program.insert(0, sys.executable)
    if study.launcher == "srun":
        words = [*start, "--", "srun", "-n", count, *study.srun, *program]
    else:
        words = [*start, "-n", count, "--mpiexec", find_mpiexec(study.mpiexec), "--", *program]
    os.makedirs(os.path.join(work.path, "logs"), mode=0o700, exist_ok=True)
    began_at = time.time()
    with open(os.path.join(work.path, LOG), "ab") as output:
        output.write(f"\n== {time.strftime('%Y-%m-%d %H:%M:%S')} {point}\n".encode())
        output.flush()
        ended = run_bounded(
            words,
            study.timeout_s,
            output=output,
            directory=os.path.dirname(work.path),
            environment=importable(os.environ),
        )
    append_attempt(work.path, AttemptRecord(values, began_at, ended.seconds, ended.code))
    return ended.code, ended.seconds


def _conclude(work: Work, progress: Sequence[Progress], has_failed: bool) -> int:
    left = sum(one.left for one in progress)
    done = sum(one.done for one in progress)
    if not left:
        _say(f"{done} runs are in {work.path}; look with: insitu models {work.path}")
    elif any(one.failed for one in progress if one.left):
        names = "; ".join(str(one.point) for one in progress if one.left and one.failed)
        _say(f"{left} runs are missing, failed: {names}; try again with: insitu campaign resume")
    else:
        budget = work.study.budget_core_h
        _say(f"{left} runs are missing: they would go beyond the budget of {budget:g} core hours")
    return FAILED if has_failed else 0


def _submit(work: Work, *, is_retrying: bool) -> None:
    """Hand a job per number of ranks to the batch system."""
    waiting = queued(os.path.basename(work.path))
    if waiting:
        raise UsageError(
            f"jobs of this campaign are queued already ({', '.join(waiting)}); wait for them,"
            " or scancel them"
        )
    jobs = _jobs(work, is_retrying=is_retrying)
    for job in jobs:
        _say(f"{job.path}: job {submit(job.write())}")
    if jobs:
        _say(f"follow them with: insitu campaign status {work.path}")
    else:
        _conclude(work, work.progress(), has_failed=False)


def _jobs(work: Work, *, is_retrying: bool) -> list[BatchJob]:
    left = [one for one in work.progress() if one.left and (is_retrying or not one.failed)]
    sizes = sorted({int(one.point[RANKS]) for one in left})
    limit = math.ceil(work.study.timeout_s / 60)
    found = []
    for size in sizes:
        count = sum(one.left for one in left if int(one.point[RANKS]) == size)
        asks = any(option.startswith(("--time", "-t")) for option in work.study.sbatch)
        is_limited = work.study.timeout_s < TIMEOUT_S
        found.append(
            BatchJob(
                campaign=work.path,
                ranks=size,
                python=sys.executable,
                minutes=limit * count if is_limited and not asks else 0,
                options=work.study.sbatch,
                setup=work.study.setup,
            )
        )
    return found


def _show(work: Work, *, is_json: bool, is_plan: bool) -> None:
    progress = work.progress()
    if is_json:
        print_json(
            {
                "params": dict(one.point.values),
                "done": one.done,
                "wanted": one.wanted,
                "failed": one.failed,
                "seconds": None if math.isnan(one.seconds) else one.seconds,
            }
            for one in progress
        )
        return
    for one in progress:
        time_text = "?" if math.isnan(one.seconds) else quantity(one.seconds, "s")
        times = "once" if one.failed == 1 else f"{one.failed} times"
        failures = f", failed {times}" if one.failed else ""
        click.echo(
            f"{one.point}: {one.done} of {one.wanted} runs{failures}, about {time_text} each"
        )
    done, left = sum(one.done for one in progress), sum(one.left for one in progress)
    click.echo(f"\n{done} of {done + left} runs made{_remaining(progress)}")
    if is_plan:
        for text in work.design.insights:
            click.echo(f"- {text}")
    if work.study.launcher == "sbatch" and is_plan:
        for job in _jobs(work, is_retrying=True):
            click.echo(f"\n# {job.path}\n{job.script()}", nl=False)
    elif work.study.launcher == "sbatch":
        for line in queued(os.path.basename(work.path)):
            click.echo(f"job {line}")


def _remaining(progress: Sequence[Progress]) -> str:
    found = agenda_of(progress)
    if not found.left or math.isnan(found.seconds):
        return ""
    return f"; about {quantity(found.seconds, 's')} and {found.core_hours:.2g} core hours to go"


def _say(text: str, *, nl: bool = True) -> None:
    click.echo(text, err=True, nl=nl)
