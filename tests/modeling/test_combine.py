"""Functions of several parameters from those of one, and the space that modeler "search" has."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

from insitu.modeling.combine import combine_parameters
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Factor, Function, Term
from insitu.modeling.search_space import combine_parameters as combine_space

POINTS = np.array(list(product((2.0, 4.0, 8.0), (1.0, 3.0, 9.0))))
BELL = {1: 1, 2: 2, 3: 5, 4: 15}  # partitions of so many items


def linear(parameter: str, x: FloatArray, y: FloatArray) -> Function:
    """A term of each parameter along which the averages change."""
    is_constant = len(y) == 0 or np.ptp(y) == 0
    terms = () if is_constant else (Term(1.0, (Factor(parameter, Fraction(1)),)),)
    return Function((parameter,), 0.0, terms)


@pytest.mark.parametrize(
    ("law", "constant", "terms"),
    [
        (lambda p, n: 2 + 3 * p * n, 2.0, [(3.0, ("p", "n"))]),
        (lambda p, n: 2 + 3 * p + 5 * n, 2.0, [(3.0, ("p",)), (5.0, ("n",))]),
        (lambda p, n: 7 + 4 * n + 0 * p, 7.0, [(4.0, ("n",))]),
        (lambda p, n: 6.0 + 0 * p, 6.0, []),
    ],
    ids=("product", "sum", "one parameter", "constant"),
)
def test_the_combination_that_fits_is_chosen(law: Callable, constant: float, terms: list):
    values = law(*POINTS.T)

    found = combine_parameters(("p", "n"), POINTS, values, linear)

    assert found.parameters == ("p", "n")
    assert found.constant == pytest.approx(constant)
    shown = [
        (term.coefficient, tuple(factor.parameter for factor in term.factors))
        for term in found.terms
    ]
    assert [names for _, names in shown] == [names for _, names in terms]
    assert [c for c, _ in shown] == pytest.approx([c for c, _ in terms])


def test_the_constant_without_growth_is_the_mean():
    values = np.arange(9.0)

    found = combine_parameters(
        ("p", "n"), POINTS, values, lambda name, x, y: Function((name,), 0.0)
    )

    assert (found.constant, found.terms) == (4.0, ())


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_space_has_each_partition_of_each_subset_of_parameters(count: int):
    names = tuple("abcd"[:count])
    simple = [[(Factor(name, Fraction(1)),)] for name in names]

    space = combine_space(names, simple)

    subsets = sum(BELL[size] * comb(count, size) for size in range(1, count + 1))
    assert len(space.hypotheses) == len(set(space.hypotheses)) == 1 + subsets
