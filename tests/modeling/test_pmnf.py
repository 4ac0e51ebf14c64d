"""Functions in the performance model normal form."""

import json
from fractions import Fraction

import numpy as np
import pytest

from insitu.errors import ModelingError
from insitu.modeling.pmnf import Factor, Function, Term

HALF = Fraction(1, 2)
SQRT_LOG = Function(("p",), 12.0, (Term(0.4, (Factor("p", HALF, Fraction(1)),)),))


def test_a_function_reads_like_a_formula():
    assert str(SQRT_LOG) == "12 + 0.4 * p^(1/2) * log2(p)"


@pytest.mark.parametrize(
    ("exponent", "text"),
    [("11/53", "p^0.208"), ("-49/43", "p^(-1.14)"), ("7/3", "p^(7/3)"), ("2", "p^2")],
)
def test_exponents_that_are_no_simple_fractions_are_printed_as_decimals(exponent, text):
    assert str(Function(("p",), 0.0, (Term(3.0, (Factor("p", Fraction(exponent)),)),))) == (
        f"3 * {text}"
    )


def test_a_function_is_evaluated_at_points():
    assert SQRT_LOG([4, 16]).tolist() == pytest.approx([12 + 0.4 * 4, 12 + 0.4 * 16], rel=1e-15)


def test_a_function_survives_json_exactly():
    function = Function(
        ("p", "n"), 0.1, (Term(1 / 3, (Factor("p", -HALF), Factor("n", gamma=HALF))),)
    )

    assert Function.from_dict(json.loads(json.dumps(function.to_dict()))) == function


def test_exponents_are_text_in_json():
    [term] = SQRT_LOG.to_dict()["terms"]

    assert term["factors"] == [{"parameter": "p", "exponent": "1/2", "log": "1"}]


def test_the_leading_term_is_the_largest_at_a_point():
    linear, log = (
        Term(1.0, (Factor("p", Fraction(1)),)),
        Term(9.0, (Factor("p", beta=Fraction(1)),)),
    )
    function = Function(("p",), 0.0, (linear, log))

    assert [function.leading_term([x]) for x in (4, 1024)] == [log, linear]


def test_a_leading_term_may_fall_whatever_the_constant_is():
    falling, growing = (
        Term(-3.0, (Factor("p", Fraction(1)),)),
        Term(2.0, (Factor("p", Fraction(1)),)),
    )

    for constant in (0.0, 2.0, 1e6):
        assert Function(("p",), constant, (growing, falling)).leading_term([1]) is falling


def test_a_logarithm_below_one_counts_as_zero():
    assert np.array_equal(SQRT_LOG([0.5, 1]), [12.0, 12.0])


def test_points_of_another_shape_are_refused():
    with pytest.raises(ModelingError, match="do not fit the parameters p"):
        SQRT_LOG([[1.0, 2.0]])
