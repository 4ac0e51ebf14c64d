"""Whole numbers are counts, or measured values that a clock or a log has rounded."""

import numpy as np
import pytest

import insitu

X = np.array([2.0, 4, 8, 16, 32, 64])
AHEAD = np.array([128.0, 256])


def saturating(x):
    return 3 + 50 * x / (x + 10)


def noisy(*, count, repetitions, level=0.02, seed=5):
    rng = np.random.default_rng(seed)
    return saturating(X)[:, None] * (1 + level * rng.standard_normal((count, len(X), repetitions)))


@pytest.mark.parametrize("repetitions", [1, 3])
def test_times_in_whole_milliseconds_are_predicted_as_those_in_seconds(repetitions):
    seconds = noisy(count=10, repetitions=repetitions)
    milliseconds = np.round(1000 * seconds)

    exact = np.array([model.interval(AHEAD) for model in insitu.fit(X, seconds)])
    rounded = np.array([model.interval(AHEAD) for model in insitu.fit(X, milliseconds)]) / 1000

    assert np.median(rounded / exact, axis=0) == pytest.approx(1.0, rel=0.1)
    held = (rounded[..., 0] < saturating(AHEAD)) & (saturating(AHEAD) < rounded[..., 1])
    assert held.mean() >= 0.9


def test_counts_that_a_function_explains_have_no_drift_beside_rounded_times():
    counts = np.array([4 * (X - 1), 2 * X**2 + 7, X * np.log2(X)])
    times = np.round(1000 * noisy(count=5, repetitions=1)[..., 0])

    models = insitu.fit(X, np.concatenate([counts, times]))

    for model, truth in zip(models, (4 * 255, 2 * 256**2 + 7, 256 * 8), strict=False):
        assert model.interval([256])[0] == pytest.approx([truth, truth], rel=1e-4)
    assert all(model.spreads[-1].drift > 0.01 for model in models[3:])


def test_counts_of_which_one_run_is_off_are_still_counts():
    values = np.where(X == 2, 14e6, 15e6 + 2e5 * X)

    [model] = insitu.fit(X, values[None])

    assert str(model) == "1.5e+07 + 2e+05 * p"


def test_whole_numbers_alternate_between_square_and_other_grids_as_times_do():
    rng = np.random.default_rng(3)
    is_long = np.log2(X) % 2 == 1
    times = (400 + 90 * X) * np.where(is_long, 1.4, 1.0)
    noise = 1 + 0.02 * rng.standard_normal((5, len(X), 3))

    models = insitu.fit(X, np.round(times[:, None] * noise))

    for model in models:
        expected = [(400 + 90 * 128) * 1.4, 400 + 90 * 256]
        assert model.predict(AHEAD) == pytest.approx(expected, rel=0.1)
