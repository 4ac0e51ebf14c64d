"""The end of a run waits for its models, but not for long."""

import subprocess
import sys
import time

import pytest

from insitu.campaign.store import open_store
from insitu.errors import CampaignError
from insitu.run import summary, supervise
from insitu.run.aggregator import AggregatorProcess, own_process_environment
from insitu.run.options import parse
from insitu.run.program import ProgramEnd
from tests.support.campaigns import heat_campaign, heat_run

STORING = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # first, also for threads of numpy
from insitu.workflows.refit import refit_campaign
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
refit_campaign(sys.argv[1])
"""
FITTING = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.mark.parametrize("is_own", [True, False])
def test_the_wait_for_models_is_bounded_and_said(tmp_path, monkeypatch, capsys, is_own):
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (4, 8, 16)) as store:  # without models
        run = store.runs()[-1]
    monkeypatch.setattr(supervise, "MODELS_TIMEOUT_S", 0.0)
    aggregator = AggregatorProcess(campaign, run.id)
    process = subprocess.Popen(FITTING)
    try:
        if is_own:
            aggregator.process = process
        else:
            monkeypatch.setattr(aggregator, "look", lambda: supervise.Reachability.REACHABLE)

        supervise._end_aggregator(run, campaign, aggregator)
    finally:
        process.kill()
        process.wait()

    message = capsys.readouterr().err
    assert ("insitu refit" in message) == is_own
    assert ("still fitting the models" in message) != is_own


def test_models_of_many_call_paths_are_not_waited_for(tmp_path, monkeypatch, capsys):
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (4, 8, 16)) as store:  # without models
        run = store.runs()[-1]
        n_callpaths = len(store.callpaths(run.id))
    monkeypatch.setattr(summary, "MAX_CALLPATHS", n_callpaths - 1)
    monkeypatch.setattr(supervise, "_await_models", lambda *_: pytest.fail("it waits"))
    aggregator = AggregatorProcess(campaign, run.id)
    aggregator.process = subprocess.Popen(FITTING)
    try:
        supervise._end_aggregator(run, campaign, aggregator)
    finally:
        aggregator.process.kill()
        aggregator.process.wait()

    message = " ".join(capsys.readouterr().err.split())
    assert f"models of {n_callpaths} call paths take long to fit" in message
    assert "fit them with: insitu refit" in message


def test_the_wait_for_models_leaves_the_processor_to_who_fits_them(tmp_path, monkeypatch):
    """It ends with the aggregator. Every 50 ms it read the campaign, for 3 ms of a processor."""
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (4, 8, 16)) as store:  # without models
        run = store.runs()[-1]
    looks = []
    refitted = subprocess.CompletedProcess(["refit"], 0)
    monkeypatch.setattr(supervise, "_is_unmodelled", lambda *_: not looks.append(time.monotonic()))
    monkeypatch.setattr(supervise, "_run_command", lambda *_, **__: refitted)
    aggregator = AggregatorProcess(campaign, run.id)
    aggregator.process = subprocess.Popen((sys.executable, "-c", "import time; time.sleep(1)"))

    began_at = time.monotonic()
    assert supervise._await_models(run, campaign, aggregator)

    assert len(looks) <= 2 + (time.monotonic() - began_at) / supervise.LOOK_S


@pytest.mark.parametrize("is_terminal", [True, False])
def test_whoever_waits_for_models_at_a_terminal_is_told(tmp_path, monkeypatch, capsys, is_terminal):
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (4, 8, 16)) as store:  # without models
        run = store.runs()[-1]
    waits = iter([True] * 4 + [False])
    monkeypatch.setattr(supervise, "SILENT_WAIT_S", 0.0)
    monkeypatch.setattr(supervise, "_is_unmodelled", lambda *_: next(waits))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    aggregator = AggregatorProcess(campaign, run.id)
    monkeypatch.setattr(aggregator, "look", lambda: supervise.Reachability.REACHABLE)
    monkeypatch.setattr(aggregator, "pause", lambda _: None)

    assert supervise._await_models(run, campaign, aggregator)

    message = capsys.readouterr().err
    assert message.count("the run is stored; fitting models, for 30 s at most") == is_terminal


def test_models_that_an_aggregator_stores_while_it_ends_are_not_said_to_be_missing(
    tmp_path, monkeypatch, capsys
):
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (4, 8, 16)) as store:  # without models
        run = store.runs()[-1]
    monkeypatch.setattr(supervise, "MODELS_TIMEOUT_S", 0.0)
    aggregator = AggregatorProcess(campaign, run.id)
    command = (sys.executable, "-c", STORING, campaign)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as aggregator.process:
        assert aggregator.process.stdout.readline() == b"ready\n"

        supervise._end_aggregator(run, campaign, aggregator)

    assert capsys.readouterr().err == ""


def test_the_models_of_a_run_are_fitted_where_the_aggregator_ended_without_them(tmp_path):
    campaign = str(tmp_path / "heat.insitu")
    record, table = heat_run(8)
    with heat_campaign(campaign, 1, (1, 2, 4)) as store:
        store.add_run(record, table)
    options = parse(["-q", "--campaign", campaign, "heat"])

    aggregator = AggregatorProcess(campaign, record.id)
    ended = ProgramEnd("heat", 0)
    stored, reason = supervise.finish_run(options, record.id, campaign, aggregator, ended=ended)

    assert stored is not None
    assert reason == ""
    with open_store(campaign) as store:
        assert record.id not in store.unmodelled_runs()
        assert store.models()


def test_a_campaign_that_cannot_be_written_is_tried_a_few_times_and_its_error_shown(
    tmp_path, monkeypatch, capsys
):
    campaign = str(tmp_path / "heat.insitu")
    calls = []

    def fail(name, campaign):
        calls.append(name)
        return subprocess.CompletedProcess([name], CampaignError.exit_code, "cannot be written\n")

    monkeypatch.setattr(supervise, "_run_command", fail)
    aggregator = AggregatorProcess(campaign, "run")

    supervise._ingest("run", campaign, aggregator, is_known=False, is_quiet=True)

    assert calls == ["ingest"] * supervise.INGEST_TRIES
    assert capsys.readouterr().err == "cannot be written\n"


@pytest.mark.parametrize("threads", ["", "3"])
def test_numpy_starts_no_threads_on_the_cores_of_the_ranks_unless_the_user_wants_some(
    monkeypatch, threads
):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
    count = "import numpy, os; print(len(os.listdir('/proc/self/task')))"

    environment = own_process_environment()

    answer = subprocess.run(
        [sys.executable, "-c", count], env=environment, capture_output=True, text=True, check=True
    )
    is_alone = int(answer.stdout) == 1
    assert environment["OPENBLAS_NUM_THREADS"] == (threads or "1")
    assert is_alone or threads
