"""Quantiles of mixtures of Student distributions: right, and each independent of the others."""

import numpy as np
import pytest
from scipy import special

from insitu.modeling import student
from insitu.modeling.student import (
    MEDIAN_TOLERANCE,
    TOLERANCE,
    bounds_of_mixtures,
    median_of_mixtures,
    positive_bounds_of_mixtures,
)

N_FUNCTIONS, N_MIXTURES = 9, 60
DEGREES = 3.0
TAIL = 0.025
REACH = float(special.stdtrit(DEGREES, 1 - TAIL / 100))


def mixtures(*, is_positive):
    """Centres, scales and weights, (k, n) each: orders of magnitude apart, exact, and left out."""
    rng = np.random.default_rng(8)
    shape = (N_FUNCTIONS, N_MIXTURES)
    centre = 10 ** rng.normal(0, 10 ** rng.uniform(-3, 0.7, N_MIXTURES), shape)
    scale = centre * 10 ** rng.uniform(-6, 0, shape) * (rng.random(shape) < 0.9)
    weights = rng.dirichlet(np.full(N_FUNCTIONS, 0.5), N_MIXTURES).T
    weights[:, ::7] = np.where(np.arange(N_FUNCTIONS)[:, None] < 4, weights[:, ::7], 0.0)
    sign = 1.0 if is_positive else rng.choice([-1.0, 1.0], shape)
    return centre * sign, scale, weights


def medians(columns):
    centre, scale, weights = (array[:, columns] for array in mixtures(is_positive=True))
    degrees = np.where(np.arange(N_MIXTURES) % 5, DEGREES, np.inf)[columns]
    return median_of_mixtures(centre, scale, weights, degrees)


def bounds(columns):
    centre, scale, weights = (array[:, columns] for array in mixtures(is_positive=False))
    shares = np.broadcast_to([[TAIL], [1 - TAIL]], (2, centre.shape[1]))
    return bounds_of_mixtures(centre, scale, weights, shares=shares, degrees=DEGREES, reach=REACH)


def positive_bounds(columns):
    centre, scale, weights = (array[:, columns] for array in mixtures(is_positive=True))
    linear = np.linspace(0, 1, N_FUNCTIONS)[:, None] * np.ones(centre.shape)
    shares = np.broadcast_to([[TAIL], [1 - TAIL]], (2, centre.shape[1]))
    return positive_bounds_of_mixtures(
        centre, scale, weights, linear=linear, shares=shares, degrees=DEGREES, reach=REACH
    )


@pytest.mark.parametrize("quantiles", [medians, bounds, positive_bounds])
def test_many_mixtures_have_exactly_the_quantiles_of_each_alone(quantiles):
    together = quantiles(np.arange(N_MIXTURES))

    alone = [quantiles(np.array([column])) for column in range(N_MIXTURES)]
    np.testing.assert_array_equal(together, np.concatenate(alone, axis=-1))


def test_functions_of_no_weight_behind_the_others_change_nothing():
    centre, scale, weights = mixtures(is_positive=True)
    padding = np.zeros((4, N_MIXTURES))

    padded = median_of_mixtures(
        *(np.concatenate([array, padding]) for array in (centre, scale, weights)), DEGREES
    )

    np.testing.assert_array_equal(padded, median_of_mixtures(centre, scale, weights, DEGREES))


def test_half_of_the_probability_is_on_either_side_of_a_median():
    centre, scale, weights = mixtures(is_positive=True)

    median = median_of_mixtures(centre, scale, weights, DEGREES)

    def share_below(values):
        standard = (values - centre) / np.maximum(scale, 1e-300)
        return (weights * special.stdtr(DEGREES, standard)).sum(axis=0)

    half = 0.5 * weights.sum(axis=0)
    assert (share_below(median * (1 - 2 * MEDIAN_TOLERANCE)) <= half).all()
    assert (share_below(median * (1 + 2 * MEDIAN_TOLERANCE)) >= half).all()


@pytest.mark.parametrize("degrees", [1.0, 4.0, np.inf])
def test_the_bounds_of_one_function_are_its_quantiles(degrees):
    distance = special.ndtri(1 - TAIL) if np.isinf(degrees) else special.stdtrit(degrees, 1 - TAIL)
    one = np.ones((1, 1))

    low, high = bounds_of_mixtures(
        -7 * one, 2 * one, one, shares=np.array([[TAIL], [1 - TAIL]]), degrees=degrees, reach=1e4
    )

    assert low[0] == pytest.approx(-7 - 2 * distance, rel=TOLERANCE)
    assert high[0] == pytest.approx(-7 + 2 * distance, rel=TOLERANCE)


def test_a_median_between_exact_functions_is_the_smaller_one():
    centre = np.array([[3.0, 1.0], [8.0, 1e9]])
    scale = np.zeros((2, 2))
    weights = np.full((2, 2), 0.5)

    median = median_of_mixtures(centre, scale, weights, DEGREES)

    np.testing.assert_allclose(median, [3.0, 1.0], rtol=2 * MEDIAN_TOLERANCE)


def test_a_median_is_found_across_all_orders_of_magnitude():
    centre = np.array([[1e-290], [1e-280], [1e290]])

    median = median_of_mixtures(centre, 0.1 * centre, np.array([[0.3], [0.4], [0.3]]), DEGREES)

    assert 1e-281 < median[0] < 2e-280


def test_a_median_counts_infinite_functions_as_very_large_ones():
    centre, scale, weights = mixtures(is_positive=False)
    far = np.random.default_rng(9).choice([-np.inf, 0.0, np.inf], centre.shape, p=[0.1, 0.5, 0.4])
    infinite, large = np.where(far, far, centre), np.where(far, np.sign(far) * 1e200, centre)
    exact_where_far = np.where(far, 0.0, scale)

    expected = median_of_mixtures(large, exact_where_far, weights, DEGREES)
    median = median_of_mixtures(infinite, exact_where_far, weights, DEGREES)

    is_finite = np.abs(expected) < 1e199
    assert 10 < is_finite.sum() < N_MIXTURES - 10
    np.testing.assert_allclose(median[is_finite], expected[is_finite], rtol=3 * MEDIAN_TOLERANCE)
    np.testing.assert_array_equal(median[~is_finite], np.sign(expected[~is_finite]) * np.inf)


def test_the_median_of_negated_functions_is_the_negated_median():
    centre, scale, weights = mixtures(is_positive=False)

    median = median_of_mixtures(centre, scale + 1e-3 * np.abs(centre), weights, DEGREES)
    negated = median_of_mixtures(-centre, scale + 1e-3 * np.abs(centre), weights, DEGREES)

    np.testing.assert_allclose(negated, -median, rtol=10 * MEDIAN_TOLERANCE)


def test_no_mixture_needs_no_evaluation(monkeypatch):
    monkeypatch.setattr(student, "_share_below", None)

    median = median_of_mixtures(np.ones((2, 0)), np.ones((2, 0)), np.ones((2, 1)), DEGREES)

    assert median.shape == (0,)
