"""Claims of paper 000, "Off-road performance modeling": how to deal with segmented data [SEG]."""

from fractions import Fraction

import numpy as np
import pytest

import insitu
from insitu.modeling.segmented import Segmented, best_function
from tests.support.parameters import plain_and_full

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


@pytest.mark.parametrize("unit", [1.0, np.pi])
def test_both_functions_of_figure_1_are_exact(unit):
    """[SEG figure 1]: p² up to 5 and 30 + p from 6 on; Extra-P was 62 % off at p = 1024."""
    [model] = insitu.fit(X, [unit * Y])

    (_, _, first), (_, _, last) = model.segments
    assert model.change_points == ((5, 6),)
    assert model.leading([1024.0]) == ((Fraction(1), Fraction(0)),)
    assert np.allclose(first([[3.0], [8.0]]), unit * np.array([9, 64]), rtol=1e-9)
    assert np.allclose(last([[3.0], [1024.0]]), unit * np.array([33, 1054]), rtol=1e-9)
    assert model.predict([1024.0])[0] == pytest.approx(unit * 1054, rel=1e-3)


def test_functions_behind_a_change_are_exact_without_noise():
    """[SEG §2]: exponents 0, 1/2, … 3 and logarithms 0, 1, 2; insitu aims at 85 % or more."""
    random = np.random.default_rng(5)
    x = np.arange(1.0, 11)
    values, exponents = [], []
    for _ in range(60):
        halves = []
        for part in (x[:5], x[5:]):
            alpha, beta = Fraction(int(random.integers(7)), 2), Fraction(int(random.integers(3)))
            constant, factor = 10 ** random.uniform(-2, 3, 2)
            halves.append(constant + factor * part ** float(alpha) * np.log2(part) ** float(beta))
        values.append(np.concatenate(halves))
        exponents.append((alpha, beta))

    models = insitu.fit(x, values)

    exact = []
    for model, expected in zip(models, exponents, strict=True):
        exact.append(bool(model.change_points) and model.leading([40.0])[0] == expected)
    assert np.mean(exact) >= 0.85


@plain_and_full(("modeler", "false_positives"), [("evidence", 0.0), ("segmented", 0.05)])
def test_most_sets_with_five_percent_noise_are_classified_as_in_figure_5(modeler, false_positives):
    """[SEG §4.1, Fig. 5a]: more than 80 % right; tests/evaluation/growth.py has all bars."""
    random = np.random.default_rng(8)
    x = np.arange(1.0, 11)
    values = []
    for i in range(80):
        is_segmented = i < 40
        series = np.empty(10)
        for part in (slice(0, 5), slice(5, 10)) if is_segmented else (slice(0, 10),):
            alpha, beta = random.integers(7) / 2, int(random.integers(3))
            constant, factor = 10 ** random.uniform(-2, 3, 2)
            series[part] = constant + factor * x[part] ** alpha * np.log2(x[part]) ** beta
        values.append(series * (1 + random.uniform(-0.05, 0.05, 10)))

    models = insitu.fit(x, values, modeler=modeler)

    is_found = [len(model.segments) > 1 for model in models]
    assert np.mean(is_found[:40]) > 0.8
    assert np.mean(is_found[40:]) <= false_positives


@pytest.mark.parametrize("modeler", ["evidence", "segmented"])
def test_a_segment_with_too_few_points_is_reported(modeler):
    """[SEG Table 2] prints "not enough points" and asks for new measurements."""
    [model] = insitu.fit(X[:-1], [np.pi * Y[:-1]], modeler=modeler)

    [text] = [finding.text for finding in model.findings if finding.code == "segment-short"]
    last = model.change_points[-1].low
    assert text == f"not enough points behind p={last:.0f}: 4, of 5 needed; measure larger scales"


def noisy(values, count=8, seed=3):
    """Series of the same values with 2 % of noise."""
    rng = np.random.default_rng(seed)
    return values * (1 + rng.uniform(-0.02, 0.02, (count, len(values))))


HOMME = np.array(
    [600, 1176, 2400, 4056, 7776, 11616, 13824, 14406, 15000, 16224, 23814, 31974, 43350, 54150.0]
)
LAPLACE = np.where(HOMME <= 15000, 49.36, 20.8 + 2.3e-7 * HOMME**2)


def test_homme_changes_between_15000_and_16224_processes():
    """[SEG §4.2, Fig. 6a]: laplace_sphere_wk, constant before and quadratic behind."""
    [exact] = insitu.fit(HOMME, [LAPLACE])
    models = insitu.fit(HOMME, noisy(LAPLACE))

    assert str(exact) == "49.36 for p <= 15000; 20.8 + 2.3e-07 * p^2 for p >= 16224"
    assert {model.change_points for model in models} == {((15000, 16224),)}


def test_a_cache_that_is_too_small_shows_between_244_and_295_kilobytes():
    """[SEG §4.2, Fig. 6b]: time per operation, with the change named by the paper."""
    size = np.array([49, 86, 122, 147, 195, 244, 295, 344, 391, 440, 488.0])
    values = np.where(size <= 244, 1.0, 1.8 + 0.001 * size)

    for modeler in ("evidence", "segmented"):
        models = insitu.fit(size, noisy(values), parameters=("kB",), modeler=modeler)
        assert {model.change_points for model in models} == {((244, 295),)}


def test_gather_of_open_mpi_changes_behind_64_processes():
    """[SEG Table 2, Fig. 6d]: six points, three on each side, which the windows cannot locate."""
    p = 2.0 ** np.arange(4, 10)
    values = np.where(p <= 64, -23.3 + 11.17 * np.log2(p), -23.11 + 16.95 * np.sqrt(p))

    models = insitu.fit(p, noisy(values))

    assert {model.change_points for model in models} == {((64, 128),)}
    for model in models:
        assert "segment-short" in {finding.code for finding in model.findings}


@pytest.mark.parametrize(
    ("last", "law"),
    [
        (128, lambda p: 4.80 + 0.06 * p * np.log2(p)),
        (256, lambda p: -1.71 + 5.50 * np.sqrt(p)),
    ],
    ids=["Gather", "Allreduce"],
)
def test_not_enough_points_behind_the_changes_of_intel_mpi(last, law):
    """[SEG Table 2] has no right model there; a further run decides what begins."""
    p = 2.0 ** np.arange(4, 10)
    values = np.where(p <= last, law(p), 3 * law(p))

    [model] = insitu.fit(p, [values])

    codes = {finding.code for finding in model.findings}
    assert codes & {"segment-short", "change-unconfirmed"}
