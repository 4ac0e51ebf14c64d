"""Least squares lose no digits, whatever the scales of values and columns."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import insitu
from insitu.modeling.evidence import noise
from insitu.modeling.evidence.hypothesis_space import build_hypothesis_space
from insitu.modeling.evidence.posterior import fit_hypotheses
from insitu.modeling.evidence.relative_data import scale_errors
from insitu.modeling.orthogonal import solve_orthogonally

X = 2.0 ** np.arange(1, 9)
WIDE = 10.0 ** np.arange(9)
EXPONENTS = (0.0, -1.0, 0.5, 1.0, 1.5, 2.0, 3.0)
LOGARITHMS = st.floats(-12, 12, allow_nan=False)  # of values between 1e-12 and 1e12


def solve_exactly(columns, right):
    """Solve normal equations in rational arithmetic: (c, n) and (n,) to (c,)."""
    columns = [[Fraction(value) for value in column] for column in columns]
    right = [Fraction(value) for value in right]
    equations = []
    for column in columns:
        row = [sum(a * b for a, b in zip(column, other, strict=True)) for other in columns]
        equations.append([*row, sum(a * b for a, b in zip(column, right, strict=True))])

    for k, pivot_row in enumerate(equations):
        for i, row in enumerate(equations):
            if i != k:
                factor = row[k] / pivot_row[k]
                equations[i] = [a - factor * b for a, b in zip(row, pivot_row, strict=True)]
    return [row[-1] / row[k] for k, row in enumerate(equations)]


def largest_error(columns, right, coefficients):
    """The largest error of the fitted function, relative to its terms or the value."""
    exact = solve_exactly(columns, right)
    errors = []
    for column, value in zip(np.transpose(columns), right, strict=True):
        terms = [c * Fraction(t) for c, t in zip(exact, column, strict=True)]
        computed = sum(Fraction(c) * Fraction(t) for c, t in zip(coefficients, column, strict=True))
        size = max(abs(Fraction(value)), sum(abs(term) for term in terms))
        errors.append(float(abs(computed - sum(terms)) / size))
    return max(errors)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(LOGARITHMS, min_size=4, max_size=8),
    st.lists(st.sampled_from(EXPONENTS), min_size=1, max_size=3, unique=True),
)
def test_solutions_equal_those_of_rational_arithmetic(logarithms, exponents):
    values = 10.0 ** np.array(logarithms)
    columns = np.array([X[: len(values)] ** exponent for exponent in exponents]) / values
    right = np.ones(len(values))

    fits = solve_orthogonally(columns[None], right[None])

    # Rounding of 8 points and 3 columns is below 1e-14.
    assert fits.is_independent[0]
    assert largest_error(columns, right, fits.coefficients[0]) < 1e-13


def test_columns_that_depend_on_each_other_are_reported():
    columns = np.stack([X, 3 * X, X + 1])

    fits = solve_orthogonally(np.stack([columns, columns[[0, 2, 2]]]), np.ones((2, len(X))))

    assert not fits.is_independent.any()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(LOGARITHMS, min_size=5, max_size=8))
def test_candidates_of_the_default_modeler_equal_rational_arithmetic(logarithms):
    values = np.sort(10.0 ** np.array(logarithms))[None]
    x = X[: values.shape[1]]
    space = build_hypothesis_space("p")
    terms = space.evaluate_terms(x)
    terms /= terms.max(axis=1, keepdims=True)
    relative = values / values.max()
    data = scale_errors(terms, np.ones_like(values), relative, relative)

    candidates = fit_hypotheses(data, space, noise.LEVELS)

    for h in np.flatnonzero(np.isfinite(candidates.log_evidence[0, :, 0])).tolist():
        chosen = [i for i in (candidates.first[0, h], candidates.second[0, h]) if i >= 0]
        coefficients = [c[0, h] for c in candidates.coefficients]
        columns = [np.ones_like(x), *terms[chosen]]
        if coefficients[0] == 0:
            columns, coefficients = columns[1:], coefficients[1:]
        columns = np.array(columns) / relative[0]
        coefficients = coefficients[: len(columns)]
        if 0.0 in coefficients:
            continue  # negative by rounding only, so it was set to zero

        assert largest_error(columns, np.ones_like(x), coefficients) < 1e-9


@pytest.mark.parametrize("modeler", ["evidence", "search", "refine", "segmented"])
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_the_scale_of_a_series_does_not_matter(modeler, scale):
    x = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    values = (
        np.pi
        * np.array([3 + 0.5 * x**1.5, 7 + 0 * x, 2 * x + 100])
        * 1.01 ** np.array([1, 0, 2, 0, 1, 2])
    )

    plain = insitu.fit(x, values, modeler=modeler)
    scaled = insitu.fit(x, scale * values, modeler=modeler)

    for first, second in zip(plain, scaled, strict=True):
        assert first.leading([256.0]) == second.leading([256.0])
        assert np.allclose(scale * first.predict([256.0]), second.predict([256.0]), rtol=1e-9)


@pytest.mark.parametrize("truth", [1e-12 + 1e-12 * WIDE**3, 1e12 / WIDE**2 + 1e-4, 1e-12 * WIDE**3])
def test_a_series_from_1e_minus_12_to_1e12_is_named_exactly(truth):
    model = insitu.fit(WIDE, [truth])[0]

    assert np.allclose(model.function(WIDE[:, None]) / truth, 1, rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "span",
    [1e200, *(pytest.param(span, marks=pytest.mark.full) for span in (1e20, 1e30, 1e60, 1e100))],
)
def test_values_of_any_range_overflow_nowhere(span):
    random = np.random.default_rng(30)
    for n_points, repetitions in ((5, 2), (8, 1), (10, 2)):
        x = 2.0 ** np.arange(1, n_points + 1)
        exponents = random.uniform(-0.5, 0.5, (6, n_points, repetitions))
        values = span**exponents
        values[:2].sort(axis=1)
        values[0, 2] = 0.0

        models = [model for row in values for model in insitu.fit(x, row[None])]
        models += insitu.fit(x, values)

        assert all(np.isfinite(model.function(x)).all() for model in models)
