"""Claims that one value or the choice of a prior decides are no claims."""

import numpy as np
import pytest

import insitu
from insitu.expectations.validate import validate
from insitu.modeling.evidence.claims import weigh_constants_evenly
from insitu.modeling.evidence.earlier import find_odd_points, oddness
from insitu.modeling.horizon import horizon, unclear_at

X = np.array([2.0, 4, 8, 16, 32])
SIX = np.array([2.0, 4, 8, 16, 32, 64])


def codes(model):
    return [finding.code for finding in model.findings]


@pytest.mark.parametrize(
    "values",
    [
        [1, 1, 1, 1, 1000],
        [0, 0, 0, 0, 5],
        [0, 1e-3, 0, 0, 5],
        [1.0, 1.01, 0.99, 1.3, 9],
    ],
)
def test_growth_that_only_the_largest_value_shows_is_unclear(values):
    [model] = insitu.fit(X, [values])

    assert codes(model) == ["rests-on-one-value"]
    assert "value at p=32 alone" in model.findings[0].text
    assert "run p=32 again, or p=64" in model.findings[0].text
    assert model.probability < 0.1
    assert unclear_at(model, 64) == "unclear: one value alone shows growth"
    assert unclear_at(model, 32) == ""


@pytest.mark.parametrize(
    ("x", "values"),
    [
        (SIX, SIX**3),
        (SIX, 1 + 0.002 * SIX**3),
        (np.arange(1.0, 8), 2 ** np.arange(1.0, 8)),
        (X, [0, 2, 6, 14, 30]),
        (SIX, [1, 1, 1, 1000, 1000, 1000]),
    ],
)
def test_growth_that_every_point_supports_is_claimed(x, values):
    [model] = insitu.fit(x, [values])

    assert "rests-on-one-value" not in codes(model)
    assert model.doubt == ""
    assert model.probability > 0.9


def test_a_vanishing_first_value_does_not_become_a_power():
    [model] = insitu.fit([2, 3, 4, 5, 6], [[2.9e-7, 0.0326, 0.0254, 0.0318, 0.0458]])

    assert codes(model)[0] == "first-point-off"
    assert model.probability < 0.5
    assert 0.02 < model.predict([12])[0] < 0.2


def test_a_newest_value_that_may_begin_the_expected_growth_is_hardly_a_violation():
    [verdict] = validate(X, [[1, 1.02, 0.98, 1.01, 2]], "O(p)")

    assert verdict.violation < 0.8


@pytest.mark.parametrize("growth", ["O(1)", "O(p)", "<= O(1)", "<= O(p)"])
def test_a_dominating_value_settles_no_expectation(growth):
    [verdict] = validate(X, [[1, 1.02, 0.98, 1.01, 1000]], growth)

    assert not verdict.is_settled
    assert not verdict.is_violated


def test_a_slow_newest_run_neither_meets_nor_violates_an_expectation():
    [verdict] = validate([1, 2, 4, 8, 16, 32], [[10, 10.1, 9.9, 10, 10.1, 20]], "O(1)")

    assert not verdict.is_settled


def test_functions_that_explain_no_more_than_the_mean_are_unclear():
    values = [1e-6, 1.0, 1.1, 0.9, 1.05, 0.02]
    [model] = insitu.fit(SIX, [values])

    if model.function.terms:
        assert model.adjusted_r2 > 0 or model.doubt


@pytest.mark.parametrize("odd", [2, 3])
def test_a_single_odd_run_inside_is_left_out(odd):
    values = 1 + 0.1 * SIX
    values[odd] *= 100
    [model] = insitu.fit(SIX, [values])

    assert codes(model) == ["point-off"]
    assert f"p={SIX[odd]:.0f} is 1e+02 times" in model.findings[0].text
    assert model.change_points == ()
    assert model.predict([256])[0] == pytest.approx(26.6, rel=0.1)


def test_odd_points_are_a_factor_of_e_off_their_neighbours():
    values = np.array([[1, 2, 4, 8, 16, 32], [1, 2, 40, 8, 16, 32], [1, 1, 1, 1, 1, 9]], float)

    assert find_odd_points(SIX, values, np.ones(3, dtype=bool)).tolist() == [-1, 2, -1]
    assert oddness(SIX, values)[1, 2] == pytest.approx(np.log(10))
    assert oddness(SIX, values)[2, -1] == pytest.approx(np.log(9))


def test_a_claim_must_be_probable_under_both_priors_of_the_constant():
    weights = np.array([[0.9, 0.1]])
    grows = np.ones((1, 2), dtype=bool)
    sigma = np.array([0.03])

    with_constant = weigh_constants_evenly(weights, np.array([[0.0, 0.8]]), grows, sigma)
    [[alone, beside]] = with_constant.tolist()

    assert alone + beside == pytest.approx(1)
    assert alone < 0.7  # a visible constant is as probable as any other


def test_most_claims_about_noisy_laws_with_a_constant_are_right():
    rng = np.random.default_rng(3)
    truth = 0.27 + 0.73 * np.log2(SIX) ** 2 / 36
    values = truth[None, :, None] * np.exp(0.05 * rng.standard_normal((60, 6, 3)))
    claims = [model for model in insitu.fit(SIX, values) if model.probability > 0.8]

    wrong = [model for model in claims if model.leading([256.0])[0] != (0, 2)]
    assert len(wrong) <= 3


def test_the_horizon_of_an_exact_law_is_infinite():
    [model] = insitu.fit(SIX, [SIX**2])

    assert horizon(model) == np.inf
    assert unclear_at(model, 1e9) == ""
