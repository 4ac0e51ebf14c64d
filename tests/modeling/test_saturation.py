"""Growth that ends, which no sum of powers and logarithms describes."""

import numpy as np
import pytest

import insitu

X = 2.0 ** np.arange(1, 7)
AHEAD = np.array([128.0, 256.0, 1024.0])


def measured(truth, *, seed, level=0.02):
    rng = np.random.default_rng(seed)
    return truth[:, None] * (1 + level * rng.standard_normal((len(truth), 3)))


@pytest.mark.parametrize("half", [4.0, 8.0])
def test_growth_that_ends_is_predicted_to_end(half):
    values = np.array([measured(1 + 5 * X / (X + half), seed=seed) for seed in range(10)])
    truth = 1 + 5 * AHEAD / (AHEAD + half)

    models = insitu.fit(X, values)

    errors = np.abs(np.array([model.predict(AHEAD) for model in models]) / truth - 1)
    bounds = np.array([model.interval(AHEAD) for model in models])
    assert np.median(errors[:, 2]) < 0.10
    assert np.mean((bounds[..., 0] <= truth) & (truth <= bounds[..., 1])) >= 0.9
    assert not any(model.change_points for model in models)


@pytest.mark.parametrize(
    "law",
    [lambda x: 1 + 2 * np.log2(x), lambda x: 3 + x**0.25, lambda x: 2 + x, lambda x: 7 + 0 * x],
    ids=["logarithm", "root", "line", "constant"],
)
def test_growth_that_goes_on_is_not_predicted_to_end(law):
    values = np.array([measured(law(X), seed=seed, level=0.01) for seed in range(10)])

    models = insitu.fit(X, values)

    errors = [abs(model.predict([1024.0])[0] / law(1024.0) - 1) for model in models]
    assert np.median(errors) < 0.06


def test_a_model_of_growth_that_ends_is_restored_from_its_stored_form():
    model = insitu.fit(X, measured(1 + 5 * X / (X + 6), seed=1)[None])[0]

    restored = type(model).from_dict(model.to_dict())

    assert restored.predict(AHEAD).tolist() == model.predict(AHEAD).tolist()
    assert restored.interval(AHEAD).tolist() == model.interval(AHEAD).tolist()
