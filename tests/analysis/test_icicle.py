"""Icicles: the means of all call paths add up to the time of a rank."""

import numpy as np
import pytest

from insitu.analysis.icicle import icicle_of_run, predict_icicle
from insitu.entities import TIME, TIME_EXCLUSIVE, VISITS, CallPath, RunKey
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

PATHS = tuple(map(CallPath.parse, ("app", "app->solve", "app->solve->MPI_Send")))


def table_with(metric, values):
    return RunTable(PATHS, (metric,), {metric.name: np.array(values)})


def test_a_rank_that_did_not_execute_a_call_path_counts_as_zero_in_its_mean():
    table = table_with(TIME_EXCLUSIVE, [[1.0, 1.0], [4.0, 2.0], [np.nan, 3.0]])

    metric, rows = icicle_of_run(table)

    assert metric == "time_exclusive"
    assert [row.mean for row in rows] == [1.0, 3.0, 1.5]
    assert (rows[2].low, rows[2].high) == (3.0, 3.0)
    assert sum(row.mean for row in rows) == pytest.approx(np.nansum(table.values[metric]) / 2)


def test_without_exclusive_times_callees_are_subtracted():
    _, rows = icicle_of_run(table_with(TIME, [[9.0, 9.0], [6.0, 8.0], [np.nan, 3.0]]))

    assert [row.mean for row in rows] == [2.0, 5.5, 1.5]


def test_a_run_without_times_has_no_icicle():
    assert icicle_of_run(table_with(VISITS, [[1.0], [1.0], [1.0]])) == ("", [])


def test_the_icicle_at_another_scale_follows_the_models():
    runs = []
    for p in (2, 4, 8, 16):
        table = table_with(TIME_EXCLUSIVE, [[0.5] * p, [2.0] * p, [0.1 * p] * p])
        runs.append((RunKey.of({"p": p}), table))
    models = remodel(Experiment(("p",), tuple(runs), {}))

    metric, rows = predict_icicle(models, {"p": 64.0})

    assert metric == "time_exclusive"
    values = {row.callpath.name: row.mean for row in rows}
    assert values["MPI_Send"] == pytest.approx(6.4, rel=0.02)
    assert values["solve"] == pytest.approx(2.0, rel=0.02)
    assert predict_icicle(ModelSet(), {"p": 64.0}) == ("", [])
