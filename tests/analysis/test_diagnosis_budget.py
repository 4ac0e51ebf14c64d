"""Diagnosis: weak and strong scaling by what ranks allocate."""

import pytest

from tests.analysis.test_diagnosis import Plan, diagnose


def test_a_matrix_that_two_scales_divide_into_blocks_of_one_size_is_shared():
    blocks = {2: 2e4, 3: 1.4e4, 4: 1e4, 6: 7e3, 8: 7e3, 12: 3.5e3}
    plan: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 5e6 + blocks[p]},
        "tool->main->compress": {"bytes_allocated": lambda p: 5e6},
        "tool->main->assemble": {
            "time_exclusive": lambda p: 0.02,
            "bytes_allocated": blocks.__getitem__,
        },
    }

    assert diagnose(plan, base={}, sampling_s=1e-4).scaling == "unknown"


@pytest.mark.parametrize(("last", "scaling"), [(2.5e6, "mixed"), (3.5e6, "weak")])
def test_arrays_that_are_clearly_smaller_at_the_largest_scale_alone_leave_weak_scaling_open(
    last: float, scaling: str
):
    arrays = {2: 4e6, 3: 3.9e6, 4: 3.8e6, 6: 3.7e6, 8: 3.6e6, 12: last}
    plan: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": arrays.__getitem__},
        "tool->main->solve": {"time_exclusive": lambda p: 1.0},
    }

    assert diagnose(plan, base={}).scaling == scaling


def test_arrays_with_a_part_that_ranks_share_do_not_tell_the_scaling_of_a_script():
    script: Plan = {
        "app.py": {
            "visits": lambda p: 1,
            "time_exclusive": lambda p: 2.0,
            "bytes_allocated": lambda p: 2e7 / p + 4e7,
        },
        "app.py->show": {"visits": lambda p: 5, "time_exclusive": lambda p: 0.001},
    }

    assert diagnose(script, base={}, crowded=True).scaling == "unknown"
