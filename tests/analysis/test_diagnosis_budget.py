"""Diagnosis: weak and strong scaling by what ranks allocate, and by their times."""

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


@pytest.mark.parametrize(
    ("shared", "scaling"),
    [
        (lambda p: 0.0, "weak"),
        (lambda p: 4e5 / p, "weak"),
        (lambda p: 3e6 / p, "unknown"),
        (lambda p: 3e6 / p**0.5, "unknown"),  # by no law of shared data and constant ones
    ],
)
def test_constant_buffers_hide_no_data_that_ranks_share(shared, scaling) -> None:
    """As in NPB's LU and a multiplication of matrices, of which few samples were taken."""
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 4e6 + shared(p)},
        "tool->main->solve": {"time_exclusive": lambda p: 0.02},
    }

    assert diagnose(tool, base={}, sampling_s=1e-4).scaling == scaling


@pytest.mark.parametrize(("crowded", "scaling"), [(True, "mixed"), (False, "weak")])
def test_times_on_shared_cores_are_no_weak_scaling_where_ranks_have_ever_less_data(
    crowded, scaling
) -> None:
    # As a transposed matrix of a fixed size, besides what the same functions of numpy allocate.
    script: Plan = {
        "app.py": {
            "visits": lambda p: 1,
            "bytes_allocated": lambda p: 2.4e7 + 1.6e7 / p**0.5 + 1e5 * (p % 3),
        },
        "app.py->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.1},
    }

    assert diagnose(script, base={}, crowded=crowded).scaling == scaling


@pytest.mark.parametrize(
    ("samples", "scaling"),
    [
        ((2, 3, 4, 6, 8, 12), "weak"),
        ((3, 7, 2, 4, 9, 8), "unknown"),  # 20 times as likely with p would be weak
    ],
)
def test_few_samples_that_may_be_as_many_at_all_scales_are_no_weak_scaling(samples, scaling):
    scales = (2, 3, 4, 6, 8, 12)
    tool: Plan = {
        "tool": {"visits": lambda p: 1, "bytes_allocated": lambda p: 5e6},
        "tool->main->solve": {
            "time_exclusive": lambda p: dict(zip(scales, samples, strict=True))[p] / 97 / p
        },
    }

    assert diagnose(tool, scales, base={}, sampling_s=1 / 97).scaling == scaling
