"""Measured values made ready: repetitions reduced, points merged and sorted, gaps kept."""

import numpy as np
import pytest

from insitu.errors import ModelingError
from insitu.modeling.series import CLIPPED_TRIPLE, Series, reduce_repetitions

X = np.array([[2.0], [4.0], [8.0], [16.0]])
FIELDS = ("coordinates", "values", "counts", "deviations", "lags")


def measured(seed=1, repetitions=5) -> np.ndarray:
    values = np.random.default_rng(seed).uniform(1.0, 3.0, (3, 4, repetitions))
    values[0, 1, 2] = np.nan
    values[1, 2, 1:] = np.inf
    values[2, 3] = np.nan
    return values


def reduced(values, x=X, **options) -> Series:
    return reduce_repetitions(("p",), x, values, **options)


def test_values_are_medians_with_the_standard_deviation_of_one_repetition():
    values = np.where(np.isfinite(measured()), measured(), np.nan)

    series = reduced(measured())

    counts = np.isfinite(values).sum(axis=2)
    np.testing.assert_array_equal(series.counts, counts)
    for i, j in np.ndindex(3, 4):
        present = values[i, j][np.isfinite(values[i, j])]
        if not len(present):
            assert np.isnan(series.values[i, j])
            continue
        assert series.values[i, j] == np.median(present)
        if len(present) > 1:
            expected = np.std(present, ddof=1) / np.median(present)
            assert series.deviations[i, j] == pytest.approx(expected)
        else:
            assert np.isnan(series.deviations[i, j])


def test_a_unit_scales_values_and_changes_no_deviation_or_lag():
    series, other = reduced(measured()), reduced(1e-9 * measured())

    np.testing.assert_allclose(other.values, 1e-9 * series.values)
    for name in ("counts", "deviations", "lags"):
        np.testing.assert_allclose(getattr(other, name), getattr(series, name))


def test_points_in_any_order_and_points_that_occur_twice_are_the_same_series():
    series = reduced(measured())
    order = [3, 0, 2, 1]
    shuffled = reduced(measured()[:, order], X[order])
    # The first two repetitions as points of their own, the others behind them.
    halves = np.full((3, 8, 3), np.nan)
    halves[:, :4, :2], halves[:, 4:] = measured()[:, :, :2], measured()[:, :, 2:]
    split = reduced(halves, np.concatenate([X, X]))

    for name in FIELDS:
        np.testing.assert_array_equal(getattr(shuffled, name), getattr(series, name))
    for name in FIELDS[:-1]:
        np.testing.assert_allclose(getattr(split, name), getattr(series, name))


def test_points_without_a_coordinate_are_dropped():
    x = np.insert(X, 2, np.nan, axis=0)

    series = reduced(np.insert(measured(), 2, 7.0, axis=1), x)

    for name in FIELDS:
        np.testing.assert_array_equal(getattr(series, name), getattr(reduced(measured()), name))


def test_known_variances_are_means_over_the_values_that_are_there():
    known = np.full((3, 4, 5), 0.01)
    known[:, :, 0] = 0.06

    series = reduced(measured(), known_variances=known, is_exact=True)

    assert series.is_exact and not reduced(measured()).is_exact
    assert series.known_variances[0].tolist() == pytest.approx([0.02, 0.09 / 4, 0.02, 0.02])
    assert series.known_variances[1, 2] == pytest.approx(0.06)
    assert series.known_variances[2, 3] == 0.0


def test_one_repetition_has_no_deviation_and_a_centre_of_zero_has_none():
    single = reduced(measured(repetitions=3)[:, :, :1])
    zero = reduced(np.array([[[-1.0, 0.0, 1.0]] * 4]))

    assert np.isnan(single.deviations).all() and not single.lags.any()
    assert (zero.values == 0.0).all() and np.isnan(zero.deviations).all()


def test_independent_repetitions_differ_as_much_from_the_next_as_from_the_one_after():
    values = np.random.default_rng(2).normal(100.0, 1.0, (1, 4, 3000))

    neighbours, apart, triples = reduced(values).lags.sum(axis=(0, 1))

    assert triples == 4 * 2998
    assert neighbours / triples == pytest.approx(2.0, rel=0.05)
    assert apart / neighbours == pytest.approx(1.0, rel=0.05)


def test_an_outlier_counts_like_the_largest_usual_scatter():
    rng = np.random.default_rng(3)
    values = rng.normal(100.0, 1.0, (1, 9, 3))
    x = np.arange(1.0, 10.0)[:, None]
    limits = []
    for outlier in (1e3, 1e6):
        values[0, 4, 1] = outlier
        sums = reduced(values, x).lags[0, 4]
        limits.append(sums)
        assert (2 * sums[0] + sums[1]) / 6 == pytest.approx(CLIPPED_TRIPLE**2)
    np.testing.assert_allclose(limits[0], limits[1], atol=0.5)


def test_selected_series_and_points_are_those_of_the_whole():
    series = reduced(measured(), known_variances=np.full((3, 4, 5), 0.01))
    rows, points = np.array([2, 0]), np.array([0, 3])

    selected = series.select(rows).at_points(points)

    for name in FIELDS[1:]:
        expected = getattr(series, name)[rows][:, points]
        np.testing.assert_array_equal(getattr(selected, name), expected)
    np.testing.assert_array_equal(selected.coordinates, X[points])
    np.testing.assert_array_equal(selected.known_variances, series.known_variances[rows][:, points])
    for (x, values), row in zip(series.measured_points(), series.values, strict=True):
        np.testing.assert_array_equal(x, X[~np.isnan(row)])
        np.testing.assert_array_equal(values, row[~np.isnan(row)])


@pytest.mark.parametrize("shape", [(3, 5, 2), (3, 4), (4, 3, 2)])
def test_values_that_do_not_fit_the_coordinates_are_refused(shape):
    with pytest.raises(ModelingError, match="do not fit"):
        reduced(np.ones(shape))
