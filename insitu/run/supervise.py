"""A run from outside: its aggregator, its launcher, its signals, its exit code, its report."""

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from insitu.campaign import layout
from insitu.campaign.catalogue import open_catalogue
from insitu.campaign.listener import ListenerAddress, peek_address
from insitu.collectors import table_directory
from insitu.collectors.bootstrap import start_agent
from insitu.entities import RunRecord, RunState
from insitu.errors import CampaignError, LaunchError, UsageError
from insitu.launch.base import LAUNCHER_NAMES, Command, Job, launcher
from insitu.launch.find import find_launcher, program_argv
from insitu.run.environment import campaign_directory, preload, rank_environment
from insitu.run.options import Options
from insitu.run.summary import say, say_record, say_trouble

START_S = 20.0  # for an aggregator to say where it listens
FIRST_WORD_S = 2.0  # after the program has ended: for a rank to have spoken
MODELS_S = 30.0  # for the models of a sealed run
SEAL_S = 120.0  # for the last totals, the sealing and the models
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
TO_ALL = (signal.SIGINT, signal.SIGQUIT)  # a terminal sends these to the whole process group


def supervise(options: Options) -> int:
    """Run the program of `options` and seal what it measured; the program's exit code.

    Raises:
        UsageError, LaunchError, CampaignError: before the program was started.
    """
    run = secrets.token_hex(16)
    campaign = campaign_directory(options)
    command = _command(options, run, campaign)
    if options.result:
        check_result(options.result)
    open_catalogue(campaign, create=True).close()
    os.makedirs(os.path.join(campaign, "logs"), mode=0o700, exist_ok=True)
    aggregator = Aggregator(campaign, run) if options.agent == "on" else None
    if aggregator is not None:
        aggregator.start()
        if "SLURM_JOB_ID" in os.environ:  # what outlives a step is killed: nothing may come later
            aggregator.await_address()
    code = run_program(command)
    record = report(options, run, campaign, aggregator)
    if options.result:
        write_result(options.result, result_row(run, campaign, code, record))
    return code


def result_row(
    run: str, campaign: str, code: int, record: RunRecord | None
) -> Mapping[str, object]:
    """What became of a run, for machines; state "absent" where no rank of it arrived (yet)."""
    row: dict[str, object] = {"run": run, "campaign": campaign, "exit_code": code}
    if record is None:
        return row | {"state": "absent"}
    return row | {
        "state": record.state.value,
        "params": dict(record.key.parameters),
        "repetition": record.key.repetition,
        "seconds": max(record.ended_at - record.started_at, 0.0),
        "missing": list(record.missing),
        "findings": [
            {"code": one.code, "text": one.text, "where": one.where} for one in record.findings
        ],
    }


def check_result(path: str) -> None:
    """Make sure that the result of a run can be kept, before the run takes hours.

    Raises:
        UsageError: it cannot.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"--result {path}: cannot be written; name another file")


def write_result(path: str, row: Mapping[str, object]) -> None:
    """Append a line; a file that cannot be written is told and changes nothing else."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        say(f"--result {path}: cannot be written: {error.strerror}")


def _command(options: Options, run: str, campaign: str) -> Command:
    is_launcher = os.path.basename(options.command[0]) in LAUNCHER_NAMES
    if is_launcher and options.ranks is not None:
        raise UsageError(f"-n and {options.command[0]} both start ranks; leave one of them out")
    argv = program_argv(options.command)
    environment = rank_environment(options, run, campaign) | preload(argv, options)
    if is_launcher:
        return Command(argv, environment)
    job = Job(
        argv=argv,
        ranks=options.ranks or 1,
        environment=environment,
        cores=len(os.sched_getaffinity(0)),
        is_root=os.getuid() == 0,
    )
    if options.ranks is None:
        return launcher("local", "").command(job)
    return find_launcher(options.mpiexec, argv[0]).command(job)


