"""Diagnosis: real programs that were measured are judged as their reference files say."""

import json

import pytest

from tests.analysis.diagnoses import (
    describe_kept,
    find_differences,
    kept_names,
    load_kept,
    reference_file,
)
from tests.analysis.soundness import find_faults


@pytest.mark.parametrize("name", kept_names())
def test_a_measured_program_is_judged_as_its_reference_says(name: str):
    expected = json.loads(reference_file(name).read_text(encoding="utf-8"))

    assert find_differences(expected, describe_kept(name)) == []


@pytest.mark.parametrize("name", kept_names())
def test_statements_about_a_measured_program_are_sound(name: str):
    measured = load_kept(name)

    assert find_faults(measured.diagnose(), measured.sites) == []
