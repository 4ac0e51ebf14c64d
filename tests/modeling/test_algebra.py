"""Arithmetic of functions."""

from fractions import Fraction

import numpy as np
import pytest

from insitu.errors import ModelingError
from insitu.modeling.algebra import (
    add,
    crossings,
    derivative,
    growth,
    multiply,
    to_latex,
    to_python,
)
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


def test_functions_cross_where_they_are_equal():
    square = Function(("p",), 0.0, (Term(1.0, (Factor("p", Fraction(2)),)),))
    tenfold = Function(("p",), 0.0, (Term(10.0, (Factor("p", Fraction(1)),)),))

    assert crossings(square, tenfold, 1, 1000) == pytest.approx((10.0,), rel=1e-12)
    assert crossings(square, tenfold, 20, 1000) == ()


def test_growth_is_ordered():
    assert growth(LOG, "p") < growth(LINEAR, "p") < growth(EXPONENTIAL, "p")


def test_the_python_expression_gives_the_same_values():
    for function in (LOG, LINEAR, EXPONENTIAL):
        values = eval(to_python(function), {"np": np, "p": P})
        assert values == pytest.approx(function(P), rel=1e-14)


def test_the_latex_formula_reads_well():
    assert to_latex(LOG) == r"2 + 3 \cdot p^{1/2} \cdot \log_2 p"
    assert to_latex(EXPONENTIAL) == r"0.1 \cdot 2^{\frac{1}{2} p}"