def run_program(command: Command) -> int:
    """Start the program, pass signals on, and give back its exit code, 128 + N if signal N ended
    it.

    Signals of the terminal reach the program by themselves; those sent to this process alone are
    passed on.
    """
    waited = {*FORWARDED, signal.SIGINT, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        program = subprocess.Popen(
            command.argv,
            env={**os.environ, **command.environment},
            # safe: this process has no other thread
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509
        )
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        is_there = isinstance(error, FileNotFoundError) and os.path.exists(command.argv[0])
        reason = "the interpreter in its first line is not there" if is_there else error.strerror
        raise LaunchError(f"{command.argv[0]}: cannot be started: {reason}") from error
    while program.poll() is None:
        info = signal.sigtimedwait(waited, 1.0)
        if info is None or info.si_signo == signal.SIGCHLD:
            continue
        is_from_terminal = info.si_code > 0 and info.si_signo in TO_ALL
        if not is_from_terminal:
            program.send_signal(info.si_signo)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


class Aggregator:
    """The aggregator of a campaign: the one that serves it already, or one of our own for this
    run."""

    def __init__(self, campaign: str, run: str) -> None:
        self.campaign = campaign
        self.run = run
        self.process: subprocess.Popen[bytes] | None = None
        self.log = os.path.join(campaign, "logs", "serve.log")
        self.coming = os.path.join(campaign, layout.AGGREGATOR_EXPECTED)

    def start(self) -> None:
        """Find or start it. The program does not wait for it: agents look for it until it is
        there."""
        if self.address() is not None:
            return
        with suppress(OSError):  # agents that do not know of it linger less
            os.close(os.open(self.coming, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "insitu", "serve", self.campaign),
                    *("--exit-with", self.run, "--parent", str(os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=importable(os.environ),
            )

    def await_address(self) -> None:
        """Until it says where it listens. If it does not come up, the tables remain."""
        if self.process is None:
            return
        deadline = time.monotonic() + START_S
        while self.address() is None:
            if time.monotonic() > deadline or self.process.poll() is not None:
                say(f"the aggregator did not start ({self.last_words()})")
                self.give_up()
                return
            self.pause(0.02)

    def give_up(self) -> None:
        """Agents need not wait for it any more."""
        with suppress(OSError):
            os.unlink(self.coming)

    def pause(self, seconds: float) -> None:
        """So long, or until our own aggregator ends."""
        if self.process is None or not hasattr(os, "pidfd_open"):
            time.sleep(min(seconds, 0.05))
            return
        with suppress(OSError):
            end = os.pidfd_open(self.process.pid)
            poll = select.poll()
            poll.register(end, select.POLLIN)
            poll.poll(1000 * seconds)
            os.close(end)

    def address(self) -> ListenerAddress | None:
        """The address of an aggregator whose process is alive; None if there is none."""
        address = peek_address(os.path.join(self.campaign, layout.AGGREGATOR_ADDRESS))
        if address is not None and address.host == os.uname().nodename:
            try:
                os.kill(address.pid, 0)  # only checks that the process exists
            except OSError:
                return None
        return address

    def is_running(self) -> bool:
        """Whether there is still somebody who can seal the run."""
        if self.process is not None:
            return self.process.poll() is None
        return self.address() is not None

    def stop(self) -> None:
        """End our own aggregator; it seals what is complete."""
        if self.process is None:
            return
        self.give_up()
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(SEAL_S)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def last_words(self) -> str:
        """How it ended: the signal, or the last line of its log."""
        if self.process is not None and (self.process.poll() or 0) < 0:
            return f"killed by signal {-self.process.returncode}"
        try:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file if line.strip()]
        except OSError:
            return "no log"
        return lines[-1] if lines else "it said nothing"


def importable(environment: Mapping[str, str]) -> dict[str, str]:
    """Our own processes import insitu from where this one did."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, (home, environment.get("PYTHONPATH", ""))))
    return {**environment, "PYTHONPATH": path}


def report(
    options: Options, run: str, campaign: str, aggregator: Aggregator | None
) -> RunRecord | None:
    """Wait until the run is sealed, complete it from its tables if nobody else can, and say how it
    went; answers what is known of it."""
    has_trouble = say_trouble(run, campaign)
    if aggregator is None:
        if not options.is_quiet:
            say(f"the tables wait; bring them in with: insitu ingest {campaign}")
        return None
    aggregator.await_address()
    record = _wait(run, campaign, aggregator, rank_environment(options, run, campaign))
    if record is None and not aggregator.is_running():
        aggregator.give_up()
        say(f"the aggregator is gone ({aggregator.last_words()}); bringing in the tables")
        ingest = [sys.executable, "-m", "insitu", "ingest", campaign]
        subprocess.run(ingest, env=importable(os.environ), check=False, stdout=2)
        record = _record(run, campaign)
    aggregator.stop()
    record = record or _record(run, campaign)
    if record is None and has_trouble:
        say("no rank of this run was measured, for the reason above")
    elif record is None:
        say(
            f"no rank of this run was measured: {options.command[0]} started neither a Python 3.11 "
            "to 3.13 that reads PYTHONPATH nor a program linked with a shared MPI library; or its "
            f"tables wait for: insitu ingest {campaign}"
        )
    elif not options.is_quiet or record.state is RunState.INCOMPLETE:
        say_record(record, campaign)
    return record


def _wait(
    run: str, campaign: str, aggregator: Aggregator, environment: Mapping[str, str]
) -> RunRecord | None:
    ended = time.monotonic()
    while aggregator.is_running() and time.monotonic() - ended < SEAL_S:
        if aggregator.process is None and (record := _record(run, campaign)) is not None:
            _wait_for_models(record, campaign, aggregator)
            return record
        is_due = time.monotonic() - ended > FIRST_WORD_S
        if is_due and not _has_tables(run) and _record(run, campaign) is None:
            return None
        _revive_agent(run, environment)
        aggregator.pause(FIRST_WORD_S / 4)
    return _record(run, campaign)


def _wait_for_models(record: RunRecord, campaign: str, aggregator: Aggregator) -> None:
    """An aggregator that serves on makes the models next: who asks for them now wants them."""
    deadline = time.monotonic() + MODELS_S
    while record.state is RunState.COMPLETE and aggregator.is_running():
        with suppress(CampaignError), open_catalogue(campaign) as catalogue:
            if record.id not in catalogue.unmodelled():
                return
        if time.monotonic() > deadline:
            say("its models are being made")
            return
        time.sleep(0.05)


def _directories(run: str) -> list[str]:
    name = table_directory.directory_name(run)
    return [path for path in table_directory.run_directories() if os.path.basename(path) == name]


def _has_tables(run: str) -> bool:
    return any(table_directory.table_names(path) for path in _directories(run))


def _revive_agent(run: str, environment: Mapping[str, str]) -> None:
    """If the agent of this node was killed, let another one send what the ranks have left.

    An agent that ends just now takes the directory with it; then there is nothing left to send.
    """
    if _has_tables(run):
        for directory in _directories(run):
            with suppress(OSError):
                start_agent(directory, {**os.environ, **environment})


def _record(run: str, campaign: str) -> RunRecord | None:
    try:
        with open_catalogue(campaign) as catalogue:
            return next((record for record in catalogue.runs() if record.id == run), None)
    except CampaignError:
        return None
