"""A run from outside: prepares it, and completes it when the program has ended."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from insitu.campaign import layout
from insitu.campaign.catalogue import open_catalogue
from insitu.campaign.reachability import Reachability, find_listener
from insitu.campaign.throttling import throttled_functions
from insitu.collectors import table_directory
from insitu.collectors.bootstrap import start_agent
from insitu.collectors.priority import take_back
from insitu.collectors.spool import complete_folders
from insitu.entities import RunRecord, RunState
from insitu.errors import CampaignError, UsageError
from insitu.launch.base import LAUNCHER_NAMES, Command, Job, load_launcher
from insitu.launch.find import find_launcher, program_argv, program_path
from insitu.run.aggregator import AggregatorProcess, own_process_environment
from insitu.run.end_signal import store_signal
from insitu.run.environment import (
    InheritedState,
    campaign_directory,
    preload_environment,
    rank_environment,
)
from insitu.run.options import Options
from insitu.run.program import ProgramEnd, run_program
from insitu.run.reasons import describe_unmeasured
from insitu.run.summary import (
    count_many_callpaths,
    describe_incomplete,
    print_measurement_errors,
    print_message,
    print_summary,
)

# After the program has ended, for the aggregator to know the run: agents of other nodes start late
# where ranks and programs of others occupy all cores.
FIRST_MESSAGE_S = 4.0
LOOK_S = 0.5
INGEST_TRIES = 5  # where several runs take turns; a campaign that cannot be written fails soon
MODELS_TIMEOUT_S = 30.0  # for the models of a complete run
SILENT_WAIT_S = 2.0  # of that; whoever waits at a terminal for longer is told for what
COMPLETE_TIMEOUT_S = 120.0  # for the last values and the completed run
BRING_IN_TIMEOUT_S = 10.0  # for tables on this node of a run that was stored without them
SILENT_TIMEOUT_S = 3.0  # for an aggregator that does not answer; agents spool their tables by then


def supervise(options: Options) -> int:
    """Run a program, complete the run in its campaign, and return the program's exit code.

    Raises:
        UsageError, LaunchError, CampaignError: the program was not started.
    """
    inherited = InheritedState()
    run = os.urandom(16).hex()
    campaign = campaign_directory(options)
    command = _launch_command(options, run, campaign)
    if options.result:
        require_writable(options.result)
    open_catalogue(campaign, create=True).close()
    try:
        os.makedirs(os.path.join(campaign, layout.LOGS), mode=0o700, exist_ok=True)
        with open(os.path.join(campaign, layout.SERVER_LOG), "ab"):
            pass
    except OSError as error:
        raise CampaignError(
            f"{campaign}: no run can be stored here: {error.strerror}; name another campaign with"
            " --campaign"
        ) from error

    aggregator = AggregatorProcess(campaign, run) if options.agent == "on" else None
    if aggregator is not None:
        aggregator.start()
        if "SLURM_JOB_ID" in os.environ:
            # Slurm kills what outlives the step: the aggregator must not be late.
            aggregator.await_address()

    ended = run_program(command, inherited)
    _take_back_priority(run, aggregator)
    record, reason = finish_run(options, run, campaign, aggregator, ended=ended)
    if options.result:
        is_waiting = record is None and (_has_tables(run) or _is_spooled(run, campaign))
        row = result_row(run, campaign, ended.code, record, reason=reason, is_waiting=is_waiting)
        append_result(options.result, row)
    return ended.code


def _launch_command(options: Options, run: str, campaign: str) -> Command:
    is_launcher = os.path.basename(options.command[0]) in LAUNCHER_NAMES
    if is_launcher and options.ranks is not None:
        raise UsageError(f"both -n and {options.command[0]} start ranks; remove one of them")

    argv = program_argv(options.command)
    throttled: list[str] = []
    with suppress(CampaignError), open_catalogue(campaign) as catalogue:
        throttled = throttled_functions(catalogue.runs())
    environment = rank_environment(options, run, campaign, throttled)
    path = program_path(argv)
    environment |= preload_environment(path)
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
        return load_launcher("local", "").command(job)
    return find_launcher(options.mpiexec, path).command(job)


def finish_run(
    options: Options,
    run: str,
    campaign: str,
    aggregator: AggregatorProcess | None,
    *,
    ended: ProgramEnd,
) -> tuple[RunRecord | None, str]:
    """Wait until a run is complete, ingest its tables if nobody else does, and print a summary.

    Args:
        options: of the command line.
        run: id of the run.
        campaign: absolute path of the campaign.
        aggregator: of this run; None if there is none.
        ended: how the program ended.

    Returns:
        The run as it is stored, None if no rank of it has arrived; and why it is not complete.
    """
    has_errors = print_measurement_errors(run, campaign)
    if aggregator is None:
        reason = f"the tables are kept; ingest them with: insitu ingest {campaign}"
        if not options.is_quiet:
            print_message(reason)
        return None, reason

    aggregator.await_address()
    environment = rank_environment(options, run, campaign)
    record = _await_record(run, campaign, aggregator, environment)
    if aggregator.process is not None and aggregator.look() is Reachability.UNREACHABLE:
        print_message("the aggregator of this run is stopped; ending it")
        aggregator.kill()

    is_stored = record is not None and record.state is RunState.COMPLETE
    if not is_stored and aggregator.look() is Reachability.ABSENT:
        is_known = record is not None
        _ingest(run, campaign, aggregator, is_known=is_known, is_quiet=options.is_quiet)

    record = _find_record(run, campaign) or record
    _end_aggregator(record, campaign, aggregator)
    record = _find_record(run, campaign) or record
    if record is None:
        reason = _describe_absent(run, campaign, aggregator, has_errors=has_errors)
        reason = reason or describe_unmeasured(options.command, campaign, ended.code)
        print_message(reason)
        return None, reason
    if store_signal(record, ended, campaign):
        record = _find_record(run, campaign) or record
    if not options.is_quiet or record.state is RunState.INCOMPLETE:
        print_summary(record, campaign, ended.code)
    is_complete = record.state is RunState.COMPLETE
    return record, "" if is_complete else describe_incomplete(record, campaign)


def _describe_absent(
    run: str, campaign: str, aggregator: AggregatorProcess, *, has_errors: bool
) -> str:
    """Where the tables of a run that is not stored are, or that a reason was printed; else ""."""
    if _is_spooled(run, campaign):
        return _describe_spooled(campaign, aggregator)
    if _has_tables(run):
        return (
            "this run is not stored, for the reason above; its tables are kept on this node, where"
            f" this reads them: insitu ingest {campaign}"
        )
    if has_errors:
        return "no rank of this run was measured, for the reason above"
    return ""


def _ingest(
    run: str, campaign: str, aggregator: AggregatorProcess, *, is_known: bool, is_quiet: bool
) -> None:
    """Ingest the tables of a run, since no aggregator will.

    Several runs may do so at once, and only one of them can write the campaign: the others wait
    until their run is stored or they can ingest it themselves.

    Args:
        run: id of the run.
        campaign: absolute path of the campaign.
        aggregator: that is gone.
        is_known: an incomplete run is stored already; without tables, nothing can complete it.
        is_quiet: print only what is wrong.
    """
    aggregator.stop_expecting()
    if is_known and not _has_tables(run) and not _is_spooled(run, campaign):
        return

    # It ends with CampaignError where another one served the campaign, which has ended as well.
    status = aggregator.process.poll() if aggregator.process is not None else 0
    has_ended = status in (0, CampaignError.exit_code)
    if not has_ended or not is_quiet:
        reason = "has ended" if has_ended else f"is gone ({aggregator.failure_reason()})"
        print_message(f"the aggregator {reason}; ingesting the tables")

    deadline = time.monotonic() + COMPLETE_TIMEOUT_S
    for _ in range(INGEST_TRIES):
        done = _run_command("ingest", campaign)
        if done.returncode != CampaignError.exit_code:
            break
        while _is_written(campaign) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        record = _find_record(run, campaign)
        if record is not None and record.state is RunState.COMPLETE:
            return
    if done.returncode or not is_quiet:
        sys.stderr.write(done.stdout)


def _is_written(campaign: str) -> bool:
    """Whether an aggregator, or another ingest, writes the campaign."""
    return find_listener(campaign).reachability is not Reachability.ABSENT


def _run_command(
    name: str, campaign: str, timeout_s: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command of insitu on a campaign.

    Raises:
        subprocess.TimeoutExpired: the command took longer, and was killed.
    """
    words = [sys.executable, "-P", "-m", "insitu", name, campaign]
    return subprocess.run(
        words,
        env=own_process_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def _describe_spooled(campaign: str, aggregator: AggregatorProcess) -> str:
    where = os.path.relpath(campaign)
    if aggregator.look() is Reachability.UNREACHABLE:
        return (
            f"the tables of this run are in {where}/{layout.SPOOL}: the aggregator"
            f" ({aggregator.status.holder}) does not answer: {aggregator.status.reason}. It stores"
            f" the run as soon as it runs again; if it is gone, run: insitu ingest {where}"
        )
    return f"the tables of this run are in {where}/{layout.SPOOL}; run: insitu ingest {where}"


def _await_record(
    run: str, campaign: str, aggregator: AggregatorProcess, environment: Mapping[str, str]
) -> RunRecord | None:
    """Wait until the aggregator has stored a run; None if it does not."""
    ended_at = answered_at = time.monotonic()
    while time.monotonic() - ended_at < COMPLETE_TIMEOUT_S:
        reachability = aggregator.look()
        if reachability is Reachability.ABSENT:
            break
        if reachability is not Reachability.UNREACHABLE:
            answered_at = time.monotonic()
        elif time.monotonic() - answered_at > SILENT_TIMEOUT_S:
            break

        record = _find_record(run, campaign)
        is_complete = record is not None and record.state is RunState.COMPLETE
        is_over = time.monotonic() - ended_at > BRING_IN_TIMEOUT_S
        # An own aggregator may still receive values of a run that is not complete.
        is_final = aggregator.process is None and (is_over or not _has_tables(run))
        if record is not None and (is_complete or is_final):
            return record

        is_late = time.monotonic() - ended_at > FIRST_MESSAGE_S
        is_waiting = _has_tables(run) or _is_spooled(run, campaign)
        if is_late and not is_waiting and _find_record(run, campaign) is None:
            return None
        _replace_agent(run, environment)
        aggregator.pause(LOOK_S)
    return _find_record(run, campaign)


def _end_aggregator(record: RunRecord | None, campaign: str, aggregator: AggregatorProcess) -> None:
    """Wait for the models of a run, and end the aggregator; print a message if they are late.

    An aggregator that is storing the models finishes that first. Models of many call paths are not
    waited for: the nodes of a job would do nothing meanwhile.
    """
    many = 0
    with suppress(CampaignError), open_catalogue(campaign) as catalogue:
        many = count_many_callpaths(catalogue)
    is_late = record is not None and (many or not _await_models(record, campaign, aggregator))
    aggregator.stop()
    if record is not None and is_late and _is_unmodelled(record, campaign):
        print_message(_describe_late_models(campaign, aggregator, many))


def _await_models(record: RunRecord, campaign: str, aggregator: AggregatorProcess) -> bool:
    """Wait for the models of a run: the user's next command will probably show them.

    An aggregator that was started for another run may end before it fits them.

    Returns:
        Whether there is nothing more to wait for.
    """
    answered_at = time.monotonic()
    deadline = answered_at + MODELS_TIMEOUT_S
    silent_until = answered_at + SILENT_WAIT_S if sys.stderr.isatty() else deadline
    while record.state is RunState.COMPLETE and _is_unmodelled(record, campaign):
        now = time.monotonic()
        if now > deadline or now - answered_at > SILENT_TIMEOUT_S:
            return False
        if now > silent_until:
            silent_until = deadline
            print_message(f"the run is stored; fitting models, for {deadline - now:.0f} s at most")
        reachability = aggregator.look()
        if reachability is not Reachability.UNREACHABLE:
            answered_at = now
        if reachability is Reachability.ABSENT:
            try:
                done = _run_command("refit", campaign, timeout_s=deadline - time.monotonic())
            except subprocess.TimeoutExpired:
                continue
            if done.returncode != CampaignError.exit_code:
                return True
        aggregator.pause(LOOK_S)  # or until it ends, which it does when it has stored them
    return True


def _is_unmodelled(record: RunRecord, campaign: str) -> bool:
    with suppress(CampaignError), open_catalogue(campaign) as catalogue:
        return record.id in catalogue.unmodelled_runs()
    return True


def _describe_late_models(campaign: str, aggregator: AggregatorProcess, many: int) -> str:
    if aggregator.process is None:
        return "the aggregator is still fitting the models of this run"
    reason = f"the models were not fitted within {MODELS_TIMEOUT_S:.0f} s"
    if many:
        reason = f"models of {many:,} call paths take long to fit"
    command = f"insitu refit {os.path.relpath(campaign)}"
    return f"{reason}, and the aggregator has ended; fit them with: {command}"


def _directories(run: str) -> list[str]:
    """Return the table directories of a run on this node."""
    name = table_directory.directory_name(run)
    return [path for path in table_directory.run_directories() if os.path.basename(path) == name]


def _is_spooled(run: str, campaign: str) -> bool:
    """Whether an agent has copied tables of a run into the campaign."""
    folders = complete_folders(campaign)
    return any(os.path.basename(folder).startswith(run) for folder in folders)


def _has_tables(run: str) -> bool:
    return any(table_directory.table_names(path) for path in _directories(run))


def _replace_agent(run: str, environment: Mapping[str, str]) -> None:
    """Start another agent if tables are left, in case the agent of this node was killed.

    An agent that is about to end removes its directory; then there is nothing left to send.
    """
    if _has_tables(run):
        for directory in _directories(run):
            with suppress(OSError):
                start_agent(directory, {**os.environ, **environment})


def _take_back_priority(run: str, aggregator: AggregatorProcess | None) -> None:
    """Let aggregator and agent of this node run like other processes: the ranks have ended."""
    if aggregator is not None and aggregator.process is not None:
        take_back(aggregator.process.pid)
    for directory in _directories(run):
        with suppress(OSError, ValueError):
            path = os.path.join(directory, table_directory.AGENT_LOCK)
            with open(path, encoding="ascii") as file:
                take_back(int(file.read()))


def _find_record(run: str, campaign: str) -> RunRecord | None:
    try:
        with open_catalogue(campaign) as catalogue:
            return next((record for record in catalogue.runs() if record.id == run), None)
    except CampaignError:
        return None


def result_row(
    run: str,
    campaign: str,
    code: int,
    record: RunRecord | None,
    *,
    reason: str = "",
    is_waiting: bool = False,
) -> Mapping[str, object]:
    """Return what became of a run as JSON.

    Args:
        run: its id.
        campaign: absolute path of the campaign.
        code: exit code of the program.
        record: the run as it is stored; None if it is not.
        reason: why it is not complete.
        is_waiting: whether its tables are there and can still be stored.
    """
    row: dict[str, object] = {"run": run, "campaign": campaign, "exit_code": code}
    row["reason"] = reason
    if record is None:
        return row | {"state": "waiting" if is_waiting else "absent"}

    findings = [
        {"code": finding.code, "text": finding.text, "where": finding.where}
        for finding in record.findings
    ]
    return row | {
        "state": record.state.value,
        "params": dict(record.key.parameters),
        "repetition": record.key.repetition,
        "seconds": max(record.ended_at - record.started_at, 0.0),
        "missing": list(record.missing),
        "findings": findings,
    }


def require_writable(path: str) -> None:
    """Check that the result of a run can be written, before the run takes hours.

    Raises:
        UsageError: it cannot.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"--result {path}: cannot write; name another file")


def append_result(path: str, row: Mapping[str, object]) -> None:
    """Append a line of JSON to a file; print a message if that fails."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        print_message(f"--result {path}: cannot write: {error.strerror}")
