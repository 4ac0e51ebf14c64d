"""A first point that leaves the law of the others."""

import numpy as np
import pytest

import insitu
from tests.support.parameters import plain_and_full

X = np.array([2.0, 4, 8, 16, 32, 64])


def codes(model):
    return [finding.code for finding in model.findings]


@pytest.mark.parametrize("repetitions", [1, 3])
def test_memory_that_is_low_at_the_smallest_run_stays_linear(repetitions):
    values = np.where(X == 2, 14e6, 15e6 + 2e5 * X)
    [model] = insitu.fit(X, np.repeat(values[None, :, None], repetitions, axis=2))

    assert str(model) == "1.5e+07 + 2e+05 * p"
    assert codes(model) == ["first-point-off"]
    assert "p=2 is 0.91 times" in model.findings[0].text
    assert model.predict([1024])[0] == pytest.approx(15e6 + 2e5 * 1024, rel=0.05)
    [low, high] = model.interval([65536])[0]
    assert low < 15e6 + 2e5 * 65536 < high


def test_a_slow_first_run_does_not_make_a_constant_fall():
    rng = np.random.default_rng(2)
    values = np.where(X == 2, 3.0, 1.0) * (1 + 0.01 * rng.standard_normal((10, len(X))))
    models = [insitu.fit(X, values[row])[0] for row in range(len(values))]

    assert sum(codes(model) == ["first-point-off"] for model in models) >= 8
    assert all(model.predict([256])[0] == pytest.approx(1, rel=0.1) for model in models)


@plain_and_full("alpha", [0.5, -1.0, 0.0, 1.0, 2.0], plain=2)
def test_the_first_point_of_a_law_is_hardly_ever_reported(alpha):
    rng = np.random.default_rng(8)
    truth = 5 + 20 * X**alpha
    models = [insitu.fit(X, truth * (1 + 0.02 * rng.standard_normal(6)))[0] for _ in range(30)]

    assert sum("first-point-off" in codes(model) for model in models) <= 1


def test_five_points_are_too_few_to_leave_one_out():
    values = np.where(X == 2, 14e6, 15e6 + 2e5 * X)[:5]

    assert "first-point-off" not in codes(insitu.fit(X[:5], values)[0])
