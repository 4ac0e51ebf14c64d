"""Claims of paper 001, "Following the Blind Seer": iterative refinement [REF]."""

from fractions import Fraction

import numpy as np
import pytest

import insitu
from insitu.modeling.quality import smape
from insitu.modeling.refine import Refine, fit_hypothesis, mediant

X = np.array([2.0, 4, 8, 16, 32])


def test_the_mediant_of_a_half_and_one_is_two_thirds():
    """[REF §3.3]."""
    assert mediant(Fraction(1, 2), Fraction(1)) == Fraction(2, 3)


@pytest.mark.parametrize(
    ("values", "fitted", "error"), [([1, 3], [1, 3], 0.0), ([0, 0], [1, 2], 200.0)]
)
def test_smape_lies_between_0_and_200(values, fitted, error):
    """[REF §3.1]; it does not break down where a value is 0."""
    assert smape(np.array(values, dtype=float), np.array(fitted, dtype=float)) == error


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [
        *(("1", "0"), ("2", "0"), ("3", "0"), ("0", "1"), ("0", "2"), ("1", "1"), ("1/2", "0")),
        *(("3/2", "0"), ("5/2", "0"), ("2/3", "0"), ("4/3", "0"), ("7/3", "0"), ("3/4", "0")),
    ],
)
def test_exponents_are_refined_until_they_fit(alpha, beta):
    """[REF §3.3]: mediants reach every fraction, those with small denominators first."""
    a, b = Fraction(alpha), Fraction(beta)

    [model] = insitu.fit(X, [5 + 2 * X ** float(a) * np.log2(X) ** float(b)], modeler="refine")

    assert model.leading([128]) == ((a, b),)


def test_what_is_not_twice_as_good_as_the_constant_is_constant():
    """[REF §3.3, step 3]."""
    values = 100 * np.array([1.00, 1.02, 0.99, 1.01, 1.02])

    default, eager = (
        insitu.fit(X, [values], modeler=Refine(non_constancy=limit))[0] for limit in (2.0, 1.0)
    )

    assert not default.function.terms
    assert eager.function.terms


def test_a_finer_exponent_must_improve_smape_by_half():
    """[REF §3.3, step 2]: acceptance threshold 1.5."""
    rng = np.random.default_rng(4)
    values = (5 + X**1.02) * (1 + rng.uniform(-0.02, 0.02, X.shape))

    default, eager = (
        insitu.fit(X, [values], modeler=Refine(acceptance=limit))[0] for limit in (1.5, 1.0)
    )

    assert default.leading([128])[0][0].denominator == 1
    assert eager.leading([128]) != default.leading([128])


GRID = np.array([(p, n) for p in (4.0, 8, 16, 32, 64) for n in (10.0, 20, 40, 80, 160)])
SEVERAL = {
    "sum": lambda p, n: 5 + 2 * p + 0.3 * n**2,
    "product": lambda p, n: 1 + 0.5 * p**0.5 * n,
    "both": lambda p, n: 3 + 2 * n + 0.1 * n * np.log2(p),
    "one only": lambda p, n: 7 + 0.2 * n * np.log2(n),
    "constant": lambda p, n: 7 + 0 * p,
}


@pytest.mark.parametrize("law", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_functions_of_several_parameters_combine_those_of_each(law, is_sparse):
    """[REF §3]: "a drop-in replacement in the multi-parameter scenario"."""
    is_on_line = (GRID[:, 0] == 4) | (GRID[:, 1] == 10) | (GRID == (16.0, 40.0)).all(axis=1)
    points = GRID[is_on_line] if is_sparse else GRID
    target = np.array([[256.0, 640.0]])

    [model] = insitu.fit(points, [law(*points.T)], parameters=("p", "n"), modeler="refine")

    assert model.predict(target)[0] == pytest.approx(law(*target.T)[0], rel=1e-6)


STEP = 1 / 40  # of the exponents in the figure
KERNELS = {  # as those of the figure: a power, a logarithm, both
    "power": lambda x: 5 + 2 * x**1.5,
    "logarithm": lambda x: 3 + 4 * np.log2(x) ** 2,
    "both": lambda x: 1 + 0.3 * x * np.log2(x),
}


def error_of(values, alpha, beta):
    """The RSS of the fitted function with these exponents."""
    hypothesis = fit_hypothesis(
        "x", X, values, Fraction(alpha).limit_denominator(40), Fraction(beta).limit_denominator(40)
    )
    return np.inf if hypothesis is None else hypothesis.rss


def is_unimodal(errors):
    """Whether values fall up to their minimum and rise from there on, but for rounding."""
    errors = np.asarray(errors)
    least = int(errors.argmin())
    rounding = 1e-9 * errors[np.isfinite(errors)].max()
    steps = np.diff(errors)
    return bool((steps[:least] <= rounding).all() and (steps[least:] >= -rounding).all())


@pytest.mark.parametrize("law", KERNELS.values(), ids=KERNELS)
def test_the_errors_of_figure_1_have_one_valley(law):
    """[REF §3.2, Fig. 1]: unimodal over α for each β, and over β for α = 0.

    The exponents with the smallest error run upwards and to the left, towards the axis α = 0.
    """
    values = law(X)
    alphas = np.arange(STEP, 6, STEP)

    best = []
    for beta in (0.0, 1.0, 2.0):
        errors = [error_of(values, alpha, beta) for alpha in alphas]
        assert is_unimodal(errors)
        best.append(alphas[int(np.argmin(errors))])
    assert is_unimodal([error_of(values, 0.0, beta) for beta in np.arange(STEP, 3, STEP)])
    assert best[0] >= best[1] >= best[2]


def test_more_models_are_constant_than_with_the_smallest_error():
    """[REF §4.2]: the share of constant models rose "from 44% to 76% overall"."""
    rng = np.random.default_rng(8)
    constants = 100 * (1 + rng.uniform(-0.05, 0.05, (40, 5)))
    growing = (5 + X) * (1 + rng.uniform(-0.05, 0.05, (20, 5)))

    share = {}
    for name, modeler in {"eager": Refine(non_constancy=1.0), "refine": "refine"}.items():
        models = insitu.fit(X, np.vstack([constants, growing]), modeler=modeler)
        share[name] = np.mean([not model.function.terms for model in models])
    evidence = insitu.fit(X, np.vstack([constants, growing]))
    share["evidence"] = np.mean([not model.function.terms for model in evidence])

    assert share["eager"] < 0.1 < share["refine"] <= 2 / 3
    assert share["evidence"] == pytest.approx(2 / 3, abs=0.02)
