"""What models over several parameters say about the largest run without it."""

from itertools import product

import numpy as np

import insitu
from insitu.modeling.evidence.best_combinations import Solution
from insitu.modeling.evidence.combination_fits import MultiParameterBatch
from insitu.modeling.evidence.multi_parameter import solve_multi_parameter
from insitu.modeling.evidence.smaller_grid import apply_smaller_grid, find_corner, find_smaller
from insitu.modeling.series import reduce_repetitions

NOISE = 0.02
FIVE = np.array(list(product(2.0 ** np.arange(2, 7), 10 * 2.0 ** np.arange(5))))
FOUR = np.array(list(product(2.0 ** np.arange(2, 6), 10 * 2.0 ** np.arange(4))))


def measure(truth, *, seed):
    """Return three noisy repetitions of truths (s, n): (s, n, 3)."""
    random = np.random.default_rng(seed)
    return truth[:, :, None] * (1 + NOISE * random.standard_normal((*truth.shape, 3)))


def saturating(points, *, seed, count=24):
    """Return series whose growth with p ends: (count, n)."""
    random = np.random.default_rng(seed)
    scale, share, power = 10 ** random.uniform(1, 2.5, count), *random.uniform(0.2, 2, (2, count))
    p, n = points.T
    growth = p / (p + scale[:, None])
    return (share[:, None] + growth) * (n / 40) ** (0.5 * power[:, None])


def test_intervals_hold_where_growth_ends_as_no_function_does():
    for points in (FIVE, FOUR):
        targets = points[-1] * np.array([[2, 2], [4, 4]])
        truths = saturating(targets, seed=7)

        models = insitu.fit(points, measure(saturating(points, seed=7), seed=8), parameters="pn")

        bounds = np.array([model.interval(targets) for model in models])
        is_held = (bounds[..., 0] <= truths) & (truths <= bounds[..., 1])
        assert is_held.mean() >= 0.9  # 95 % intervals; about 0.6 without the test


def test_functions_of_the_space_are_predicted_as_exactly_as_without_a_test():
    p, n = FIVE.T
    target = np.array([[4 * 64.0, 4 * 160.0]])
    series = [3 + p + 0.05 * p * n, 5 + 2 * n * np.log2(p), 1 + 0.2 * p**0.5 * n]
    truths = [3 + 256 + 0.05 * 256 * 640, 5 + 2 * 640 * 8, 1 + 0.2 * 16 * 640]

    models = insitu.fit(FIVE, measure(np.array(series), seed=3), parameters="pn")

    predicted = [model.predict(target)[0] for model in models]
    assert np.allclose(predicted, truths, rtol=0.04)


def test_growth_that_speeds_up_within_three_values_goes_on_at_its_newest_power():
    p, n = np.array(list(product([32.0, 64, 128], [5000.0, 6000, 7000]))).T
    points = np.column_stack([p, n])
    growth = np.array([1.0, 1.41, 2.31])[np.log2(p / 32).astype(int)]  # of RELeARN, which flattens
    truth = np.array([[512.0, 9000.0]])

    model = insitu.fit(points, measure((growth * n)[None] / 12, seed=4), parameters="pn")[0]

    newest = 9000 / 12 * 2.31 * (2.31 / 1.41) ** 2  # the power of p from 64 to 128
    assert newest < model.predict(truth)[0] < 1.15 * newest < model.function(truth)[0]


def test_without_the_largest_run_or_enough_values_there_is_no_smaller_grid():
    lines = np.array([(4.0, 10), (8, 10), (16, 10), (32, 10), (4, 20), (4, 40), (4, 80)])

    assert find_corner(lines) is None
    assert find_corner(FIVE) == len(FIVE) - 1
    assert len(find_smaller(FIVE)) == 16
    assert find_smaller(np.array(list(product([1.0, 2, 4], [1.0, 2, 4, 8])))) is None


def test_a_step_at_the_largest_runs_is_inside_the_interval_and_reported():
    p, n = FIVE.T
    targets = np.array([[128.0, 160.0], [256.0, 640.0]])
    law = 1 + 2 * (targets[:, 0] / 4) ** 0.5 * targets[:, 1] / 40
    truth = (1 + 2 * (p / 4) ** 0.5 * n / 40) * np.where(p == 64, 3, 1)

    model = insitu.fit(FIVE, measure(truth[None], seed=5), parameters=("p", "n"))[0]

    lower, upper = model.interval(targets).T
    assert (lower < law).all()  # the largest runs were disturbed …
    assert (3 * law < upper).all()  # … or the step stays
    assert model.probability < 0.7
    assert [finding.code for finding in model.findings] == ["change-unconfirmed"]
    assert "run p=64, n=160 again" in model.findings[0].text


def test_only_series_whose_values_are_all_positive_are_fitted_without_the_largest_run():
    values = measure(saturating(FIVE, seed=9, count=3), seed=10)
    values[1, 0] = 0.0  # the smallest run
    values[2, 7] = np.nan
    batch = MultiParameterBatch(reduce_repetitions(("p", "n"), FIVE, values))
    fitted = []

    def solve(smaller, rows):
        fitted.append((rows.tolist(), smaller.series.values.shape))
        answers = solve_multi_parameter(smaller.series, {})
        means = np.nan_to_num(smaller.relative)
        return Solution(answers, means, np.full(len(answers), 0.02))

    solved = solve(batch, np.arange(3))
    fitted.clear()
    apply_smaller_grid(batch, solved, solve)

    assert fitted == [([0], (1, 16))]
