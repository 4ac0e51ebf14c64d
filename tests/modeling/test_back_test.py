"""What models of the smaller scales would have predicted, and what follows from it."""

import json

import numpy as np
import pytest

import insitu
from insitu.entities import CallPath, Metric, MetricKind
from insitu.modeling.back_test_report import describe_back_tests
from insitu.modeling.base import Model, SeriesModel
from insitu.modeling.distance import drift_reach, log_distance
from insitu.modeling.evidence.held_out import count_left_out
from insitu.modeling.horizon import horizon
from insitu.modeling.local_laws import LocalLaws, damped_trend, last_line, last_value, ramp_of
from insitu.modeling.measurement import SeriesKey

X = np.array([2.0, 4, 8, 16, 32, 64])


def noisy(truth, *, count, level=0.01, seed=5):
    rng = np.random.default_rng(seed)
    return truth * (1 + level * rng.standard_normal((count, len(truth))))


def saturating(x):
    return 3 + 50 * x / (x + 10)


def test_series_of_six_points_are_tested_without_the_largest_and_the_two_largest():
    [model] = insitu.fit(X, noisy(5 + X, count=1))

    assert [test.at for test in model.back_tests] == [64, 64]
    assert all(test.measured == pytest.approx(69, rel=0.05) for test in model.back_tests)
    assert all(test.predicted == pytest.approx(69, rel=0.2) for test in model.back_tests)


def test_a_quiet_time_may_be_off_by_one_percent_where_it_was_not_measured():
    x = np.arange(1.0, 12)
    [model] = insitu.fit(x, noisy(1.5 + 180 / x, count=1, level=0.001))

    (low, high), (low_measured, high_measured) = model.interval([12, 11])

    assert low <= 0.99 * 16.5 and high >= 1.01 * 16.5
    assert high_measured / low_measured < 1.01


@pytest.mark.parametrize(("count", "tests"), [(3, 0), (4, 1), (5, 1), (6, 2)])
def test_the_number_of_tests_depends_on_the_number_of_points(count, tests):
    [model] = insitu.fit(X[:count], noisy(5 + X[:count], count=1))

    assert len(model.back_tests) == tests


def test_growth_that_ends_is_predicted_by_the_trend_of_the_newest_points():
    models = insitu.fit(X, noisy(saturating(X), count=10))

    predicted = np.array([model.predict([256])[0] for model in models])
    formulas = np.array([model.formula_at([256])[0] for model in models])
    truth = saturating(256)

    assert np.median(np.abs(predicted / truth - 1)) < 0.1
    assert np.median(np.abs(formulas / truth - 1)) > 0.15


def test_a_law_of_the_space_is_not_averaged_with_local_laws():
    models = insitu.fit(X, noisy(5 + 0.2 * X**1.5, count=20))

    assert all(model.spreads[-1].local is None for model in models)


def test_intervals_are_wider_where_models_missed_by_more_than_noise():
    regular = insitu.fit(X, noisy(5 + X, count=20))
    cube = np.where(np.arange(6) % 3, 1.3, 1.0)  # grids that are cubes every third time
    irregular = insitu.fit(X, noisy((5 + X) * cube, count=20))

    drifts = [np.median([m.spreads[-1].drift for m in models]) for models in (regular, irregular)]

    assert drifts[0] < drifts[1]


def steep(x):
    """Growth that is steeper than any power, and slower than any exponential."""
    return 1e-9 * np.exp(3.2 * np.sqrt(x))


def test_steep_growth_that_is_no_function_is_predicted_by_its_newest_points():
    x = np.arange(30.0, 175, 5)

    [model] = insitu.fit(x[:-1], noisy(steep(x), count=1)[:, :-1])
    low, high = model.interval(x[-1:])[0] / steep(x[-1])

    assert model.predict(x[-1:])[0] == pytest.approx(steep(x[-1]), rel=0.1)
    assert abs(model.formula_at(x[-1:])[0] / steep(x[-1]) - 1) > 0.5
    assert low < 1 < high


