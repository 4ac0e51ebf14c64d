"""An expectation as prior of the hypothesis space; `tests/expectations` checks what follows."""

from fractions import Fraction

import numpy as np
import pytest

from insitu.modeling.evidence.expected_growth import (
    EXPECTED_PRIOR,
    RULER_PRIOR,
    ExpectedGrowth,
    apply_expectation,
)
from insitu.modeling.evidence.hypothesis_space import build_hypothesis_space
from insitu.modeling.pmnf import ZERO, Factor


def growth(alpha, beta=0):
    return Factor("p", Fraction(alpha), Fraction(beta), ZERO)


@pytest.mark.parametrize("ticks", [{}, {growth(1, 1): 2.0, growth(3): 1.0}])
@pytest.mark.parametrize("leading", [growth(0), growth(1), growth(2, 1), growth("7/5")])
def test_the_prior_sums_to_one_and_the_expected_growth_has_its_share(leading, ticks):
    space = apply_expectation(build_hypothesis_space("p"), ExpectedGrowth(leading, ticks))

    terms, pairs = np.exp(space.log_prior_terms), np.exp(space.log_prior_pairs)
    constant = np.exp(space.log_prior_constant)
    assert terms.sum() + pairs.sum() + constant == pytest.approx(1)
    if leading == growth(0):
        assert constant == pytest.approx(EXPECTED_PRIOR)
        return
    index = [shape[0] for shape in space.shapes].index(leading)
    is_beside = (space.pairs == index).any(axis=1)
    assert terms[index] + pairs[is_beside].sum() >= EXPECTED_PRIOR


def test_more_weight_of_a_tick_is_taken_from_all_others_in_proportion():
    leading, first, second = growth(1), growth(1, 1), growth(3)
    general = build_hypothesis_space("p")

    def prior(weights):
        space = apply_expectation(general, ExpectedGrowth(leading, weights))
        probabilities = np.exp(space.log_prior_terms).tolist()
        return dict(zip((shape[0] for shape in space.shapes), probabilities, strict=True))

    even, uneven = prior({first: 1.0, second: 1.0}), prior({first: 3.0, second: 1.0})

    assert even[leading] == pytest.approx(uneven[leading])
    ratio = (uneven[first] - even[first]) / (even[second] - uneven[second])
    assert ratio == pytest.approx(1)
    assert 0 < even[first] < RULER_PRIOR
