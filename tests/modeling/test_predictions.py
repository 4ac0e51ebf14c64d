"""Predictions of many models at once are those of each model."""

from dataclasses import replace

import numpy as np
import pytest

import insitu
from insitu.modeling.predictions import predict_all, predict_at, predict_by_functions
from insitu.modeling.student import (
    MEDIAN_TOLERANCE,
    positive_bounds_of_mixtures,
    student_quantile,
)

X = np.array([2.0, 4, 8, 16, 32, 64])
FAR = [2.0, 64.0, 4096.0, 1e9]


def models_of_many_kinds():
    """Noisy, exact, saturating, cut, negative and few-point models, and those with a point off."""
    rng = np.random.default_rng(11)
    truths = [3 + 0.5 * X, 7 + 0 * X, 100 / X, 3 + 50 * X / (X + 10), X**1.5, -2 * X]
    values = np.repeat(truths, 5, axis=0) * (1 + 0.05 * rng.standard_normal((30, len(X))))
    off = 5 + X
    off[-1] *= 4
    cut = np.where(X < 16, 10.0, X**2)
    models = insitu.fit(X, np.concatenate([values, [off, cut, 2 + X, 0 * X]]))
    return [*models, *insitu.fit(X[:2], [[1.0, 2.0]]), *insitu.fit(X, values[:3], modeler="search")]


@pytest.mark.parametrize("at", FAR)
def test_predictions_at_once_are_those_of_each_model(at):
    models = models_of_many_kinds()

    predicted = predict_at(models, [at])

    expected = [model.predict([at])[0] for model in models]
    np.testing.assert_allclose(predicted, expected, rtol=MEDIAN_TOLERANCE)


def test_models_of_several_parameters_predict_at_once():
    points = np.array([(p, n) for p in (2.0, 4, 8, 16) for n in (10.0, 20, 40)])
    rng = np.random.default_rng(3)
    truth = 5 + points[:, 0] * points[:, 1]
    values = truth * (1 + 0.02 * rng.standard_normal((4, len(points))))
    models = insitu.fit(points, values, parameters=("p", "n"))

    predicted = predict_at(models, [128.0, 80.0])

    expected = [model.predict([[128.0, 80.0]])[0] for model in models]
    np.testing.assert_allclose(predicted, expected, rtol=MEDIAN_TOLERANCE)


def test_bounds_at_once_are_exactly_those_of_each_model():
    """One after the other and together, at one point and at several, on both sides of a change."""
    points = np.array([(p, n) for p in (2.0, 4, 8, 16) for n in (10.0, 20, 40)])
    rng = np.random.default_rng(5)
    truth = np.array([5 + points[:, 0] * points[:, 1], 3 + points[:, 0], 50 / points[:, 1]])
    values = truth * (1 + 0.05 * rng.standard_normal(truth.shape))
    grid = insitu.fit(points, values, parameters=("p", "n"))
    models = models_of_many_kinds()
    models = [*models, *grid, models[0]]
    at = [np.array(FAR)[: 1 + i % 4, None] for i in range(len(models))]
    for i in range(len(models) - 4, len(models) - 1):
        at[i] = np.array([[64.0, 80.0], [4.0, 10.0], [1e6, 20.0]])

    together = predict_all(models, at, 0.9)

    for model, table, found in zip(models, at, together, strict=True):
        np.testing.assert_array_equal(found.values, model.predict(table))
        np.testing.assert_array_equal(found.bounds, model.interval(table, 0.9))


def test_what_functions_claim_is_the_deviation_of_a_measurement_around_their_median():
    points = np.array([(p, n) for p in (2.0, 4, 8, 16) for n in (10.0, 20, 40)])
    rng = np.random.default_rng(4)
    truth = np.array([5 + points[:, 0] * points[:, 1], 3 + points[:, 0]])
    values = truth * (1 + 0.05 * rng.standard_normal(truth.shape))
    at = np.array([64.0, 80.0])
    spreads = [model.spread_at(at) for model in insitu.fit(points, values, parameters=("p", "n"))]

    medians, deviations = predict_by_functions(spreads, at)

    for spread, median, deviation in zip(spreads, medians, deviations, strict=True):
        spread = replace(spread, local=None, drift=0.0)
        assert median == pytest.approx(spread.median(at[None])[0], rel=MEDIAN_TOLERANCE)
        centre, scale = (values[:, 0] for values in spread.predictive(at[None]))
        squares = (centre - median) ** 2 + scale**2
        assert deviation == pytest.approx(np.sqrt(spread.weights @ squares), rel=1e-9)


def test_half_of_the_distribution_lies_below_the_median():
    """It is made of the functions, which are wider and lie elsewhere than their median."""
    at = np.array([[4096.0]])
    spreads = [model.spread_at(at[0]) for model in models_of_many_kinds()[:10]]

    for spread in spreads:
        centre, scale, linear = spread.distribution(at)

        (middle,) = positive_bounds_of_mixtures(
            centre,
            scale,
            spread.weights[:, None],
            linear=linear,
            shares=np.array([[0.5]]),
            degrees=spread.degrees,
            reach=student_quantile(0.999, spread.degrees),
        )
        # Bounds are found less closely than the median.
        assert middle == pytest.approx(spread.median(at)[0], rel=1e-6)
    assert max(len(spread.weights) for spread in spreads) > 1


def test_no_models_predict_nothing():
    assert predict_at([], [4.0]).shape == (0,)
