"""Counts without noise: functions through all of their points."""

import numpy as np
import pytest

import insitu

X = np.array([4.0, 16, 64, 256, 1024])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("-8 + 8 * p", lambda p: 8 * (p - 1)),
        ("-2 + 1 * p", lambda p: p - 2),
        ("-8 + 4 * p^(1/2)", lambda p: 4 * np.sqrt(p) - 8),
        ("-0.5 * p + 0.5 * p^2", lambda p: p * (p - 1) / 2),
        ("-1 + 1 * p * log2(p)", lambda p: p * np.log2(p) - 1),
        ("-2 + 2 * p + 3 * log2(p)", lambda p: 2 * (p - 1) + 3 * np.log2(p)),
        ("50 * p", lambda p: 50 * p),
        ("7", lambda p: 7 + 0 * p),
    ],
)
def test_a_deterministic_count_is_modelled_exactly(text, count):
    [model] = insitu.fit(X, [count(X)])

    assert str(model) == text
    assert model.predict([4096]) == pytest.approx(count(np.array([4096.0])), rel=1e-6)
    assert model.interval([4096])[0] == pytest.approx(count(4096.0), rel=1e-4)


def test_no_count_is_predicted_negative():
    [model] = insitu.fit(X, [X - 2])

    assert model.predict([1.0]).tolist() == [0.0]
    assert model.interval([1.0]).min() >= 0


def test_a_function_that_falls_below_zero_beyond_is_not_taken():
    [model] = insitu.fit([1, 2, 3, 4, 5], [[100.0, 90, 80, 70, 60]])

    assert model.predict([20.0, 1000.0]).min() >= 0
    assert all(term.coefficient > 0 for term in model.function.terms)


def test_measured_times_keep_positive_coefficients():
    rng = np.random.default_rng(3)
    times = (8 * (X - 1)) * (1 + rng.uniform(-0.02, 0.02, (30, 5)))

    models = insitu.fit(X, times)

    assert all(
        model.function.constant >= 0 and all(term.coefficient > 0 for term in model.function.terms)
        for model in models
    )


def test_counts_with_a_step_are_cut_into_segments():
    x = np.arange(1.0, 13)
    [model] = insitu.fit(x, [np.where(x <= 6, 4.0, 12.0)])

    assert model.change_points == ((6, 7),)
    assert [str(segment.function) for segment in model.segments] == ["4", "12"]


@pytest.mark.parametrize(
    ("count", "levelled"),
    [
        (lambda p: 20 * (p - 1), 20 * 12.14),  # 13 - 56 / p + 64 / p² at 64
        (lambda p: 4 * p, 52.56),
        (lambda p: np.log2(p), 4.15),
        (lambda p: 40 / p, 0.625),  # levels off itself
    ],
)
def test_a_count_on_three_scales_is_exact_beside_a_function_that_levels_off(count, levelled):
    """Numbers of neighbours in a grid, 1, 3 and 7, look like p - 1 and grow to 26."""
    x = np.array([2.0, 4.0, 8.0])

    [model] = insitu.fit(x, [count(x)])

    assert model.predict([64.0]) == pytest.approx([count(64.0)], rel=1e-4)
    assert model.interval([64.0])[0] == pytest.approx([levelled, count(64.0)], rel=1e-3)
    for bound in model.interval(x).T:
        assert bound == pytest.approx(count(x), rel=1e-4)
