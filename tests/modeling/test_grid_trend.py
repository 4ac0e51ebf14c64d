"""How growth along each of several parameters goes on from its newest values."""

from itertools import product

import numpy as np
import pytest

import insitu
from insitu.modeling.grid_trend import GridTrend, fit_trends, levels_at_starts, points_of

P, N = 2.0 ** np.arange(2, 6), 10 * 2.0 ** np.arange(3)
GRID = np.array(list(product(P, N)))


def test_a_power_of_each_parameter_goes_on():
    values = 3 * GRID[:, 0] ** 0.7 * GRID[:, 1] ** 1.2

    trends = fit_trends(GRID, np.log(values)[None])

    growth = trends.log_growth(np.array([128.0, 80.0])).sum()
    assert trends.slopes == pytest.approx(np.array([[0.7, 1.2]]))
    assert growth == pytest.approx(0.7 * np.log(4) + 1.2 * np.log(2))


def test_growth_that_slows_down_goes_on_to_slow_down():
    values = (GRID[:, 0] / (GRID[:, 0] + 16)) * GRID[:, 1]

    trends = fit_trends(GRID, np.log(values)[None])

    at = np.array([1e9, 40.0])
    assert 0.3 < trends.log_growth(at)[0, 0] < 0.8  # the law gains ln 1.5 = 0.41


def test_growth_that_speeds_up_goes_on_with_the_mean_of_its_slopes():
    along_p = np.array([1.0, 2.0, 3.0, 6.0])  # powers of 1, 0.58 and 1

    trends = fit_trends(GRID, np.log(np.repeat(along_p, 3) * GRID[:, 1])[None])

    assert trends.slopes[0, 0] == pytest.approx(np.log2(6 / 2) / 2)
    assert trends.decays[0, 0] == 0


def test_growth_is_that_of_lines_and_of_a_plane_where_there_are_none():
    corner = np.array([[32.0, 40.0]])
    lines = GRID[(GRID[:, 0] == 4) | (GRID[:, 1] == 10)]
    points = np.concatenate([lines, corner])
    values = points[:, 0] ** 0.5 * points[:, 1]

    trends = fit_trends(points, np.log(values)[None])
    of_few = fit_trends(points[-2:], np.log(values[-2:])[None])

    assert trends.slopes == pytest.approx(np.array([[0.5, 1.0]]))
    assert np.isfinite(of_few.slopes).all()


def test_the_trend_counts_along_its_parameter_and_fully_one_step_further():
    weights, slopes = np.array([0.5, 0.0]), np.array([1.0, 0.0])
    starts, zeros = np.array([32.0, 40.0]), np.zeros(2)
    trend = GridTrend(weights, starts, slopes, zeros, np.ones(2), levels=zeros)
    points = np.array([[16.0, 80.0], [32, 20], [32 * 2**0.5, 40], [64, 40], [128, 80]])

    def predict(x):
        return 2 * x[:, 0] ** 2 * x[:, 1]

    others = np.array([predict(other) for other in points_of(points, starts)])
    values, share, _ = trend.blend_from(points, predict(points), others)

    assert share == pytest.approx([1, 1, 0.75, 0.5, 2 / 3])
    assert values[:2] == pytest.approx(predict(points[:2]))
    assert values[3] == pytest.approx(2 * 32**2 * 40 * 2**1.5)  # p², and its newest power 1
    assert values[4] == pytest.approx(2 * 32**2 * 80 * 4**1.5)


def test_the_trend_goes_on_from_what_was_measured_at_the_largest_values():
    residuals = np.where(GRID[:, 0] == 32, -0.3, 0.1)[None]  # of functions that miss the newest
    levels = levels_at_starts(GRID, residuals)
    at = np.array([[64.0, 40.0]])

    starts, slopes = GRID.max(axis=0), np.array([0.5, 0.0])
    trend = GridTrend(np.array([1.0, 0.0]), starts, slopes, np.zeros(2), np.ones(2), levels[0])
    values, _, _ = trend.blend_from(at, at[:, 0], points_of(at, starts)[:, :, 0])

    assert levels == pytest.approx(np.array([[-0.3, 0.0]]))
    assert values == pytest.approx([32 * np.exp(-0.3) * 2**0.5])


def test_a_trend_without_levels_can_be_read():
    trend = GridTrend(*(np.full(2, i + 0.5) for i in range(5)), levels=np.zeros(2))
    stored = trend.to_dict()

    del stored["levels"]

    assert GridTrend.from_dict(stored).to_dict() == trend.to_dict()


def test_growth_that_begins_inside_the_points_is_predicted():
    """That all series have this curve is no deviation of their runs."""
    random = np.random.default_rng(5)
    points = np.array(list(product(2.0 ** np.arange(2, 7), 10 * 2.0 ** np.arange(4))))
    targets = np.array([[128.0, 160.0]])

    def law(x):
        return (1 + 0.6 * np.maximum(0, np.log2(x[:, 0] / 12))) * x[:, 1]

    noise = 0.01 * random.standard_normal((8, len(points), 3))
    values = law(points)[None, :, None] * (1 + noise)

    models = insitu.fit(points, values, parameters=("p", "n"))

    truth = law(targets)[0]
    assert all(model.function(targets)[0] > 1.08 * truth for model in models)
    assert np.median([model.predict(targets)[0] for model in models]) < 1.03 * truth
