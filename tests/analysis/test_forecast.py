import math

import numpy as np
import pytest

from insitu import fit
from insitu.analysis.board import LiveRun, RunRow, SeriesRow, count_rank_states, make_board
from insitu.analysis.forecast import (
    FASTER,
    LESS,
    MORE,
    SLOWER,
    Forecast,
    LivePath,
    compare_with_forecast,
    make_forecast,
)
from insitu.analysis.shares import Estimate
from insitu.entities import BYTES_ALLOCATED, TIME, VISITS, CallPath, RunKey, RunState
from insitu.modeling.base import Clusters, ModelSet, SeriesModel
from insitu.modeling.measurement import SeriesKey
from tests.support.campaigns import HALO, SOLVE, heat_run

PLACES = np.array([[4.0], [8.0], [16.0], [32.0]])
AT_64 = RunKey.of({"p": 64})


def modelled(path: CallPath, metric, values: np.ndarray, behaviour: str = "all") -> SeriesModel:
    (model,) = fit(PLACES, values[None])
    return SeriesModel(SeriesKey(path, metric.name, behaviour), metric, model)


@pytest.fixture(scope="module")
def models() -> ModelSet:
    """1000 visits that take 1 % of √p seconds each, measured within 1 %."""
    p, noise = PLACES[:, 0], np.array([1.01, 0.99, 1.01, 0.99])
    return ModelSet(
        ("p",),
        (
            modelled(SOLVE, VISITS, np.full(4, 1000.0)),
            modelled(SOLVE, TIME, 10 * np.sqrt(p) * noise),
        ),
    )


def live(visits: float, seconds: float, ended: int = 0, ranks: int = 64) -> LiveRun:
    state = RunState.CLOSING if ended else RunState.MEASURING
    path = LivePath(str(SOLVE), visits, seconds, ranks=ranks)
    return LiveRun("x", AT_64, state, 64, ended, 64, (path,))


def shown(models: ModelSet, run: LiveRun, metric: str = "time") -> tuple[RunRow, SeriesRow]:
    board = make_board([], models, [run], {"x": make_forecast(models, AT_64)})
    return board.runs[0], next(row for row in board.series if row.metric == metric)


@pytest.mark.parametrize(("factor", "word"), [(1.0, ""), (1.05, ""), (1.9, SLOWER), (0.1, FASTER)])
@pytest.mark.parametrize("part", [0.3, 0.6, 1.0])
def test_a_call_path_is_marked_while_the_run_goes_on(models, part, factor, word):
    run, row = shown(models, live(1000 * part, 80 * part * factor))

    assert row.verdict == word
    assert run.part == pytest.approx(part)
    assert row.expected is not None and row.expected[1] == pytest.approx(80 * part, rel=0.05)


def test_a_slow_beginning_is_forgiven_as_far_as_the_whole_run_may_differ(models):
    _, row = shown(models, live(20, 3.2))  # twice as slow, for a fiftieth of the run

    assert row.verdict == ""


def test_few_visits_are_only_judged_once_all_of_the_time_is_used_up():
    forecast = Forecast({("main", "time"): Estimate(10.0, 9.0, 11.0)})

    comparisons = [
        compare_with_forecast(forecast, [LivePath("main", 1.0, s)], size=4, has_ended=False)
        for s in (2.0, 12.0)
    ]

    assert all(math.isnan(comparison.progress) for comparison in comparisons)
    assert [comparison.judgements["main", "time"].verdict for comparison in comparisons] == [
        "",
        SLOWER,
    ]


def test_ranks_that_have_not_entered_yet_may_pull_the_mean_down(models):
    """The one rank that has been there took all of its time at once; 63 are to come."""
    _, first = shown(models, live(1000, 400, ranks=1))
    _, half = shown(models, live(1000, 400, ranks=32))

    assert (first.verdict, half.verdict) == ("", SLOWER)


def test_a_call_path_of_one_rank_waits_for_no_others(models):
    alone = [
        Clusters(SOLVE, "visits", RunKey.of({"p": p}), np.array([0] + [-1] * (p - 1)), ("all",))
        for p in (4, 8, 16, 32)
    ]

    _, row = shown(ModelSet(("p",), models.models, alone), live(1000, 400, ranks=1))

    assert row.verdict == SLOWER


def test_counts_are_judged_too_and_too_few_only_at_the_end(models):
    words = [
        shown(models, live(visits, 80, ended=ended), "visits")[1].verdict
        for visits, ended in ((500, 0), (1000, 0), (1001, 0), (1020, 0), (500, 64))
    ]

    assert words == ["", "", "", MORE, LESS]  # one visit more is none that matters


def test_at_the_end_of_a_run_everything_is_due(models):
    run, row = shown(models, live(500, 20, ended=64))

    assert (run.part, row.verdict) == (1.0, FASTER)


