"""Noise that depends on the coordinate, and repetitions that resemble each other."""

import numpy as np
import pytest

import insitu
from insitu.modeling.evidence.claims import probability_of_constant
from insitu.modeling.evidence.noise import log_likelihood_of_scatter
from insitu.modeling.evidence.repetitions import (
    CORRELATIONS,
    correlation_of_repetitions,
    noise_by_coordinate,
    weigh_repetitions,
)
from insitu.modeling.series import reduce_repetitions

X = np.array([2.0, 4, 8, 16, 32, 64])


def normal(seed, *, series=40, repetitions=3):
    return np.random.default_rng(seed).standard_normal((series, len(X), repetitions))


def reduced(values):
    return reduce_repetitions(("p",), X[:, None], values)


def autoregressive(seed, *, correlation=0.8, series=40):
    """Deviations that follow each other in time, with a variance of 1: (series, 6, 3)."""
    walk = normal(seed, series=series).reshape(series, -1)
    for i in range(1, walk.shape[1]):
        new = np.sqrt(1 - correlation**2) * walk[:, i]
        walk[:, i] = correlation * walk[:, i - 1] + new
    return walk.reshape(series, len(X), 3)


def test_a_coordinate_with_noisier_repetitions_counts_less():
    usual = reduced(np.exp(0.05 * normal(1)))
    noisy_end = reduced(np.exp(0.05 * normal(1) * np.array([1, 1, 1, 1, 4, 4])[:, None]))

    even = noise_by_coordinate(usual.deviations, usual.counts)
    ratios = noise_by_coordinate(noisy_end.deviations, noisy_end.counts)

    assert even == pytest.approx(1, abs=0.35)
    assert ratios[4:].min() / ratios[:4].max() == pytest.approx(4, rel=0.5)
    assert np.log(ratios).sum() == pytest.approx(0, abs=1e-9)


def test_successive_repetitions_that_resemble_each_other_are_recognised():
    drifting = reduced(np.exp(0.05 * autoregressive(2, series=400)))
    independent = reduced(np.exp(0.05 * normal(2)))

    posterior = correlation_of_repetitions(drifting.lags)

    assert posterior is not None
    assert float(posterior @ CORRELATIONS) == pytest.approx(0.8, abs=0.15)
    assert correlation_of_repetitions(independent.lags) is None


def test_repetitions_that_drift_together_have_the_noise_of_another_day():
    deviations = []
    for seed in range(20):
        series = reduced(np.exp(0.05 * autoregressive(seed, series=20)))
        worth = weigh_repetitions(series, [np.arange(20)])
        deviations.append(np.sqrt((worth.deviations**2).mean()))

    # Within a coordinate they scatter by half of it.
    assert np.mean(deviations) == pytest.approx(0.05, rel=0.2)
    assert np.isfinite(worth.degrees).all()


def test_runs_that_series_share_say_little_about_the_noise_of_a_coordinate():
    noisier = np.array([1, 1, 1, 1, 1, 4])[:, None]
    shared, apart = normal(5, series=1) + 0.1 * normal(6), normal(7)

    of_shared = reduced(np.exp(0.05 * noisier * shared))
    of_apart = reduced(np.exp(0.05 * noisier * apart))

    assert noise_by_coordinate(of_shared.deviations, of_shared.counts).max() < 2
    assert noise_by_coordinate(of_apart.deviations, of_apart.counts).max() > 2.5


def test_a_deviation_that_all_series_of_a_run_share_is_no_correlation():
    found = []
    for seed in range(10):
        of_run = np.exp(0.1 * normal(seed, series=1) + 0.01 * normal(100 + seed))
        found.append(correlation_of_repetitions(reduced(of_run).lags))

    assert sum(posterior is not None for posterior in found) <= 1


def test_constants_whose_repetitions_drift_are_not_called_growing():
    models = []
    for seed in range(4):
        models += insitu.fit(X, 10 * np.exp(0.02 * autoregressive(seed, series=20)))
    grows = [max(map(float, model.leading([256])[0])) > 0 for model in models]

    assert np.mean(grows) <= 0.05


def test_constants_with_one_sided_noise_are_not_called_growing():
    models = []
    for seed in (2, 7, 8, 11):
        values = 1 + 0.05 * np.random.default_rng(seed).exponential(size=(40, len(X), 3))
        values[20:] *= (0.5 + 0.5 * X / X[-1])[:, None]
        models += insitu.fit(X, values)[:20]
    grows = [max(map(float, model.leading([256])[0])) > 0 for model in models]

    assert sum(grows) == 0


def test_intervals_have_the_noise_of_the_largest_scales():
    scale = np.sqrt(X / X[-1])[:, None]
    models = insitu.fit(X, (5 + X)[:, None] * np.exp(0.1 * scale * normal(3)))
    sigma = np.median([model.spreads[-1].sigma for model in models])

    assert sigma == pytest.approx(0.1, rel=0.35)


def test_one_slow_repetition_does_not_make_all_measurements_noisy():
    """As the first call of a library, which loads and allocates."""
    x = 2.0 ** np.arange(3, 9)
    law = (2 + x / 64)[:, None]
    widths = []

    for seed in range(4, 14):
        random = np.random.default_rng(seed)
        values = law * (1 + 0.01 * random.standard_normal((6, 3)))
        values[0, 0] *= 6
        model = insitu.fit(x[:, None], values[None])[0]
        lower, upper = model.interval([1024.0])[0]
        assert lower < 2 + 1024 / 64 < upper
        assert model.leading([1024.0]) == ((1, 0),)
        widths.append(upper / lower)

    assert np.median(widths) < 2.5  # of one seed it may be 3.1


def test_equal_repetitions_at_most_points_do_not_hide_the_scatter_of_the_others():
    deviations = np.array([[0.0, 0.0, 0.0, 0.1, 0.1, np.nan], [np.nan] * 6])
    counts = np.array([[3.0] * 5 + [1.0], [1.0] * 6])
    levels = np.array([0.001, 0.1])

    of_some, of_none = log_likelihood_of_scatter(deviations, counts, levels)

    assert of_some[1] > of_some[0] + 10
    assert of_none[0] == of_none[1]


def test_a_constant_is_certain_only_where_noise_could_hide_nothing_that_matters():
    quiet, noisy = probability_of_constant(np.array([0.98, 0.98]), np.array([0.005, 0.1]))

    assert quiet > 0.9
    assert noisy < 0.7
    assert probability_of_constant(np.array([0.5]), np.array([0.005])) < 0.5


def shared_deviation(seed, *, level=0.1, own=0.02):
    """Factors of 20 series that deviate together at each coordinate: (20, 6, 3)."""
    rng = np.random.default_rng(seed)
    own_logs = own * rng.standard_normal((20, len(X), 3))
    return np.exp(level * rng.standard_normal((1, len(X), 1)) + own_logs)


def test_constants_that_deviate_together_are_not_called_growing():
    grows = []
    for seed in range(8):
        models = insitu.fit(X, 10 * shared_deviation(seed))
        grows.append(np.mean([max(map(float, model.leading([256])[0])) > 0 for model in models]))

    assert np.median(grows) == 0


def test_a_deviation_that_series_share_is_known_from_as_few_draws_as_there_are_coordinates():
    together = insitu.fit(X, (50 + X)[:, None] * shared_deviation(0))
    apart = insitu.fit(X, (50 + X)[:, None] * np.exp(0.1 * normal(4, series=20)))

    assert max(model.spreads[-1].degrees for model in together) < len(X)
    assert min(model.spreads[-1].degrees for model in apart) > len(X)
