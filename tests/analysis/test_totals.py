"""The totals of a run, and the machine that they are for, as JSON."""

import json
from dataclasses import fields, replace

import pytest

from insitu.analysis.diagnosis.budget import Baseline, StartUp
from insitu.analysis.diagnosis.machine import (
    BANDWIDTH,
    MEMORY_BYTES,
    Machine,
    parse_machine,
)
from insitu.analysis.diagnosis.totals import (
    PredictedTotals,
    RunTotals,
    ValueRange,
    _gain,
    _stops_paying_at,
)

TIME, SPEEDUP = ValueRange(3.0, 2.0, 5.0), ValueRange(4.0, 4.0, 4.0)
EFFICIENCY = ValueRange(0.5, 0.4, 0.6)
TIMES = (8.0, 7.5, 9.0), (1.5, 1.2, 1.6)  # before and now: value, low, high
PREDICTED = PredictedTotals(4096.0, TIME, SPEEDUP, EFFICIENCY)
TOTALS = RunTotals(
    p=64.0,
    time=TIME,
    speedup=SPEEDUP,
    efficiency=EFFICIENCY,
    start_up=StartUp(1.0, 0.5, 0.25),
    run_s=9.0,
    is_crowded=True,
    efficiency_then=0.125,
    stops_paying_at=512.0,
    predicted=PREDICTED,
)


def test_totals_are_json_with_what_is_known():
    ranges = {
        "time": {"value": 3.0, "low": 2.0, "high": 5.0},
        "speedup": {"value": 4.0, "low": 4.0, "high": 4.0},
        "efficiency": {"value": 0.5, "low": 0.4, "high": 0.6},
    }

    assert json.loads(json.dumps(TOTALS.to_dict())) == {
        "p": 64.0,
        **ranges,
        "startup_s": 1.75,
        "import_s": 1.0,
        "mpi_init_s": 0.5,
        "mpi_finalize_s": 0.25,
        "crowded": True,
        "efficiency_at_target_at_most": 0.125,
        "stops_paying_at": 512.0,
        "predicted": {"p": 4096.0, **ranges},
    }


def test_what_is_not_known_is_null_in_json_and_keeps_its_name():
    nothing = {field.name: None for field in fields(TOTALS) if field.name != "start_up"}
    unknown = replace(TOTALS, **(nothing | {"p": 64.0, "run_s": 9.0, "is_crowded": False}))
    blind = replace(PREDICTED, speedup=None, efficiency=None)

    assert unknown.to_dict().keys() == TOTALS.to_dict().keys()
    assert {name for name, value in unknown.to_dict().items() if value is None} == {
        *("time", "speedup", "efficiency", "efficiency_at_target_at_most"),
        *("stops_paying_at", "predicted"),
    }
    assert blind.to_dict() == PREDICTED.to_dict() | {"speedup": None, "efficiency": None}


def test_values_of_a_machine_that_nobody_gave_are_named_as_assumed():
    assert parse_machine("latency=2e-6,runtime=60").to_dict() == {
        "latency_s": 2e-6,
        "bandwidth_bytes_per_s": BANDWIDTH,
        "memory_bytes_per_rank": MEMORY_BYTES,
        "runtime_s": 60.0,
        "assumed": ["bandwidth", "memory"],
    }
    assert Machine().to_dict()["assumed"] == ["latency", "bandwidth", "memory", "runtime"]


@pytest.mark.parametrize(("scaling", "gain"), [("strong", 1.0), ("weak", 8.0)])
@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_bounds_of_the_speed_up_are_the_extremes_of_any_two_times_in_any_unit(scaling, gain, unit):
    before, now = (ValueRange(unit * v, unit * low, unit * high) for v, low, high in TIMES)

    speedup, efficiency = _gain(before, now, 8.0, scaling)

    ratios = [gain * b / n for b in TIMES[0] for n in TIMES[1]]
    assert speedup.value == pytest.approx(gain * TIMES[0][0] / TIMES[1][0])
    assert (speedup.low, speedup.high) == pytest.approx((min(ratios), max(ratios)))
    for name in ("value", "low", "high"):
        assert getattr(efficiency, name) == pytest.approx(getattr(speedup, name) / 8.0)
    assert _gain(before, now, 8.0, "unknown") == (None, None)


def test_strong_scaling_that_pays_as_far_as_anybody_looks_stops_nowhere():
    baseline = Baseline(100.0, 8.0, is_crowded=False, scaling="strong")

    assert _stops_paying_at(baseline, [lambda p: 0.0]) is None
    assert _stops_paying_at(replace(baseline, scaling="weak"), [lambda p: 1e-6 * p]) is None
    assert _stops_paying_at(baseline, []) is None


def test_strong_scaling_stops_paying_where_a_rank_costs_what_it_saves():
    baseline = Baseline(100.0, 8.0, is_crowded=False, scaling="strong")

    # 800 / p + 0.08 p is least at p = 100.
    assert _stops_paying_at(baseline, [lambda p: 0.08 * p]) == pytest.approx(100.0, rel=0.05)
