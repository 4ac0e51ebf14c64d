"""An exact zero between inexact values is a measurement that failed."""

import numpy as np
import pytest

import insitu

X = np.array([2.0, 4, 8, 16, 32, 64])


def noisy(law, *, repetitions=1, seed=3):
    noise = np.random.default_rng(seed).standard_normal((len(X), repetitions))
    return law[:, None] * (1 + 0.02 * noise)


def test_a_zero_between_inexact_values_does_not_bend_the_law_of_the_others():
    values = noisy(5 + 0.5 * X)
    values[3] = 0

    model = insitu.fit(X, values[None])[0]

    assert model.predict([256])[0] == pytest.approx(133, rel=0.15)
    assert [finding.code for finding in model.findings].count("point-off") == 1
    assert "p=16 is 0" in "".join(finding.text for finding in model.findings)


def test_other_series_of_the_call_are_the_same_with_and_without_an_odd_zero():
    values = np.stack([noisy(5 + 0.5 * X, seed=seed) for seed in range(3)])
    with_zero = values.copy()
    with_zero[0, 2] = 0

    model = insitu.fit(X, with_zero)[2]

    assert not any(finding.code == "point-off" for finding in model.findings)
    assert len(model.values) == len(X)


def test_zeros_that_a_law_explains_stay():
    counts = np.array([3.0, 1, 0, 1, 3, 7])  # whole numbers
    first = noisy(np.maximum(X - 2, 0))[:, 0]  # nothing is done on two ranks
    faint = noisy(np.array([1e-6, 1e-6, 0, 1e-5, 1e-3, 1.0]))[:, 0]  # near the resolution

    models = insitu.fit(X, np.stack([counts, first, faint]))

    assert not any(finding.code == "point-off" for model in models for finding in model.findings)
