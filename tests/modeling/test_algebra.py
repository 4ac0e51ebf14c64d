"""Arithmetic of functions."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import insitu
from insitu.errors import ModelingError
from insitu.modeling.algebra import (
    add,
    crossings,
    derivative,
    growth,
    latex_of,
    multiply,
    python_of,
    to_latex,
)
from insitu.modeling.base import Segment
from insitu.modeling.pmnf import Factor, Function, Term

HALF = Fraction(1, 2)
P = np.array([2.0, 3, 8, 100])
LOG = Function(("p",), 2.0, (Term(3.0, (Factor("p", HALF, Fraction(1)),)),))
LINEAR = Function(("p",), 1.0, (Term(0.5, (Factor("p", Fraction(1)),)),))
EXPONENTIAL = Function(("p",), 0.0, (Term(0.1, (Factor("p", gamma=HALF),)),))


@pytest.mark.parametrize("a", [LOG, LINEAR, EXPONENTIAL])
@pytest.mark.parametrize("b", [LOG, LINEAR, EXPONENTIAL])
def test_sum_and_product_are_those_of_the_values(a, b):
    assert add(a, b)(P) == pytest.approx(a(P) + b(P), rel=1e-14)
    assert multiply(a, b)(P) == pytest.approx(a(P) * b(P), rel=1e-14)


def test_sums_of_different_parameters_have_both():
    other = Function(("n",), 0.0, (Term(2.0, (Factor("n", Fraction(2)),)),))

    assert multiply(LINEAR, other)([[4.0, 3.0]]) == pytest.approx([3.0 * 18.0])


@pytest.mark.parametrize("function", [LOG, LINEAR, EXPONENTIAL, multiply(LOG, EXPONENTIAL)])
def test_the_derivative_is_the_limit_of_differences(function):
    step = 1e-5  # central differences: error of the order of step²

    differences = (function(P + step) - function(P - step)) / (2 * step)

    assert derivative(function, "p")(P) == pytest.approx(differences, rel=1e-6)


def test_a_derivative_needs_a_parameter_of_the_function():
    with pytest.raises(ModelingError, match="no parameter 'n'"):
        derivative(LINEAR, "n")


def test_growth_is_ordered():
    assert growth(LOG, "p") < growth(LINEAR, "p") < growth(EXPONENTIAL, "p")


def test_the_latex_formula_reads_well():
    assert to_latex(LOG) == r"2 + 3 \cdot p^{1/2} \cdot \log_2 p"
    assert to_latex(EXPONENTIAL) == r"0.1 \cdot 2^{\frac{1}{2} p}"


def models_with_a_change():
    x = np.arange(1.0, 13)
    values = [np.where(x <= 6, 5.0, 3 * x**2), 40 + 0.0 * x]
    return x, insitu.fit(x, values, modeler="evidence")


def test_models_cross_where_one_overtakes_the_other_also_by_a_change_of_behaviour():
    _, (jumping, constant) = models_with_a_change()

    [crossing] = crossings(jumping, constant, 1, 100)

    assert jumping.change_points[0].low <= crossing <= jumping.change_points[0].high


def test_models_of_several_parameters_cross_along_the_one_that_is_free():
    grid = np.array([(p, n) for p in (4.0, 8, 16, 32, 64) for n in (10.0, 20, 40, 80, 160)])
    p, n = grid.T
    communication, compute = insitu.fit(grid, [p * n, n**2], parameters=("p", "n"))

    assert crossings(communication, compute, 1, 1e4, at={"n": 640}) == pytest.approx(
        (640,), rel=0.05
    )
    with pytest.raises(ModelingError, match="fix all parameters but one"):
        crossings(communication, compute, 1, 1e4)


@pytest.mark.parametrize("function", [LOG, LINEAR, EXPONENTIAL])
def test_the_python_expression_gives_the_same_values(function):
    model = replace(models_with_a_change()[1][1], segments=(Segment(1.0, np.inf, function),))

    assert eval(python_of(model), {"np": np, "p": P}) == pytest.approx(function(P), rel=1e-14)


def test_formulas_of_segmented_models_have_all_segments():
    x, [jumping, _] = models_with_a_change()

    first, second = jumping.segments
    printed = np.where(x <= first.upper, first.function(x[:, None]), second.function(x[:, None]))
    assert eval(python_of(jumping), {"np": np, "p": x}) == pytest.approx(printed)
    assert latex_of(jumping).startswith(r"\begin{cases} 5 & p \le 6 \\ ")


@pytest.mark.parametrize("bounds", [(1.0, 64.0), (0.25, 1.0)])
def test_models_that_cross_at_an_end_cross_once(bounds: tuple[float, float]):
    [fitted] = insitu.fit([1, 2, 4, 8, 16], [1, 2, 4, 8, 16], modeler="search")
    line = Function(("p",), 0.0, (Term(1.0, (Factor("p", Fraction(1)),)),))
    growing, constant = (
        replace(fitted, segments=(Segment(-np.inf, np.inf, function),), spreads=())
        for function in (line, Function(("p",), 1.0))
    )

    assert crossings(growing, constant, *bounds) == (1.0,)
