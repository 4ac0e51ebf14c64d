"""What is kept of a run that left what was expected of it, in every place where runs come in."""

import json
import os

import numpy as np
import pytest

from insitu.analysis.deviation import (
    OFF_FORECAST,
    find_deviations,
    find_deviations_from_models,
)
from insitu.analysis.forecast import Forecast, LivePath, compare_with_forecast, make_forecast
from insitu.analysis.shares import Estimate
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.cli.import_ import command as import_command
from insitu.entities import (
    DELAY_COST,
    FILES_SHARED,
    HEAP_PEAK,
    MEMORY_RSS,
    MESSAGES_SENT,
    TIME,
    VISITS,
    CallPath,
    RunKey,
)
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel
from tests.support.campaigns import heat_campaign, heat_run

MAIN = CallPath(("main",))
FORECAST = Forecast(
    {
        ("main", VISITS.name): Estimate(10.0, 10.0, 10.0),
        ("main", TIME.name): Estimate(4.0, 3.0, 5.0),
        ("main", MESSAGES_SENT.name): Estimate(1000.0, 1000.0, 1000.0),
        ("main", HEAP_PEAK.name): Estimate(1024.0, 900.0, 1200.0),
        ("main", MEMORY_RSS.name): Estimate(4096.0, 4000.0, 5000.0),
    }
)


@pytest.fixture(scope="module")
def heat(tmp_path_factory) -> str:
    """A campaign of four runs with its models."""
    path = os.path.join(tmp_path_factory.mktemp("heat"), "heat.insitu")
    with heat_campaign(path, 1, (4, 8, 16, 32)) as store:
        store.put_models(remodel(load_experiment(store)))
    return path


def table(**values: float) -> RunTable:
    """A run of one call path on four ranks, one of which did not enter it."""
    metrics = {
        metric.name: metric for metric in (VISITS, TIME, MESSAGES_SENT, HEAP_PEAK, MEMORY_RSS)
    }
    rows = {name: np.array([[value] * 3 + [np.nan]]) for name, value in values.items()}
    return RunTable((MAIN,), tuple(metrics[name] for name in rows), rows)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"visits": 10.0, "time": 4.5, "messages_sent": 1000.0}, ""),
        ({"time": 8.0}, "main time 8 s (slower than 3 s … 5 s)"),
        ({"time": 2.0}, "faster"),
        ({"messages_sent": 1001.0}, ""),  # exactly known, and of no matter
        ({"messages_sent": 1100.0}, "main messages_sent 1.10 k (more than 1 k)"),
        ({"messages_sent": 900.0}, "less"),
        ({"heap_peak": 2048.0}, "main heap_peak 2.05 kB (more than 900 B … 1.20 kB)"),
        ({"heap_peak": 512.0, "memory_rss": 1.0}, ""),  # less memory is no trouble
    ],
)
def test_a_finding_names_the_values_of_a_run_outside_of_its_forecast(values, text):
    findings = find_deviations(FORECAST, table(**values), RunKey.of({"p": 4}))

    assert len(findings) == bool(text)
    assert all(finding.code == OFF_FORECAST and text in finding.text for finding in findings)


def test_what_may_come_with_the_first_visit_or_go_again_is_judged_by_the_whole():
    so_far = {"messages_sent": 900.0, "heap_peak": 1300.0, "memory_rss": 9000.0}

    judged = compare_with_forecast(
        FORECAST, [LivePath("main", 1.0, 0.1, more=so_far)], size=4, has_ended=False
    ).judgements

    words = {metric: judgement.verdict for (_, metric), judgement in judged.items()}
    assert words == {"visits": "", "time": "", "messages_sent": "", "heap_peak": "more"}


def test_other_metrics_hardly_widen_the_bounds_of_times(heat):
    with open_store(heat) as store:
        models = store.models()
    timed = [series for series in models.models if series.key.metric != "bytes_sent"]

    bounds = [
        make_forecast(part, RunKey.of({"p": 64})).values["main->solve", "time"]
        for part in (models, type(models)(models.parameters, timed, models.clusters))
    ]

    assert 1.0 <= bounds[0].doubt / bounds[1].doubt < 1.5


