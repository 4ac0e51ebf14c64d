"""Runs that findings of models name come before all others."""

import json

import numpy as np
import pytest

from insitu.campaign.store import open_store
from insitu.entities import BYTES_RECEIVED, TIME_EXCLUSIVE, CallPath, Metric, RunKey
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.deciding_runs import find_deciding_runs
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.modelers import fit
from insitu.workflows.advise import advise_runs
from insitu.workflows.diagnosis import diagnose
from insitu.workflows.import_ import import_measurements

X = np.array([1.0, 2, 4, 8, 16, 32])
SLOW = [10, 10.1, 9.9, 10, 10.1, 20]


def modelled(values, metric: Metric = TIME_EXCLUSIVE, x=X) -> list[SeriesModel]:
    series = []
    for i, model in enumerate(fit(x, values)):
        key = SeriesKey(CallPath.parse(f"main->step{i}"), metric.name)
        series.append(SeriesModel(key, metric, model))
    return series


def experiment(repetitions: int) -> Experiment:
    empty = RunTable((), (), {})
    keys = [RunKey.of({"p": p}, i) for p in X for i in range(repetitions)]
    return Experiment(("p",), tuple((key, empty) for key in keys))


def test_a_newest_run_that_is_off_is_run_again():
    [run] = find_deciding_runs(modelled([SLOW]), experiment(1))

    assert run.coordinate == (32.0,)
    assert run.reason == "p=32 leaves the law of the smaller runs in time_exclusive of step0"


def test_where_it_was_repeated_the_next_scale_decides():
    [run] = find_deciding_runs(modelled([SLOW]), experiment(2))

    assert run.coordinate == (64.0,)


def test_counts_are_not_measured_again_since_they_would_be_the_same():
    jump = [1, 1, 1, 1, 1, 1000]

    [run] = find_deciding_runs(modelled([jump], BYTES_RECEIVED), experiment(1))

    assert (run.coordinate, run.questioned) == ((64.0,), 32.0)
    assert run.reason == "p=32 alone shows growth in bytes_received of step0"


def test_the_next_scale_behind_whole_numbers_is_whole():
    x = np.array([1.0, 2, 3, 4, 7])
    jump = [1, 1, 1, 1, 1000]

    [run] = find_deciding_runs(modelled([jump], BYTES_RECEIVED, x), experiment(1))

    assert run.coordinate == (12.0,)  # 7^2 / 4 = 12.25


@pytest.mark.parametrize(
    ("x", "following"),
    [
        ([1.0, 8, 27, 64, 125], 216.0),
        ([4.0, 9, 16, 25, 36], 49.0),
        ([1.0, 3, 9, 27, 81], 243.0),
        ([6.0, 12, 18, 24, 36], 54.0),
    ],
)
def test_the_next_number_of_ranks_is_one_that_the_program_accepts(x, following):
    jump = [1, 1, 1, 1, 1000]

    [run] = find_deciding_runs(modelled([jump], BYTES_RECEIVED, np.array(x)), experiment(1))

    assert run.coordinate == (following,)


def test_findings_of_exact_counts_ask_for_no_repetition(tmp_path):
    campaign, source = str(tmp_path / "counts.insitu"), tmp_path / "counts.jsonl"
    lines = []
    for p in (1, 8, 27, 64, 125):
        sent = 1000.0 if p == 125 else 1.0
        for metric, unit in (("bytes_sent", "B"), ("time", "s")):
            row = {"callpath": "main->step", "metric": metric, "unit": unit, "params": {"p": p}}
            lines.append(row | {"repetition": 0, "ranks": [sent] * p})
    source.write_text("".join(json.dumps(row) + "\n" for row in lines))
    import_measurements(campaign, str(source))

    with open_store(campaign) as store:
        models = store.models().models

    advice = {
        series.key.metric: finding.text.rpartition("; ")[2]
        for series in models
        for finding in series.model.findings
        if finding.code == "change-unconfirmed"
    }
    assert advice == {"bytes_sent": "run p=216", "time": "run p=125 again, or p=216"}


