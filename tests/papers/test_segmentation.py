"""Claims of paper 000, "Following the Blind Seer": segmentation [SEG]."""

import numpy as np
import pytest

import insitu
from insitu.modeling.segmented import Segmented, best_function

X = np.arange(1.0, 11)
Y = np.where(X <= 5, X**2, 30 + X)  # the example of §2, Fig. 1
TABLE_1 = [  # model, nRSS
    ("1 * p^2", 0.0),
    ("1 * p^2", 0.0),
    ("-49.41 + 33.45 * p^(1/2)", 0.18),
    ("-28.53 + 23.17 * log2(p)", 0.19),
    ("-6.19 + 14.83 * log2(p)", 0.16),
    ("30 + 1 * p", 0.0),
]


@pytest.mark.parametrize("i", range(6))
def test_models_of_the_windows_are_those_of_table_1(i):
    """[SEG Table 1], to the two digits printed."""
    function = best_function("p", X[i : i + 5], Y[i : i + 5])

    assert str(function).replace("-6.188", "-6.19") == TABLE_1[i][0]


def test_errors_of_the_windows_are_those_of_table_1():
    """[SEG Table 1], to the two digits printed."""
    errors = Segmented().errors("p", X, Y)

    assert [round(error, 2) for error in errors] == [error for _, error in TABLE_1]


def test_the_example_is_segmented_by_the_ratio_of_errors_only():
    """[SEG §3.1]: the maximum is below θ, and ε3 >> 4."""
    errors = Segmented().errors("p", X, Y)

    assert max(errors) < 0.5
    assert Segmented().is_segmented(errors)


def test_the_change_point_of_the_example_is_six():
    """[SEG §3.2]: both functions go through (6, 36); the pattern is 001110."""
    [model] = insitu.fit(X, [Y], modeler="segmented")

    assert model.change_points == ((6, 6),)
    assert [str(segment.function) for segment in model.segments] == ["1 * p^2", "30 + 1 * p"]


def test_four_bad_windows_mean_a_change_between_two_points():
    """[SEG §3.2]: between the third and fourth point of the second of them."""
    assert Segmented().locate([0, 0.2, 0.3, 0.3, 0.2, 0]) == (4, 5)


def test_the_ratio_does_not_count_where_errors_are_small():
    """[SEG §3.1]: it is applied only for 0.1 ≤ nRSS ≤ 0.5."""
    assert not Segmented().is_segmented([1e-9, 0.05, 1e-9, 0.05])


def test_noise_that_lifts_all_errors_is_no_segmentation():
    """[SEG §3.1]: the relative criterion rules it out."""
    assert not Segmented().is_segmented([0.2, 0.3, 0.25, 0.4])


def test_several_changes_are_found_by_recursion():
    """[SEG §3.2]."""
    x = np.arange(1.0, 19)
    y = np.select([x <= 6, x <= 12], [10 + x, 200 + x], 1000 + 50 * x)

    [model] = insitu.fit(x, [y], modeler="segmented")

    assert model.change_points == ((6, 7), (12, 13))


def test_evidence_names_the_common_point_as_the_first_of_the_second_function():
    """Where [SEG §3.2] names the common point, evidence names the gap before it."""
    rng = np.random.default_rng(1)

    models = insitu.fit(X, Y * (1 + rng.uniform(-0.01, 0.01, (10, 10))))

    assert sum(model.change_points == ((5, 6),) for model in models) >= 9
