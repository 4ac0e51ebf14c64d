"""Diagnosis: exact laws and quantities as text."""

import pytest

from insitu.analysis.diagnosis.laws import TERMS, ExactLaw, LawFactor, bytes_text


def test_a_product_of_laws_has_each_factor_in_parentheses():
    linear = TERMS[0]
    law = ExactLaw((LawFactor(1.0, 2.0, linear), LawFactor(3.0, 4.0, linear)), 5, 5)

    assert law.text("1") == "(2 p + 1) * (4 p + 3)"
    assert law.text("B", "n") == "(2 B * n + 1 B) * (4 n + 3)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.4, "999 B"),
        (999.5, "1 kB"),
        (999.5e3, "1 MB"),
        (999.5e6, "1 GB"),
        (999.5e9, "1 TB"),
        (-2e12, "-2 TB"),
    ],
)
def test_bytes_have_the_next_prefix_from_where_three_digits_round_up(value: float, text: str):
    assert bytes_text(value) == text
