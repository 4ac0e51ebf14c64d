"""Fits of pairs of terms for series that lack points."""

import numpy as np

from insitu.modeling.evidence.combination_fits import misfit_of_pairs


def test_a_line_without_points_has_no_misfit_and_overflows_nothing():
    x = np.array([2.0, 4.0, 8.0, 16.0])
    terms = np.stack([x, x**2, np.log2(x)])
    weights = np.array([np.zeros(4), np.ones(4)])
    values = np.stack([np.zeros(4), x + x**2])

    with np.errstate(all="raise"):
        misfits = misfit_of_pairs(terms, np.array([[0, 1], [0, 2]]), weights, values)

    np.testing.assert_allclose(misfits[0], 0.0)
    assert misfits[1, 0] < 1e-6 < misfits[1, 1]