def test_more_visits_than_foreseen_are_not_allowed_more_time(models):
    _, row = shown(models, live(2000, 160))

    assert row.verdict == SLOWER


def test_bounds_are_wider_where_more_is_judged(models):
    many = [
        modelled(SOLVE.child(f"f{index}"), TIME, np.full(4, 1.0) + 0.01 * np.arange(4))
        for index in range(100)
    ]

    alone = make_forecast(models, AT_64).values[str(SOLVE), "time"]
    among = make_forecast(ModelSet(("p",), (*models.models, *many)), AT_64).values[
        str(SOLVE), "time"
    ]

    assert among.low <= alone.low < alone.value < alone.high < among.high


def test_classes_count_by_their_ranks():
    classes = [
        Clusters(HALO, "time", RunKey.of({"p": p}), np.array([0, 1] * (p // 2)), ("a", "b"))
        for p in (4, 8, 16, 32)
    ]
    parted = (
        modelled(HALO, TIME, np.full(4, 1.0), "a"),
        modelled(HALO, TIME, np.full(4, 3.0), "b"),
    )

    forecast = make_forecast(ModelSet(("p",), parted, classes), AT_64)

    estimate = forecast.values[str(HALO), "time"]
    assert estimate.value == pytest.approx(2.0)
    assert estimate.low <= 1.0 and estimate.high >= 3.0  # however many ranks are in each class


def test_the_mean_of_ranks_has_no_forecast_where_a_class_has_no_model():
    classes = [
        Clusters(HALO, "time", RunKey.of({"p": p}), np.array([0, 1] * (p // 2)), ("a", "b"))
        for p in (4, 8, 16, 32)
    ]
    parted = (modelled(HALO, TIME, np.full(4, 1.0), "a"),)

    assert make_forecast(ModelSet(("p",), parted, classes), AT_64).values == {}


@pytest.mark.parametrize(
    ("other", "has_forecast"), [({"n": 8}, True), ({"n": 9}, False), ({}, True)]
)
def test_the_first_run_with_another_value_of_a_parameter_has_no_forecast(
    models, other, has_forecast
):
    keys = [RunKey.of({"p": p, "n": 8}) for p in (4, 8, 16, 32)]
    classes = [Clusters(SOLVE, "time", key, np.zeros(key.size, int), ("all",)) for key in keys]
    measured = ModelSet(("p",), models.models, classes)

    forecast = make_forecast(measured, RunKey.of({"p": 64, **other}))

    assert bool(forecast.values) is has_forecast


@pytest.mark.parametrize("run", [RunKey.of({"n": 8}), AT_64])
def test_what_no_model_speaks_of_has_no_forecast(run):
    assert make_forecast(ModelSet(("p",)), run) == Forecast()


def test_rank_states_are_counted_in_spans():
    record, _ = heat_run(4)
    ranks = make_board([record], ModelSet()).runs[0].ranks

    assert ranks == (("ended", 4),)
    assert count_rank_states(["ended", "ended", "lost", "ended"]) == (
        ("ended", 2),
        ("lost", 1),
        ("ended", 1),
    )
    assert count_rank_states(["ended", "lost"] * 200) == ()


def test_growth_that_one_value_alone_shows_predicts_nothing():
    """Memory that an MPI library allocates for a larger message is not allocated 4 TB next."""
    p = np.array([[2.0], [3.0], [4.0], [6.0], [8.0]])
    (steep,) = fit(p, np.array([[24.0, 180.0, 190.0, 9130.0, 6.2e6]]))
    (even,) = fit(p, np.full((1, 5), 1000.0))
    named = {BYTES_ALLOCATED: steep, VISITS: even}
    series = [
        SeriesModel(SeriesKey(SOLVE, metric.name, "all"), metric, model)
        for metric, model in named.items()
    ]

    forecast = make_forecast(ModelSet(("p",), tuple(series)), RunKey.of({"p": 12}))

    assert steep.doubt == "one value alone shows growth"
    assert [metric for _, metric in forecast.values] == ["visits"]


def test_only_values_that_differ_from_the_forecast_of_a_complete_run_get_bounds():
    times = np.sqrt(PLACES[:, 0]) * np.array([1.01, 0.99, 1.01, 0.99])
    paths = (SOLVE, HALO)
    models = ModelSet(("p",), tuple(modelled(path, TIME, times) for path in paths))
    solve, halo = ((str(path), TIME.name) for path in paths)
    predicted = {key: its.value for key, its in make_forecast(models, AT_64).values.items()}

    alike = make_forecast(models, AT_64, measured=predicted).values
    slower = {**predicted, solve: 2 * predicted[solve]}
    differing = make_forecast(models, AT_64, measured=slower).values

    assert [its.high for its in alike.values()] == [math.inf, math.inf]
    assert differing[halo].high == math.inf
    assert predicted[solve] < differing[solve].high < math.inf
