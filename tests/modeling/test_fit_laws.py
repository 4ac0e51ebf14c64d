"""Laws of every fit: units, orders of points, repetitions and parameters change no prediction."""

import numpy as np
import pytest

from insitu import fit
from insitu.modeling.base import Model

X = 2.0 ** np.arange(1, 8)
FAR = np.array([[256.0], [1024.0]])
GRID = np.array([[p, n] for p in (2.0, 4.0, 8.0, 16.0) for n in (10.0, 20.0, 40.0, 80.0)])
FAR_ON_GRID = np.array([[32.0, 80.0], [16.0, 320.0]])


def series() -> np.ndarray:
    """A root, a law with a constant, a jump and a fall, three times each with 1 % noise."""
    truth = np.array([X**0.5, 5 + X * np.log2(X), np.where(X < 20, X, 9 * X), 80 / X + 0.1])
    return truth[:, :, None] * np.random.default_rng(4).normal(1, 0.01, (4, 7, 3))


def on_grid() -> np.ndarray:
    p, n = GRID.T
    truth = np.array([n**1.5 / p + 3, 0.2 * n + p])
    return truth[:, :, None] * np.random.default_rng(5).normal(1, 0.01, (2, 16, 2))


def numbers(models: list[Model], points: np.ndarray) -> np.ndarray:
    """Predictions with their bounds: shape (n_models, n_points, 3)."""
    return np.array(
        [np.column_stack([model.predict(points), model.interval(points)]) for model in models]
    )


@pytest.fixture(scope="module")
def models() -> list[Model]:
    return fit(X, series())


# Series share their noise with those of the same magnitude, which spans a factor of 100.
@pytest.mark.parametrize("unit", [1e-6, 1e4])
def test_the_unit_of_values_changes_nothing_but_the_numbers(models, unit):
    others = fit(X, unit * series())

    np.testing.assert_allclose(numbers(others, FAR), unit * numbers(models, FAR), rtol=1e-6)
    for model, other in zip(models, others, strict=True):
        assert other.probability == pytest.approx(model.probability, rel=1e-6)
        assert other.change_points == model.change_points
        assert other.leading([256.0]) == model.leading([256.0])


def test_the_order_of_points_and_repetitions_does_not_matter(models):
    rng = np.random.default_rng(6)
    points = rng.permutation(len(X))
    shuffled = rng.permuted(series()[:, points], axis=2)

    others = fit(X[points], shuffled)

    np.testing.assert_allclose(numbers(others, FAR), numbers(models, FAR), rtol=1e-9)
    assert [str(other) for other in others] == [str(model) for model in models]


def test_bounds_of_a_higher_level_contain_those_of_a_lower_one(models):
    for model in models:
        bounds = np.array([model.interval(FAR, level) for level in (0.5, 0.8, 0.95, 0.99)])
        assert (np.diff(bounds[:, :, 0], axis=0) <= 0).all()
        assert (np.diff(bounds[:, :, 1], axis=0) >= 0).all()
        assert (bounds[0, :, 0] <= model.predict(FAR)).all()
        assert (model.predict(FAR) <= bounds[0, :, 1]).all()


def test_the_order_of_parameters_does_not_matter():
    models = fit(GRID, on_grid(), parameters=("p", "n"))
    others = fit(GRID[:, ::-1], on_grid(), parameters=("n", "p"))

    np.testing.assert_allclose(
        numbers(others, FAR_ON_GRID[:, ::-1]), numbers(models, FAR_ON_GRID), rtol=1e-6
    )
    for model, other in zip(models, others, strict=True):
        assert other.probability == pytest.approx(model.probability, rel=1e-6)