@pytest.mark.parametrize("factor", [1.0, 1.001, 9.0])
def test_bounds_that_are_only_computed_where_they_matter_give_the_same_findings(heat, factor):
    with open_store(heat) as store:
        models = store.models()
    record, usual = heat_run(64)
    usual.values["time"][1] *= factor

    findings = find_deviations_from_models(models, usual, record.key)

    assert findings == find_deviations(make_forecast(models, record.key), usual, record.key)
    assert bool(findings) == (factor == 9.0)


def test_an_imported_run_is_judged_by_the_models_of_the_runs_before(heat, tmp_path):
    _, usual = heat_run(64)
    lines = [
        {"callpath": str(callpath), "metric": "time", "unit": "s", "params": {"p": 64, "x": 0}}
        | {"repetition": again, "ranks": (factor * usual.values["time"][row]).tolist()}
        for row, callpath in enumerate(usual.callpaths)
        for again, factor in ((0, 1.0), (1, 3.0))
    ]
    (tmp_path / "more.jsonl").write_text("\n".join(map(json.dumps, lines)))

    import_command([heat, str(tmp_path / "more.jsonl")], standalone_mode=False)

    with open_store(heat) as store:
        codes = {str(run.key): [finding.code for finding in run.findings] for run in store.runs()}
    assert codes["p=64,x=0#0"] == []
    assert codes["p=64,x=0#1"] == [OFF_FORECAST]


def test_times_of_ranks_that_shared_cores_are_not_judged(tmp_path):
    record, measured = heat_run(64)
    slow = {name: 8 * values for name, values in measured.values.items() if name == TIME.name}
    values = RunTable(measured.callpaths, measured.metrics, {**measured.values, **slow})

    with heat_campaign(str(tmp_path / "heat.insitu"), 1, (4, 8, 16, 32)) as store:
        models = remodel(load_experiment(store))

    for is_crowded in (False, True):
        findings = find_deviations_from_models(models, values, record.key, is_crowded=is_crowded)
        assert bool(findings) is not is_crowded


@pytest.mark.parametrize(
    ("path", "metric", "values", "is_reported"),
    [
        ("app->open", FILES_SHARED, (6.0, 6.0, 6.0, 10.0), False),
        ("app->MPI_Init->readdir", VISITS, (6.0, 6.0, 6.0, 10.0), False),
        ("app->step->MPI_Send", VISITS, (6.0, 6.0, 6.0, 10.0), True),
    ],
)
def test_what_depends_on_the_machine_is_no_deviation(path, metric, values, is_reported):
    tables = []
    for p, value in zip((1, 2, 3, 4), values, strict=True):
        of_ranks = {metric.name: np.full((1, p), value)}
        tables.append((RunKey.of({"p": p}), RunTable((CallPath.parse(path),), (metric,), of_ranks)))
    models = remodel(Experiment(("p",), tuple(tables[:3])))

    found = find_deviations_from_models(models, tables[3][1], tables[3][0])

    assert bool(found) is is_reported


def test_a_second_that_is_none_beside_the_run_is_not_reported():
    forecast = Forecast(
        {
            ("main", TIME.name): Estimate(100.0, 90.0, 110.0),
            ("main", DELAY_COST.name): Estimate(0.1, 0.0, 0.2),
        }
    )
    values = RunTable(
        (MAIN,),
        (TIME, DELAY_COST),
        {TIME.name: np.full((1, 4), 100.0), DELAY_COST.name: np.full((1, 4), 0.5)},
    )

    assert find_deviations(forecast, values, RunKey.of({"p": 4})) == ()


def test_a_value_of_one_rank_is_judged_as_that_of_many():
    for n_ranks in (1, 3):
        values = np.array([[8.0] * n_ranks + [np.nan] * (4 - n_ranks)])
        run = RunTable((MAIN,), (TIME,), {"time": values})

        (finding,) = find_deviations(FORECAST, run, RunKey.of({"p": 4}))

        assert "main time 8 s (slower than 3 s … 5 s)" in finding.text
