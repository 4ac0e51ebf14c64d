"""Expectations of the growth of a program, and whether measurements meet them [VAL].

`insitu.expectations.validate(points, values, "O(p log p)")` judges arrays.
"""

from insitu.expectations.limits import Expectation, expect
from insitu.expectations.validate import Match, Verdict, validate

__all__ = ["Expectation", "Match", "Verdict", "expect", "validate"]
