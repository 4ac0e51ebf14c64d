"""What a report lists besides the cost."""

import numpy as np
import pytest

from insitu import fit
from insitu.analysis.summary import summarise
from insitu.entities import HEAP_GROWTH, TIME_EXCLUSIVE, VISITS, CallPath, Metric
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import SeriesKey
from tests.support.campaigns import heat_run

P = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
TABLE = 1e6 * P  # bytes


def modelled(
    path: str, metric: Metric, values: np.ndarray, *, behaviour: str = "all"
) -> SeriesModel:
    (model,) = fit(P[: len(values), None], values[None])
    return SeriesModel(SeriesKey(CallPath.parse(path), metric.name, behaviour), metric, model)


@pytest.mark.parametrize(
    ("caller_holds", "visits", "is_listed"),
    [
        (TABLE, None, True),
        (0.995 * TABLE, None, True),
        (0.98 * TABLE, None, False),  # a caller frees what does not stay in it
        (0 * P + 7e6, None, False),
        (TABLE, 1, True),  # what the program calls once, it holds until its end
        (0 * P, 1, True),
        (0 * P, 3, False),
    ],
)
def test_memory_that_the_caller_frees_again_is_not_listed(caller_holds, visits, is_listed):
    function = "app->load" if visits else "app->main->load"
    caller = function.rpartition("->")[0]
    models = [
        modelled("app", TIME_EXCLUSIVE, 1 + 0 * P),
        modelled(function, HEAP_GROWTH, TABLE),
        modelled(caller, HEAP_GROWTH, caller_holds),
    ]
    if visits:
        models.append(modelled(function, VISITS, visits + 0 * P))

    summary = summarise("app", (), ModelSet(("p",), tuple(models)), target=(64.0,))

    listed = {str(growth.series.key.callpath) for growth in summary.others}
    assert (function in listed) == is_listed


def test_growth_of_ranks_of_which_the_largest_run_has_none_is_not_listed():
    models = [
        modelled("app", TIME_EXCLUSIVE, 1 + 0 * P),
        modelled("app->send", VISITS, 4 * P[:-1], behaviour="A"),
        modelled("app->send", VISITS, 3 * P, behaviour="B"),
        modelled("app->solve", TIME_EXCLUSIVE, P[:-1] ** 2, behaviour="A"),
    ]

    summary = summarise("app", (), ModelSet(("p",), tuple(models)), target=(64.0,))

    listed = [growth.series.key.behaviour for growth in (*summary.others, *summary.growing)]
    assert listed == ["B"]


def test_growth_that_one_value_alone_shows_is_not_listed():
    """A model of it has a lower bound far above today's value."""
    alone = modelled("app->check", HEAP_GROWTH, np.array([16.0, 32, 16, 16, 65600]))
    models = [modelled("app", TIME_EXCLUSIVE, 1 + 0 * P), alone]

    summary = summarise("app", (), ModelSet(("p",), tuple(models)), target=(64.0,))

    assert alone.model.interval([[64.0]])[0, 0] > 65600
    assert summary.others == ()


def test_what_is_ahead_is_64_times_the_ranks_with_what_followed_them():
    coordinates = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 80.0], [16.0, 160.0]])
    (model,) = fit(coordinates, (1 + 0 * P)[None], parameters=("p", "n"))
    series = SeriesModel(SeriesKey(CallPath.parse("app"), "time_exclusive"), TIME_EXCLUSIVE, model)

    summary = summarise("app", (), ModelSet(("p", "n"), (series,)))

    assert (summary.largest, summary.target) == ((16.0, 160.0), (1024.0, 10240.0))


def test_runs_without_models_have_a_largest_value_of_each_parameter():
    runs = []
    for p, n in ((2, 64), (8, 16)):
        runs.append(heat_run(p, n=n)[0])

    summary = summarise("app", runs, ModelSet(("p", "n")))

    assert summary.largest == (8.0, 64.0)
