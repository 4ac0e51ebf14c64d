"""One rank sends nothing, whatever the law of more ranks is."""

import numpy as np
import pytest

import insitu

X = np.array([1.0, 2, 4, 8, 16])


def fit(values):
    return insitu.fit(X, np.array([values], dtype=float))[0]


@pytest.mark.parametrize(
    ("values", "at_64"),
    [
        ([0, 5, 5, 5, 5], 5),
        ([0, 8, 4, 2, 1], 0.25),  # strong scaling
        ([0, 20, 40, 80, 160], 640),
        ([0, 120, 140, 180, 260], 740),
    ],
)
def test_a_first_zero_does_not_bend_the_law_of_larger_runs(values, at_64):
    model = fit(values)

    assert model.predict([64])[0] == pytest.approx(at_64, rel=1e-3)
    assert "p=1 is 0" in model.findings[0].text


@pytest.mark.parametrize(
    ("values", "text"), [([0, 1, 3, 7, 15], "-1 + 1 * "), ([0, 3, 6, 9, 12], "3 * log2(")]
)
def test_a_law_that_is_zero_there_stays(values, text):
    model = fit(values)

    assert str(model).startswith(text)
    assert len(model.values) == len(X)
    assert not any(finding.code == "first-point-off" for finding in model.findings)


def test_a_law_of_noisy_times_that_is_zero_there_stays():
    noise = np.random.default_rng(4).standard_normal((5, 3))
    times = 7 * np.log2(X)[:, None] * (1 + 0.02 * noise)

    model = insitu.fit(X, times[None])[0]

    assert len(model.values) == len(X)
    assert model.predict([64])[0] == pytest.approx(42, rel=0.05)


def test_other_series_of_the_call_are_the_same_beside_a_first_zero():
    noise = np.random.default_rng(5).standard_normal((3, 5, 3))
    values = (3 + 0.2 * X)[None, :, None] * (1 + 0.02 * noise)
    with_zero = values.copy()
    with_zero[0, 0] = 0

    model = insitu.fit(X, with_zero)[2]

    assert len(model.values) == len(X)
    assert not any(finding.code == "first-point-off" for finding in model.findings)
