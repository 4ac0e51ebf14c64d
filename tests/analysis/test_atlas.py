"""Diagnosis: of programs in which one quantity follows a law, what the reference file says."""

import json
from functools import cache

import pytest

from tests.analysis.atlas import QUANTITIES, REFERENCE, describe_quantity
from tests.analysis.diagnoses import find_differences


@cache
def read_reference() -> dict[str, list[dict[str, object]]]:
    content: dict[str, list[dict[str, object]]] = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_quantity_with_a_known_law_is_judged_as_its_reference_says(quantity: str):
    prefix = f"{quantity}: "
    expected = {name: rows for name, rows in read_reference().items() if name.startswith(prefix)}

    assert expected
    assert find_differences(expected, describe_quantity(quantity)) == []
