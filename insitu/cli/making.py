"""Making the runs of a campaign, one after another."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from insitu.analysis.progress import Agenda
from insitu.campaign.attempts import AttemptRecord, append_attempt
from insitu.campaign.layout import AGGREGATOR_ADDRESS, AGGREGATOR_JOURNAL
from insitu.campaign.lock import RunsLock
from insitu.cli.output import print_json
from insitu.cli.work import State, Work
from insitu.design.factorial import Point
from insitu.entities import RANKS, number
from insitu.errors import CampaignError
from insitu.launch.find import find_mpiexec
from insitu.launch.pilots import LATE, fill, run_bounded
from insitu.run.supervise import importable
from insitu.units import quantity

FAILED = 1
LOG = os.path.join("logs", "runs.log")
POLL_S = 0.5


def make_runs(
    work: Work, *, is_retrying: bool, is_once: bool = False, waits: bool = False, is_json: bool
) -> int:
    """Make the runs that are left; 1 if any of them failed.

    What an earlier attempt left behind is brought in first, so that no run is made again that was
    only not sealed yet.

    Args:
        work: what there is to do.
        is_retrying: what failed is tried again.
        is_once: each configuration at most once, however many repetitions are left.
        waits: for another process that makes runs of this campaign, instead of leaving it to that.
        is_json: one JSON object per run on standard output.

    Raises:
        CampaignError: another process makes runs of this campaign.
    """

    def tell(holder: str) -> None:
        say(f"waiting for {holder or 'another insitu campaign'}, which makes runs of this campaign")

    with _ended_by_signals(work.path), RunsLock(work.path, waiting=tell if waits else None) as turn:
        _bring_in(work.path)
        tried: list[Point] = []
        failed: list[Point] = []
        while True:
            state = work.state()
            agenda = state.agenda
            chosen = state.next(work.budget_left(), is_retrying, tried)
            if chosen is None:
                break
            point = chosen.point
            say(f"[{agenda.done + 1}/{agenda.done + agenda.left}] {point} …", nl=False)
            turn.describe(str(point))
            code, seconds = _run_one(work, point, turn.descriptor)
            if code or is_once:
                tried.append(point)
            if code:
                failed.append(point)
                why = "took too long" if code == LATE else f"ended with exit code {code}"
                say(f" {why} after {quantity(seconds, 's')}; see {os.path.join(work.path, LOG)}")
            else:
                say(f" {quantity(seconds, 's')}{remaining(work.state().agenda)}")
            if is_json:
                print_json([{"params": dict(point.values), "code": code, "seconds": seconds}])
        conclude(work, state, is_once=is_once)
        return FAILED if failed else 0


@contextmanager
def _ended_by_signals(path: str) -> Iterator[None]:
    """SIGTERM, as batch systems send it, ends the run that is being made, too."""

    def end(number: int, frame: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        say(f" interrupted; `insitu campaign run {os.path.relpath(path)}` goes on from here")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _bring_in(path: str) -> None:
    """Let `insitu ingest` seal what earlier runs left behind, once their ranks have ended."""
    from insitu.collectors.leftovers import find_leftovers, has_live_ranks

    if os.path.exists(os.path.join(path, AGGREGATOR_ADDRESS)) and _is_served(path):
        return
    while any(map(has_live_ranks, find_leftovers(path))):
        time.sleep(POLL_S)
    if find_leftovers(path) or os.path.exists(os.path.join(path, AGGREGATOR_JOURNAL)):
        words = [sys.executable, "-m", "insitu", "ingest", path]
        with open(os.path.join(path, "logs", "serve.log"), "ab") as log:
            subprocess.run(words, env=importable(os.environ), check=False, stdout=log, stderr=log)


def _is_served(path: str) -> bool:
    """Whether an aggregator has the campaign, which seals what its agents tell."""
    from insitu.server.discovery import WriterLock

    try:
        WriterLock(path).close()
    except CampaignError:
        return True
    return False


def command_of(work: Work, point: Point) -> list[str]:
    """The command line of one run.

    Raises:
        UsageError: the command of campaign.toml names what is no parameter.
        LaunchError: the mpiexec that it names is not there.
    """
    study = work.study
    params = [
        word
        for name, value in point.values
        if name != RANKS
        for word in ("--param", f"{name}={number(value)}")
    ]
    count = str(int(point[RANKS]))
    start = [sys.executable, "-m", "insitu.run", "--campaign", work.path, *params]
    program = fill(study.command, dict(point.values))
    if program[0].endswith(".py"):
        program.insert(0, sys.executable)
    if study.launcher == "srun":
        return [*start, "--", "srun", "-n", count, *study.srun, *program]
    if study.launcher == "flux":
        return [*start, "--", "flux", "run", "-n", count, *study.flux, *program]
    named = ["--mpiexec", find_mpiexec(study.mpiexec)] if study.mpiexec else []
    return [*start, "-n", count, *named, "--", *program]


def _run_one(work: Work, point: Point, lock: int) -> tuple[int, float]:
    words = command_of(work, point)
    os.makedirs(os.path.join(work.path, "logs"), mode=0o700, exist_ok=True)
    began_at = time.time()
    with open(os.path.join(work.path, LOG), "ab") as output:
        output.write(f"\n== {time.strftime('%Y-%m-%d %H:%M:%S')} {point}\n".encode())
        output.flush()
        ended = run_bounded(
            words,
            work.study.timeout_s,
            output=output,
            directory=os.path.dirname(work.path),
            environment=importable(os.environ),
            kept_open=[lock],
        )
    record = AttemptRecord(dict(point.values), began_at, ended.seconds, ended.code)
    append_attempt(work.path, record)
    return ended.code, ended.seconds


def conclude(work: Work, state: State, *, is_once: bool = False) -> None:
    """How it stands, and what to do next."""
    agenda = state.agenda
    names = [str(one.point) for one in agenda.lines if one.left and one.failed]
    for text in state.insights if state.is_advised else ():
        say(text)
    if not agenda.left:
        say(f"{agenda.done} runs are in {work.path}; look with: insitu models {work.path}")
    elif names:
        listed = "; ".join(names)
        say(
            f"{agenda.left} runs are missing, failed: {listed}; try again with: insitu campaign"
            f" resume {work.path}"
        )
    elif is_once:
        say(f"{agenda.left} runs are left for other tasks of the job array")
    else:
        budget = work.study.budget_core_h
        say(
            f"{agenda.left} runs are missing: they would go beyond the budget of {budget:g} core"
            " hours"
        )


def remaining(agenda: Agenda) -> str:
    """The time that the rest will take, where that is known."""
    if not agenda.left or math.isnan(agenda.seconds):
        return ""
    return f"; about {quantity(agenda.seconds, 's')} and {agenda.core_hours:.2g} core hours to go"


def say(text: str, *, nl: bool = True) -> None:
    """For people; standard output is for machines."""
    click.echo(text, err=True, nl=nl)
