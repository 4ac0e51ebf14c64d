"""Making the runs of a campaign, one after another."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from insitu.analysis.progress import Agenda
from insitu.campaign.attempts import AttemptRecord, append_attempt
from insitu.campaign.layout import (
    AGGREGATOR_JOURNAL,
    CAMPAIGN_FILE,
    LOGS,
    RUNS_LOG,
    SERVER_LOG,
)
from insitu.campaign.lock import RunsLock
from insitu.campaign.ownership import check_own
from insitu.campaign.reachability import Reachability, find_listener
from insitu.design.factorial import Point
from insitu.entities import RANKS, RunState, number
from insitu.launch.find import find_mpiexec
from insitu.launch.pilots import fill, run_bounded
from insitu.run.aggregator import own_process_environment, with_insitu_importable
from insitu.workflows.campaign import CampaignStatus, PlannedCampaign

POLL_S = 0.5
NOT_MEASURED = 125  # an exit code that timeout(1), env(1) and docker use for failures of their own


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """How to make the runs.

    Attributes:
        is_retrying: run configurations again that failed before.
        is_once: run each configuration at most once, however many repetitions are left.
        is_waiting: wait for another process that makes runs of this campaign.
    """

    is_retrying: bool = False
    is_once: bool = False
    is_waiting: bool = False


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that has ended.

    Attributes:
        point: its configuration.
        code: exit code of the program (124: timeout); NOT_MEASURED if that is 0 but the run is not
            complete in the campaign.
        seconds: its duration.
        reason: why the run is not complete; "" if it is, or if nothing is known.
    """

    point: Point
    code: int
    seconds: float
    reason: str = ""


class RunReporter:
    """Receives what happens while runs are made; the methods do nothing here."""

    def waiting(self, holder: str) -> None:
        """Another process makes runs of this campaign; `holder` describes it, if known."""

    def report_start(self, point: Point, number: int, total: int) -> None:
        """Run `number` of `total` starts."""

    def report_end(self, run: FinishedRun, agenda: Agenda) -> None:
        """A run has ended; `agenda` is what is left."""

    def report_interruption(self) -> None:
        """A signal ends the runs."""


@dataclass(frozen=True, slots=True)
class RunnerResult:
    """The runs that were made, and how far the campaign has come."""

    runs: tuple[FinishedRun, ...]
    status: CampaignStatus

    @property
    def has_failures(self) -> bool:
        """Whether a run failed, or could not be measured."""
        return any(run.code for run in self.runs)


def make_runs(
    plan: PlannedCampaign,
    options: RunnerOptions = RunnerOptions(),
    reporter: RunReporter | None = None,
) -> RunnerResult:
    """Make the runs that are left; continue after runs that fail.

    What an earlier attempt left behind is ingested first, so that no run is repeated whose tables
    only have to be stored. Call this in the main thread: it handles SIGTERM.

    Args:
        plan: the campaign.
        options: how to make the runs.
        reporter: receives the progress.

    Raises:
        CampaignError: another process makes runs of this campaign, or somebody else could have
            written campaign.toml.
        LaunchError: a run cannot be started.
    """
    check_own(plan.path, os.path.join(plan.path, CAMPAIGN_FILE))
    reporter = reporter or RunReporter()
    on_wait = reporter.waiting if options.is_waiting else None
    made: list[FinishedRun] = []
    tried: list[Point] = []

    with _end_on_sigterm(reporter), RunsLock(plan.path, waiting=on_wait) as lock:
        _ingest_leftovers(plan.path)
        while True:
            status = plan.load_status()
            agenda = status.agenda
            chosen = status.next_run(plan.remaining_budget(), options.is_retrying, tried)
            if chosen is None:
                return RunnerResult(tuple(made), status)

            reporter.report_start(chosen.point, agenda.done + 1, agenda.done + agenda.left)
            lock.describe(str(chosen.point))
            run = _make_run(plan, chosen.point, lock.descriptor)
            if run.code or options.is_once:
                tried.append(chosen.point)
            made.append(run)
            reporter.report_end(run, plan.load_status().agenda)


