"""Diagnosis: a law in a program without other limits is its first statement."""

from itertools import count, islice

import pytest

from tests.evaluation.healthy import Program
from tests.evaluation.planted import PLANTS, judge, plant

# The root of p is rounded to whole visits: few scales leave several laws.
DOUBTS = {"root": ("first", "first, unclear")}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_law_is_the_first_statement(name: str) -> None:
    programs = (program for program in map(Program, count()) if is_told(program.scales))
    for program in islice(programs, 3):
        plant(program, name)
        assert judge(program, name) in DOUBTS.get(name, ("first",)), program.scales


def is_told(scales: tuple[int, ...]) -> bool:
    """Whether these numbers of ranks tell laws from each other and from neighbours in a grid."""
    return len(scales) >= 5 and scales[-1] >= 12