def test_what_steep_growth_misses_is_relative_to_its_power():
    x = np.arange(30.0, 175, 5)
    slow, fast = (
        insitu.fit(x, noisy(steep(x) ** power, count=1))[0].spreads[-1].drift for power in (1, 1.5)
    )

    assert fast > 1.2 * slow


@pytest.mark.parametrize(
    ("x", "count"),
    [
        (X[:5], 0),
        (X, 2),
        (np.arange(1.0, 9), 2),  # 6, 7 and 8 are close, but more than a third of them
        (np.arange(1.0, 10), 3),
        (np.arange(30.0, 175, 5), 9),
        (np.arange(100.0, 130), 10),
    ],
)
def test_of_close_coordinates_more_than_two_are_left_out_together(x, count):
    assert count_left_out(x) == count


def test_intervals_of_steep_growth_on_close_coordinates_hold_it_at_twice_the_largest():
    x = np.linspace(30, 100, 15)
    ahead = np.array([200.0])
    rng = np.random.default_rng(8)

    def law(x, power):
        return 0.05 + (x / 100) ** power + 0.1 * (x / 100) ** 2

    held = []
    for power in (3.7, 4.6, 5.3, 5.8, 6.4, 6.9):
        values = law(x, power) * (1 + 0.02 * rng.standard_normal(len(x)))
        low, high = insitu.fit(x, values[None])[0].interval(ahead)[0]
        held.append(low < law(ahead, power)[0] < high)

    assert sum(held) >= 5


def test_behind_a_change_on_close_coordinates_drift_grows_with_the_part_of_a_doubling():
    x = np.arange(1.0, 11)
    law = 2 + 3 * x
    jump = np.where(x > 7, 4.0, 1.0)

    [plain] = insitu.fit(x, noisy(law, count=1))
    [cut] = insitu.fit(x, noisy(law * jump, count=1))

    assert len(cut.change_points) == 1
    assert cut.spreads[-1].drift > 1.9 * plain.spreads[-1].drift  # log2(10 / 7) of a doubling


@pytest.mark.parametrize("rate", [2, 3])
def test_five_points_that_grow_exponentially_are_no_power(rate):
    x = np.arange(5.0, 11)

    [model] = insitu.fit(x[:-1], noisy(2.0 ** (rate * x), count=1)[:, :-1])

    assert model.predict(x[-1:])[0] == pytest.approx(2.0 ** (rate * 10), rel=0.1)


@pytest.mark.parametrize("x", [X, np.array([10.0, 11, 12, 13, 14, 15])])
def test_local_laws_have_their_full_weight_at_the_next_scale(x):
    one = np.array([0.6])
    laws = LocalLaws(x[-2], one, one, one, 0 * one, ramp=ramp_of(x[:-1]))

    assert laws.weights_at(x[-2:]).tolist() == [[0.0, pytest.approx(0.6, rel=0.1)]]
    assert LocalLaws.from_dict(laws.to_dict()).to_dict() == laws.to_dict()


def agrees(model):
    return model.predict([256])[0] == model.formula_at([256])[0]


def test_where_models_missed_hardly_anything_the_formula_predicts():
    of_space = insitu.fit(X, noisy(5 + 0.2 * X**1.5, count=20))
    of_none = insitu.fit(X, noisy(saturating(X), count=20))

    assert np.mean([agrees(model) for model in of_space]) >= 0.8  # of the others it is improbable
    assert np.mean([agrees(model) for model in of_none]) < 0.2
    for model in of_space:
        low, high = model.interval([256], level=0.01)[0]
        assert low < model.predict([256])[0] < high