def test_the_run_of_most_series_comes_first():
    steep = [1, 1, 1, 1, 1, 1000]  # counts
    runs = find_deciding_runs(modelled([SLOW, SLOW, list(X)]), experiment(1))

    assert [run.series for run in runs] == [2]
    assert find_deciding_runs(modelled([list(X)]), experiment(1)) == []
    assert len(find_deciding_runs(modelled([steep]), experiment(1))) == 1


def test_advise_and_diagnose_propose_it_first(tmp_path):
    campaign, source = str(tmp_path / "slow.insitu"), tmp_path / "slow.jsonl"
    lines = []
    for p, value in zip(X.astype(int).tolist(), SLOW, strict=True):
        for metric, unit, values in (
            ("visits", "1", [3] * p),
            ("time", "s", [value] * p),
            ("time_exclusive", "s", [value] * p),
        ):
            row = {"callpath": "main->step", "metric": metric, "unit": unit, "params": {"p": p}}
            lines.append(row | {"repetition": 0, "ranks": values})
    source.write_text("".join(json.dumps(row) + "\n" for row in lines))
    import_measurements(campaign, str(source))

    proposals = advise_runs(campaign, count=2)

    assert dict(proposals.runs[0].point.values) == {"p": 32.0}
    assert "leaves the law of the smaller runs" in proposals.runs[0].reason
    assert str(diagnose(campaign).next_run).startswith("p = 32 again: it leaves the law")


def test_models_over_several_parameters_ask_for_nothing():
    assert find_deciding_runs(ModelSet().models, Experiment(("p", "n"), ())) == []


def test_a_cheap_call_path_asks_for_no_run(tmp_path):
    campaign, source = str(tmp_path / "cheap.insitu"), tmp_path / "cheap.jsonl"
    lines = []
    for p, value in zip(X.astype(int).tolist(), SLOW, strict=True):
        for path, seconds in (("main->step", 10.0), ("main->log", value / 1e4)):
            row = {"callpath": path, "metric": "time_exclusive", "unit": "s", "params": {"p": p}}
            lines.append(row | {"repetition": 0, "ranks": [seconds] * p})
    source.write_text("".join(json.dumps(row) + "\n" for row in lines))
    import_measurements(campaign, str(source))

    assert "leaves the law" not in str(diagnose(campaign).next_run)
    for proposal in advise_runs(campaign, count=2).runs:
        assert "leaves the law" not in (proposal.reason or "")


def heap_campaign(tmp_path, off: float, scale: float) -> str:
    """A campaign whose heap is constant within 1 %, but for the value at p=32."""
    campaign, source = str(tmp_path / f"{off}.insitu"), tmp_path / f"{off}.jsonl"
    lines = []
    shape = [1, 1.01, 0.99, 1, 1.01, off]
    for p, factor in zip(X.astype(int).tolist(), shape, strict=True):
        heap = round(scale * factor)
        for metric, unit, value in (
            ("visits", "1", 3),
            ("time", "s", 10.0),
            ("time_exclusive", "s", 10.0),
            ("heap_growth", "B", heap),
            ("bytes_allocated", "B", heap),
        ):
            row = {"callpath": "main->step", "metric": metric, "unit": unit, "params": {"p": p}}
            lines.append(row | {"repetition": 0, "ranks": [value] * p})
    source.write_text("".join(json.dumps(row) + "\n" for row in lines))
    import_measurements(campaign, str(source))
    return campaign


def test_a_heap_that_cannot_fill_the_memory_asks_for_no_run(tmp_path):
    campaign = heap_campaign(tmp_path, off=3.0, scale=1e5)

    assert "again" not in str(diagnose(campaign).next_run)
    assert not any(proposal.reason for proposal in advise_runs(campaign, count=3).runs)


def test_a_heap_that_would_fill_the_memory_asks_for_a_run(tmp_path):
    campaign = heap_campaign(tmp_path, off=3.0, scale=20e6)

    reasons = [proposal.reason or "" for proposal in advise_runs(campaign, count=3).runs]
    assert any("main->step" in reason or "of step" in reason for reason in reasons)
