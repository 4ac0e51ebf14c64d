"""Models over several parameters."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import insitu
from insitu.entities import CallPath
from insitu.modeling.evidence.combinations import structures
from insitu.modeling.evidence.modeler import Evidence
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.series import reduce_repetitions

P, N = [4.0, 8, 16, 32, 64], [10.0, 20, 40, 80, 160]
FULL = np.array(list(product(P, N)))
SPARSE = np.array([(p, 10.0) for p in P] + [(4.0, n) for n in N[1:]] + [(16.0, 40.0)])


def noisy(values, *, count=10, level=0.01, seed=5):
    rng = np.random.default_rng(seed)
    return values * (1 + rng.uniform(-level, level, (count, len(values))))


def terms(model):
    return {
        tuple((factor.parameter, factor.alpha, factor.beta) for factor in term.factors)
        for term in model.function.terms
    }


@pytest.mark.parametrize("grid", [FULL, SPARSE], ids=["full", "sparse"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda p, n: 5 + p + 0.5 * n, {(("p", 1, 0),), (("n", 1, 0),)}),
        (lambda p, n: 5 + 0.1 * p * n, {(("p", 1, 0), ("n", 1, 0))}),
        (lambda p, n: 5 + np.log2(p), {(("p", 0, 1),)}),
    ],
    ids=["sum", "product", "one only"],
)
def test_sums_and_products_are_told_apart(grid, function, expected):
    models = insitu.fit(grid, noisy(function(*grid.T)), parameters=("p", "n"))

    assert sum(terms(model) == expected for model in models) >= 9


def test_strong_scaling_of_a_problem_is_a_product_with_a_falling_term():
    models = insitu.fit(FULL, noisy(FULL[:, 1] ** 2 / FULL[:, 0]), parameters=("p", "n"))

    assert all(model.leading([256, 640]) == ((-1, 0), (2, 0)) for model in models)


def test_missing_points_and_points_off_the_grid_are_no_obstacle():
    values = noisy(5 + 0.1 * FULL[:, 0] * FULL[:, 1])
    values[:, ::4] = np.nan
    points = np.vstack([FULL, [[13.0, 33.0]]])
    values = np.hstack([values, np.full((10, 1), 5 + 0.1 * 13 * 33)])

    models = insitu.fit(points, values, parameters=("p", "n"))

    assert all(model.leading([256, 640]) == ((1, 0), (1, 0)) for model in models)


def test_what_a_call_path_cannot_depend_on_is_left_out():
    path = CallPath(("main", "solve"))
    values = noisy(5 + FULL[:, 0] + 0.2 * FULL[:, 1], level=0.1)
    keys = [SeriesKey(path, "time")] * len(values)
    series = reduce_repetitions(("p", "n"), FULL, values[:, :, None], keys)

    models = Evidence(dependencies={path: [["p"]]}).fit(series)

    assert not any(f.parameter == "n" for m in models for t in m.function.terms for f in t.factors)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_prior_of_structures_sums_to_one(count):
    assert sum(share for _, share in structures(count)) == pytest.approx(1.0, abs=1e-12)


def test_three_parameters_are_modelled():
    grid = np.array(list(product([4.0, 8, 16, 32], [10.0, 20, 40, 80], [2.0, 4, 8, 16])))
    p, n, q = grid.T

    [model] = insitu.fit(grid, noisy(3 + p * n + q**2, count=1), parameters=("p", "n", "q"))

    assert terms(model) == {(("p", 1, 0), ("n", 1, 0)), (("q", 2, 0),)}


def test_four_parameters_are_modelled():
    grid = np.array(list(product([4.0, 8, 16], [10.0, 20, 40], [2.0, 4, 8], [1.0, 2, 4])))
    p, n, q, r = grid.T

    [model] = insitu.fit(grid, noisy(p * n + q * r, count=1), parameters=("p", "n", "q", "r"))

    assert model.leading([64, 160, 8, 4])[:2] == ((Fraction(1), 0), (Fraction(1), 0))


def test_few_values_of_a_parameter_are_no_reason_for_a_wild_polynomial():
    grid = np.array(list(product([32.0, 64, 128, 256], N)))
    p, n = grid.T

    models = insitu.fit(grid, noisy(n * np.where(p > 200, 1.7, 1.0)), parameters=("p", "n"))

    assert all(f.alpha <= 2 for m in models for t in m.function.terms for f in t.factors)


def test_intervals_widen_with_the_distance_from_what_was_measured():
    [model] = insitu.fit(FULL, noisy(5 + 0.1 * FULL[:, 0], count=1), parameters=("p", "n"))

    (low, high), (farther_low, farther_high) = model.interval([[128, 160], [128, 640]])

    assert farther_high - farther_low > 1.2 * (high - low)  # of n, on which it does not depend
