"""The end of a run waits for its models, but not for long."""

import subprocess
import sys

import pytest

from insitu.run import supervise
from insitu.run.aggregator import AggregatorProcess
from tests.support.campaigns import heat_campaign

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

        record = supervise._await_record(run.id, campaign, aggregator, {})
    finally:
        process.kill()
        process.wait()

    assert record is not None
    assert record.id == run.id
    message = capsys.readouterr().err
    assert ("insitu refit" in message) == is_own
    assert ("still fitting the models" in message) != is_own
