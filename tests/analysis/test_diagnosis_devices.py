"""GPUs in a diagnosis: work that grows is found, and what the devices did is said."""

import pytest

from insitu.analysis.diagnosis.budget import LEAST_BUDGET_S, ONCE_BUDGET_S
from tests.analysis.programs import diagnose, only_limit

SCALES = (2, 3, 4, 6, 8, 12, 32, 48)  # a kernel per neighbour ends at 26
ROOT = {
    "visits": lambda p: 1,
    "time": lambda p: 10.0,
    "time_exclusive": lambda p: 0.1,
    "device_busy": lambda p: 2.0,
    "device_idle": lambda p: 0.6,
}


def device(visits, seconds, copied=None):
    """What a GPU does at p ranks, by functions of p."""
    values = {"visits": visits, "device_time": seconds}
    return values | ({"bytes_copied": copied} if copied else {})


def kernels(p_visits):
    return device(p_visits, lambda p: 1e-3 * p_visits(p))


def test_kernels_that_a_rank_launches_for_every_other_are_a_limit():
    plan = {"app": ROOT, "app->main->step->pack<double>": kernels(lambda p: 100 * p)}

    limit = only_limit(diagnose(plan, SCALES))

    assert (limit.kind, limit.name, limit.law) == ("gpu", "step", "100 p")
    assert limit.text.startswith("each rank launches pack<double> 100 p times")
    assert limit.seconds == pytest.approx(100 * 65_536 * 1e-3)


def test_on_few_ranks_kernels_may_be_one_per_neighbour():
    plan = {"app": ROOT, "app->main->step->pack<double>": kernels(lambda p: 100 * (p - 1))}

    diagnosis = diagnose(plan, (1, 2, 4, 8))

    assert not diagnosis.limits
    assert any("pack<double>" in entry.text for entry in diagnosis.not_judged)


def test_copies_that_grow_are_a_limit_by_their_bytes():
    copies = device(lambda p: 10, lambda p: 1e-3 * p, lambda p: 8e6 * p)
    plan = {"app": ROOT, "app->main->gather->CUDA copy device to host": copies}

    limit = only_limit(diagnose(plan, SCALES))

    assert (limit.kind, limit.name, limit.metric) == ("gpu", "gather", "bytes_copied")
    assert limit.seconds == pytest.approx(1e-3 * 65_536)


def test_copies_that_are_more_and_larger_are_a_limit_by_their_bytes():
    """Neither law alone is that of the bytes, which are the product of both."""
    copies = device(
        lambda p: 3 * p + 2, lambda p: 1e-9 * p**2, lambda p: (3 * p + 2) * 8e3 * (7 * p + 5)
    )
    plan = {"app": ROOT, "app->main->gather->CUDA copy device to host": copies}

    limit = only_limit(diagnose(plan, SCALES))

    assert limit.metric == "bytes_copied"
    assert limit.then == pytest.approx((3 * 65_536 + 2) * 8e3 * (7 * 65_536 + 5))


def test_a_caller_that_is_visited_once_may_take_longer_than_one_in_a_loop():
    severities = {}
    for visits in (1, 100):
        plan = {
            "app": {**ROOT, "time": lambda p: 0.01},
            "app->main->step": {"visits": lambda p, visits=visits: visits},
            "app->main->step->pack<double>": kernels(lambda p: 2 * p),
        }
        severities[visits] = only_limit(diagnose(plan, SCALES)).severity

    assert severities[1] == pytest.approx(severities[100] * LEAST_BUDGET_S / ONCE_BUDGET_S)


def test_work_that_does_not_grow_is_no_limit():
    plan = {"app": ROOT, "app->main->step->advance": kernels(lambda p: 100)}

    diagnosis = diagnose(plan, SCALES)

    assert not diagnosis.limits
    assert diagnosis.notes[0] == (
        "GPUs: idle 60 % of the time at p = 48, 0 % of their work is copies"
    )


def test_the_scale_from_which_copies_take_longer_than_kernels():
    copies = device(lambda p: 10, lambda p: 0.02 * p, lambda p: 8e3)
    plan = {
        "app": ROOT,
        "app->main->step->advance": kernels(lambda p: 100),
        "app->main->step->CUDA copy device to host": copies,
    }

    note, _ = diagnose(plan, SCALES).notes

    assert note.endswith("91 % of their work is copies, more than kernels from p = 6 on")