@contextmanager
def _end_on_sigterm(reporter: RunReporter) -> Iterator[None]:
    """Let SIGTERM, which batch systems send, end the current run as well."""

    def end(number: int, frame: object) -> None:
        sys.exit(128 + number)

    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        reporter.report_interruption()
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


def _ingest_leftovers(path: str) -> None:
    """Ingest what earlier runs left behind, once their ranks have ended."""
    from insitu.collectors.leftovers import find_leftovers, has_live_ranks

    if find_listener(path).reachability is not Reachability.ABSENT:
        return  # the aggregator stores what its agents send, as soon as it runs
    while any(map(has_live_ranks, find_leftovers(path))):
        time.sleep(POLL_S)
    if find_leftovers(path) or os.path.exists(os.path.join(path, AGGREGATOR_JOURNAL)):
        command = [sys.executable, "-m", "insitu", "ingest", path]
        with open(os.path.join(path, SERVER_LOG), "ab") as log:
            environment = own_process_environment()
            subprocess.run(command, env=environment, check=False, stdout=log, stderr=log)


def run_command(plan: PlannedCampaign, point: Point) -> list[str]:
    """Return the command line of a run.

    Raises:
        UsageError: the command of campaign.toml names an unknown parameter.
        LaunchError: the mpiexec in campaign.toml does not exist.
    """
    study = plan.study
    measure = [sys.executable, "-m", "insitu.run", "--campaign", plan.path]
    for name, value in point.values:
        if name != RANKS:
            measure += ["--param", f"{name}={number(value)}"]
    for pattern in study.only:
        measure += ["--only", pattern]
    for package in study.packages:
        measure += ["--package", package]
    if study.iterations:
        measure += ["--iterations", str(study.iterations)]

    program = fill(study.command, dict(point.values))
    if program[0].endswith(".py"):
        program.insert(0, sys.executable)

    n_ranks = str(int(point[RANKS]))
    if study.launcher == "srun":
        return [*measure, "--", "srun", "-n", n_ranks, *study.srun, *program]
    if study.launcher == "flux":
        return [*measure, "--", "flux", "run", "-n", n_ranks, *study.flux, *program]
    mpiexec = ["--mpiexec", find_mpiexec(study.mpiexec)] if study.mpiexec else []
    return [*measure, "-n", n_ranks, *mpiexec, "--", *program]


def _make_run(plan: PlannedCampaign, point: Point, lock: int) -> FinishedRun:
    """Make a run and record the attempt.

    Args:
        plan: the campaign.
        point: its configuration.
        lock: descriptor of the lock; the run inherits it and holds the lock as long as it lives.
    """
    command = run_command(plan, point)
    os.makedirs(os.path.join(plan.path, LOGS), mode=0o700, exist_ok=True)

    started_at = time.time()
    with (
        open(os.path.join(plan.path, RUNS_LOG), "ab") as output,
        tempfile.TemporaryDirectory(prefix="insitu-") as folder,
    ):
        result = os.path.join(folder, "result.json")
        output.write(f"\n== {time.strftime('%Y-%m-%d %H:%M:%S')} {point}\n".encode())
        output.flush()
        ended = run_bounded(
            [*command[:3], "--result", result, *command[3:]],
            plan.study.timeout_s,
            output=output,
            directory=os.path.dirname(plan.path),
            environment=with_insitu_importable(os.environ),
            kept_open=[lock],
        )
        state, reason = _read_result(result)

    is_unmeasured = not ended.code and state != RunState.COMPLETE.value
    code = NOT_MEASURED if is_unmeasured else ended.code
    record = AttemptRecord(dict(point.values), started_at, ended.seconds, code)
    append_attempt(plan.path, record)
    return FinishedRun(point, code, ended.seconds, reason)


def _read_result(path: str) -> tuple[str, str]:
    """The state of a run and why it is not complete, as `insitu run --result` wrote them."""
    try:
        with open(path, encoding="utf-8") as file:
            row = json.loads(file.read())
        return str(row["state"]), str(row["reason"])
    except (OSError, ValueError, KeyError):
        return "", "`insitu run` ended before it could say what became of the run"
