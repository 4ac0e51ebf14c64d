"""What views show of measured campaigns is what their reference files say."""

import json

import pytest

from tests.analysis.diagnoses import find_differences
from tests.analysis.results import NAMES, describe_results, reference_file


@pytest.mark.parametrize("name", NAMES)
def test_boards_forecasts_and_predictions_of_a_campaign_are_those_of_its_reference(name: str):
    expected = json.loads(reference_file(name).read_text(encoding="utf-8"))

    assert find_differences(expected, describe_results(name)) == []
