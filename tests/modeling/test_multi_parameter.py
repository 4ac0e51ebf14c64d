"""Models over several parameters."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import insitu
from insitu.entities import CallPath
from insitu.modeling.evidence.combinations import structures
from insitu.modeling.evidence.modeler import Evidence
from insitu.modeling.evidence.shared_deviation import find_shared_deviation
from insitu.modeling.horizon import unclear_at
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
    assert sum(form.prior for form in structures(count)) == pytest.approx(1.0, abs=1e-12)


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


def test_intervals_of_few_values_are_around_the_prediction_and_positive():
    """Combinations that three values of a parameter do not allow predict 0, and are no reason."""
    grid = np.array(list(product(P[:3], N[:3])))
    far = [[64.0, 160.0]]

    models = insitu.fit(grid, noisy(grid[:, 0] ** 0.5 * grid[:, 1]), parameters=("p", "n"))

    for model in models:
        predicted, (lower, upper) = model.predict(far)[0], model.interval(far)[0]
        narrow = model.interval(far, level=0.01)[0]
        assert 0.05 * predicted < lower < upper < 20 * predicted
        assert narrow == pytest.approx([predicted, predicted], rel=0.02)


def test_intervals_widen_with_the_distance_from_what_was_measured():
    [model] = insitu.fit(FULL, noisy(5 + 0.1 * FULL[:, 0], count=1), parameters=("p", "n"))

    (low, high), (farther_low, farther_high) = model.interval([[128, 160], [128, 640]])

    assert farther_high - farther_low > 1.2 * (high - low)  # of n, on which it does not depend


VOLUME_AND_SURFACE = {
    "alone": lambda p, s: 1.5e-4 * s + 0.019 * s**0.5,
    "beside a constant": lambda p, s: 1 + 1.5e-4 * s + 0.05 * s**0.5,
    "times p": lambda p, s: 1e-6 * p * s + 8e-5 * p * s**0.5,
    "surface times log p": lambda p, s: 2e-4 * s + 0.03 * s**0.5 * np.log2(p),
    "beside p": lambda p, s: 1.5e-4 * s + 0.05 * s**0.5 + 0.1 * p,
}


@pytest.mark.parametrize("law", VOLUME_AND_SURFACE.values(), ids=VOLUME_AND_SURFACE)
def test_volume_and_surface_of_one_parameter_are_two_terms(law):
    """The shape of the laws of BoSSS, on the 35 points of [CLU §IV]."""
    points = np.array([(p, s) for p in 2.0 ** np.arange(2, 9) for s in 1600 * 4.0 ** np.arange(5)])
    target = 4 * points.max(axis=0, keepdims=True)
    random = np.random.default_rng(1)
    exact = law(*points.T)
    noisy = exact * (1 + 0.01 * random.standard_normal((10, len(points))))

    (model,) = insitu.fit(points, [exact], parameters=("p", "s"))
    models = insitu.fit(points, noisy, parameters=("p", "s"))

    assert np.allclose(model.function(points) / exact, 1, rtol=1e-9)
    assert np.allclose(model.predict(target) / law(*target.T), 1, rtol=1e-3)
    errors = [abs(model.predict(target)[0] / law(*target.T)[0] - 1) for model in models]
    assert np.mean(np.array(errors) <= 0.05) >= 0.8
    bounds = np.array([model.interval(target)[0] for model in models])
    assert np.mean((bounds[:, 0] <= law(*target.T)) & (law(*target.T) <= bounds[:, 1])) >= 0.9


def test_powers_that_no_term_has_are_predicted_by_a_plane_in_log_space():
    points = np.array([(p, n) for p in (4, 8, 16, 32, 64) for n in (10, 20, 40, 80, 160)], float)
    target = np.array([[1024.0, 2560.0]])
    random = np.random.default_rng(3)

    def law(p, n):
        return 3 * p**0.61 * n**-0.43

    values = law(*points.T) * (1 + 0.05 * random.standard_normal((20, 25)))
    models = insitu.fit(points, values, parameters=("p", "n"))

    errors = [abs(np.log(model.predict(target)[0] / law(*target.T)[0])) for model in models]
    bounds = np.array([model.interval(target)[0] for model in models])
    assert np.median(errors) < 0.12  # of the line of least squares: 0.08
    assert np.mean((bounds[:, 0] <= law(*target.T)) & (law(*target.T) <= bounds[:, 1])) >= 0.9


def call_paths(random, points, count=16):
    """Times of some call paths, without noise: sums and products, with different weights."""
    p, n = points.T
    a, b, c = 10 ** random.uniform(-1, 0, (3, count, 1))
    products = [p * n / 600, p / 23 + n / 53, (p / 23) ** 0.5 * n / 53, np.log2(p) / 4 + 0 * n]
    shapes = np.array([products[i % 4] for i in range(count)])
    return a + b * shapes + c * (p / 23)


def test_a_slow_run_is_not_taken_for_growth_of_all_call_paths():
    target = np.array([[256.0, 640.0]])
    together, alone, held = [], [], []
    for seed in range(5):
        random = np.random.default_rng(seed)
        points = FULL[random.choice(len(FULL), 12, replace=False)]
        shared = np.exp(0.05 * random.standard_normal(len(points)))
        exact = call_paths(np.random.default_rng(8), np.concatenate([points, target]))
        values = exact[:, :-1] * (1 + 0.01 * random.standard_normal((16, len(points)))) * shared

        for model, truth in zip(
            insitu.fit(points, values, parameters=("p", "n")), exact[:, -1], strict=True
        ):
            together.append(abs(np.log(model.predict(target)[0] / truth)))
            low, high = model.interval(target)[0]
            held.append(low <= truth <= high)
        for row, truth in zip(values[:8], exact[:8, -1], strict=True):  # two of each product
            [model] = insitu.fit(points, [row], parameters=("p", "n"))
            alone.append(abs(np.log(model.predict(target)[0] / truth)))

    assert np.median(together) < 0.75 * np.median(alone)
    assert np.mean(held) >= 0.9


def test_noise_of_its_own_in_each_series_is_no_shared_deviation():
    random = np.random.default_rng(9)
    residuals = 0.02 * random.standard_normal((200, 20, 25))

    found = [find_shared_deviation(rows, np.full(20, 0.02), FULL) for rows in residuals]

    assert sum(deviation is not None for deviation in found) <= 2  # significance of 0.1 %


def test_a_growth_that_all_series_have_in_common_is_no_deviation():
    random = np.random.default_rng(10)
    residuals = 0.3 * np.log(FULL[:, 0]) - 0.2 * np.log(FULL[:, 1]) + 0.7
    residuals = residuals + 0.01 * random.standard_normal((20, 25))

    assert find_shared_deviation(residuals, np.full(20, 0.01), FULL) is None


def test_what_most_series_share_is_found_and_who_does_not_is_left_alone():
    random = np.random.default_rng(11)
    shared = 0.1 * random.standard_normal(25)
    residuals = 0.01 * random.standard_normal((20, 25)) + shared
    residuals[:4] -= shared

    deviation = find_shared_deviation(residuals, np.full(20, 0.01), FULL)

    assert deviation.is_shared.tolist() == [False] * 4 + [True] * 16
    # All of it but its straight part, which growth would explain as well.
    assert np.corrcoef(deviation.logarithms, shared)[0, 1] > 0.85


def test_the_most_probable_combination_is_the_centre_of_the_distribution():
    p, n = SPARSE.T
    models = insitu.fit(SPARSE, noisy(5 + 0.3 * p * np.sqrt(n), level=0.05), parameters=("p", "n"))
    target = [[256.0, 640.0]]

    for model in models:
        restored = type(model).from_dict(model.to_dict())
        half = model.interval(target, level=1e-6)[0]

        assert model.spreads[0].is_led
        assert model.predict(target) == pytest.approx(model.formula_at(target), rel=1e-9)
        assert half == pytest.approx(model.predict(target)[0], rel=1e-3)
        assert restored.predict(target) == model.predict(target)


@pytest.mark.parametrize("factor", [9.0, 32.0])
def test_exact_counts_along_a_line_have_finite_predictions(factor):
    """With n = 64/p every law of p is one of n as well, and a plane explains all of them."""
    p = np.array([2.0, 4.0, 8.0])
    points = np.stack([p, 64 / p], axis=1)

    [model] = insitu.fit(points, factor * p, parameters=("p", "n"))

    assert all(np.isfinite(spread.weights).all() for spread in model.spreads)
    assert model.predict(points) == pytest.approx(factor * p, rel=1e-3)
    assert np.isfinite(model.predict([[16.0, 4.0]])).all()


def measured_at(values_of_p, *, level=0.01):
    points = np.array([(s, p) for s in (10.0, 20, 40, 80, 160) for p in values_of_p])
    rng = np.random.default_rng(3)
    truth = 3 * points[:, 0] * (1 + points[:, 1])
    values = truth[:, None] * (1 + level * rng.standard_normal((len(points), 3)))
    return insitu.fit(points, values[None], parameters=("s", "p"))[0]


def test_a_power_of_a_parameter_with_two_values_is_unclear():
    model = measured_at((4.0, 8.0))

    assert [(finding.code, finding.where) for finding in model.findings] == [("few-values", "p")]
    assert model.doubt
    assert unclear_at(model, (40.0, 16.0)).startswith("unclear: any power of p")
    assert unclear_at(model, (40.0, 6.0)).startswith("unclear: any power of p")
    assert unclear_at(model, (320.0, 8.0)) == ""


def test_a_power_of_a_parameter_with_three_values_is_not():
    model = measured_at((4.0, 8.0, 16.0))

    assert "few-values" not in [finding.code for finding in model.findings]
    assert unclear_at(model, (320.0, 32.0)) == ""


def test_growth_that_ends_in_all_series_is_no_deviation_of_their_runs():
    random = np.random.default_rng(12)
    curve = np.log(1 / (1 + FULL[:, 0] / 16))  # more than a power of p explains
    noise = 0.01 * random.standard_normal((20, 25))
    of_runs = 0.05 * random.standard_normal(25)

    assert find_shared_deviation(noise + curve, np.full(20, 0.01), FULL) is None
    deviation = find_shared_deviation(noise + curve + of_runs, np.full(20, 0.01), FULL)
    rest = find_shared_deviation(noise + curve, np.full(20, 0.01), FULL, laws=deviation.laws)

    # What was found is the same for no values of p or n, so the curve is not in it.
    means = [deviation.logarithms[FULL[:, 0] == p].mean() for p in np.unique(FULL[:, 0])]
    assert np.abs(means).max() < 1e-9
    assert np.corrcoef(deviation.logarithms, of_runs)[0, 1] > 0.75
    assert rest is None