def test_within_the_measured_scales_nothing_changes():
    [model] = insitu.fit(X, noisy(saturating(X), count=1, seed=6))
    spread = model.spreads[-1]

    alone = spread.with_back_test(0.0, None).median(model.coordinates)

    assert spread.median(model.coordinates) == pytest.approx(alone, rel=1e-12)


def test_a_tested_model_survives_json_exactly():
    models = insitu.fit(X, noisy(saturating(X), count=10))

    for model in models:
        again = Model.from_dict(json.loads(json.dumps(model.to_dict())))
        assert again == model
        assert np.array_equal(again.interval([32, 256]), model.interval([32, 256]))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_unit_does_not_matter(scale):
    values = noisy(saturating(X), count=3)

    predicted = [model.predict([256])[0] for model in insitu.fit(X, values)]
    scaled = [model.predict([256])[0] for model in insitu.fit(X, values * scale)]

    assert np.array(scaled) / scale == pytest.approx(np.array(predicted), rel=1e-6)


def test_local_laws_continue_the_newest_points():
    power, logarithm = X[None] ** 1.5, 1 + np.log2(X)[None]
    ahead = np.log(4.0)

    assert last_line(X, power).log_values(ahead) == pytest.approx(1.5 * np.log(256))
    assert last_value(power).log_values(ahead) == pytest.approx(1.5 * np.log(64))
    assert damped_trend(X, power).log_values(ahead) == pytest.approx(1.5 * np.log(256))
    line, damped = (law(X, logarithm).log_values(ahead)[0] for law in (last_line, damped_trend))
    assert damped < line


def test_the_report_pools_the_series_of_a_metric():
    metric = Metric("time", "s", MetricKind.GAUGE)
    models = insitu.fit(X, noisy(5 + X, count=20))
    series = [
        SeriesModel(SeriesKey(CallPath((f"f{i}",)), "time", "all"), metric, model)
        for i, model in enumerate(models)
    ]

    sentence = describe_back_tests(series)["time"]

    assert sentence.startswith("time: models of the smaller runs missed p=64 by ")
    assert sentence.endswith(" (worst tenth)")


def test_a_quiet_law_has_a_far_horizon_and_a_noisy_one_a_near_one():
    [quiet] = insitu.fit(X, noisy(5 + X, count=1, level=0.001))
    [noisy_model] = insitu.fit(X[:4], np.array([[1.0, 3.0, 2.0, 9.0]]))

    assert horizon(quiet) >= 64 * 64
    assert horizon(noisy_model) < 16 * 64


def test_at_the_horizon_bounds_are_a_factor_of_ten_apart_at_most():
    [model] = insitu.fit(X, noisy(5 + X, count=1, level=0.1))
    limit = horizon(model)

    (low, high), (low_beyond, high_beyond) = model.interval([limit, 2 * limit])

    assert high <= 10 * low
    assert high_beyond > 10 * low_beyond


@pytest.mark.parametrize("truth", [X[:3] ** 1.5, np.full(3, 7.0)])
def test_of_three_points_the_third_decides_between_line_and_last_value(truth):
    models = insitu.fit(X[:3], noisy(truth, count=20))

    predicted = np.array([model.predict([16.0])[0] for model in models])

    expected = truth[2] ** 2 / truth[1]  # where the line through the points goes
    assert np.median(np.abs(np.log(predicted / expected))) < 0.05


def test_the_drift_counts_once_at_one_doubling_and_more_than_the_distance_beyond():
    assert drift_reach(np.array([0.0, 1.0])).tolist() == [0, 1]
    assert drift_reach(4.0) == pytest.approx(np.sqrt(4**2 / 2 + 4**3 / 2))


def test_what_functions_miss_is_a_factor_above_them():
    up, down = np.log([1.5, 3.0, 50.0]), -np.log([1.5, 3.0, 50.0])

    assert log_distance(up, 0.0) == pytest.approx(up)
    assert (log_distance(up, 0.3) < log_distance(up)).all()
    assert (log_distance(down, 0.0) == log_distance(down)).all()
