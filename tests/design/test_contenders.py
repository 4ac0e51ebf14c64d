"""Leaving out hypotheses by a bound leaves the closest of them, and their order, as they are."""

import numpy as np
import pytest

from insitu.design import laws
from insitu.design.contenders import select_contenders
from insitu.design.dependencies import Dependency, Nest

SCALES, SIZES = (4.0, 8.0, 16.0, 32.0), (100.0, 200.0, 400.0)
POINTS = np.array([[p, n] for p in SCALES for n in SIZES])
ON_BOTH = (Nest.of(["p"]), Nest.of(["n"]), Nest.of(["p", "n"]))


@pytest.mark.parametrize(
    "noise",
    [0.02, *(pytest.param(noise, marks=pytest.mark.full) for noise in (0.0, 0.3))],
)
def test_the_sampled_laws_are_those_of_all_hypotheses(
    monkeypatch: pytest.MonkeyPatch, noise: float
) -> None:
    p, n = POINTS.T
    shapes = np.array([1 + n / p, n**2 * np.log2(p), 5 + 0 * p, 1 / p + p**0.5])
    values = shapes * (1 + noise * np.random.default_rng(4).uniform(-1, 1, shapes.shape))
    dependencies = [Dependency(str(i), ON_BOTH) for i in range(len(values))]

    fast = laws.sample_laws(POINTS, values, ("p", "n"), dependencies)
    monkeypatch.setattr(laws, "select_contenders", lambda rows, group, **options: group)
    exact = laws.sample_laws(POINTS, values, ("p", "n"), dependencies)

    there = np.array([[512.0, 1600.0], [64.0, 100.0]])
    for first, second in zip(fast, exact, strict=True):
        np.testing.assert_array_equal(first.at(there), second.at(there))


def test_most_hypotheses_of_two_parameters_are_left_out() -> None:
    features, _ = laws._list_features(ON_BOTH, ["p", "n"])
    p, n = POINTS.T
    columns = np.stack([np.ones(len(p)), *(feature.of(POINTS) for feature in features)])
    rows = columns / (1 + n / p)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    group = laws._term_groups(len(rows), len(POINTS))[-1]

    contenders = select_contenders(rows, group, count=laws.HYPOTHESES, variance=laws.NOISE**2)

    assert laws.HYPOTHESES <= len(contenders) < len(group) / 10
