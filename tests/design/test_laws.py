"""Sampled laws: how far they tilt from simple powers is estimated from all call paths."""

import numpy as np
import pytest

from insitu.design.dependencies import Dependency, Nest
from insitu.design.laws import sample_laws

NAMES = ("n",)
POINTS = np.array([[8.0], [16.0], [24.0], [32.0], [48.0], [64.0]])
TARGET = np.array([[256.0]])
KNOWN = [Dependency(f"f{i}", (Nest.of({"n": 1}),)) for i in range(10)]


def sampled(powers, noise=0.01):
    """Return laws of ten call paths with constants, and their exact times at the target."""
    random = np.random.default_rng(5)
    scale, constants = random.uniform(1.0, 2.0, (2, len(powers), 1))

    def exact(x):
        return constants + scale * (x[:, 0] / 20) ** np.array(powers)[:, None]

    values = exact(POINTS) * (1 + noise * random.standard_normal((len(powers), len(POINTS))))
    return sample_laws(POINTS, values, NAMES, KNOWN, noise=noise), exact(TARGET)[:, 0]


def test_laws_tilt_if_times_depart_from_the_powers_of_counts():
    powers = 1 + np.array([-0.12, 0.1, -0.08, 0.14, 0.09, -0.1, 0.12, -0.14, 0.08, 0.1])
    laws, exact = sampled(powers)
    values = np.array([law.at(TARGET)[:, 0] for law in laws])
    errors = np.abs(np.median(values, axis=1) / exact - 1)
    rigid = np.abs(np.array([256 / 20]) / (256 / 20) ** powers - 1)
    assert errors.mean() < 0.6 * rigid.mean()
    low, high = np.quantile(values, [0.025, 0.975], axis=1)
    assert ((low <= exact) & (exact <= high)).sum() >= 8


def test_laws_do_not_tilt_if_times_follow_the_powers_of_counts():
    laws, exact = sampled(np.ones(10))
    spreads = [np.std(law.tilts) for law in laws]
    assert np.mean(spreads) < 0.02
    total = sum(law.at(TARGET) for law in laws)
    assert np.median(total) == pytest.approx(exact.sum(), rel=0.02)


def test_without_call_paths_there_are_no_laws():
    assert sample_laws(POINTS, np.empty((0, 6)), NAMES, []) == []


@pytest.mark.parametrize("points", [[[1, 0], [2, 5], [4, 10]], [[1, 1]], [[3, 1], [3, 1], [3, 1]]])
def test_zeros_and_few_points_give_finite_laws(points):
    dependencies = [
        Dependency("f", (Nest.of("n"),)),
        Dependency("g"),
        Dependency("h", (Nest.of("np"), Nest.of("p"))),
    ]
    values = np.array([[0.0, 3.0, 2.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])[:, : len(points)]
    laws = sample_laws(np.array(points, dtype=float), values, ("p", "n"), dependencies)
    for law in laws:
        assert np.all(np.isfinite(law.at(np.array([[8.0, 20.0], [0.0, 0.0]]))))


def test_times_that_the_law_does_not_describe_make_it_uncertain():
    def width(scatter):
        values = (1 + POINTS[:, 0] / 20) * (1 + scatter * np.array([1, -1, 1, -1, 1, -1]))
        (law,) = sample_laws(POINTS, values[None, :], NAMES, KNOWN[:1], noise=0.01)
        low, high = np.quantile(law.at(TARGET), [0.05, 0.95])
        return (high - low) / np.median(law.at(TARGET))

    assert width(0.03) > 2 * width(0.0)
    assert width(0.1) > 4 * width(0.03)
