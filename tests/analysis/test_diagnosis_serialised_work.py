"""Diagnosis: ranks that work one after the other, while all others wait."""

import numpy as np
import pytest

from tests.analysis.programs import SCALES, Plan, Vector, diagnose, on_rank_0

ENCODE_S = 0.05


def frames(delays: Vector, seconds: Vector = lambda p: ENCODE_S) -> Plan:
    """Each rank encodes some frames, and a rank waits for the frame before the next one."""
    return {
        "app->main->encode": {
            "visits": lambda p: 144 // p,
            "time_exclusive": seconds,
            "delay_cost": delays,
        },
    }


def test_work_for_which_all_others_wait_is_one_after_the_other() -> None:
    """rotating.c of tests/evaluation, with six times the steps."""
    plan = frames(lambda p: 0.9 * ENCODE_S * (p - 1))

    diagnosis = diagnose(plan, crowded=True)

    (statement,) = [entry for entry in diagnosis.statements if entry.metric == "delay_cost"]
    assert (statement.kind, statement.status, statement.name) == ("waiting", "unclear", "encode")
    assert "all others wait for 90 % of the time of each" in statement.text
    assert statement.text.endswith("600 ms of all ranks at p = 12")


@pytest.mark.parametrize(
    "plan",
    [
        frames(lambda p: 0.4 * ENCODE_S * (p - 1)),  # at the same time, on few cores
        # One rank, and all others wait for it.
        frames(lambda p: on_rank_0(0.6 * (p - 1), p), lambda p: on_rank_0(0.05 * p, p)),
        # As much in all ranks together, however many there are.
        frames(lambda p: 0.6 * (p - 1) / p, lambda p: np.full(p, 0.6 / p)),
    ],
)
def test_other_work_for_which_ranks_wait_is_not(plan: Plan) -> None:
    diagnosis = diagnose(plan, crowded=True)

    assert not any("one after the other" in entry.text for entry in diagnosis.statements)


def is_named(plan: Plan, scales: tuple[int, ...] = SCALES) -> bool:
    statements = diagnose(plan, scales, crowded=True).statements
    return any("one after the other" in entry.text for entry in statements)


@pytest.mark.parametrize(
    ("scales", "is_telling"),
    [
        ((3, 4, 8), True),
        ((2, 4, 8), False),
        ((2, 3, 4, 8), True),
        ((4, 8), False),
        ((3, 4, 7), False),
    ],
)
def test_three_scales_above_two_ranks_and_eight_ranks_tell_it(scales, is_telling: bool) -> None:
    plan = frames(lambda p: 0.9 * ENCODE_S * (p - 1))

    assert is_named(plan, scales) == is_telling


@pytest.mark.parametrize(("share", "is_one"), [(0.76, True), (0.74, False)])
def test_each_other_rank_waits_for_three_quarters_of_the_work(share: float, is_one: bool) -> None:
    assert is_named(frames(lambda p: share * ENCODE_S * (p - 1))) == is_one


@pytest.mark.parametrize(("part", "is_one"), [(0.5, True), (0.4, False)])
def test_half_of_the_ranks_take_part_in_it(part: float, is_one: bool) -> None:
    def seconds(p: int) -> np.ndarray:
        return np.where(np.arange(p) < part * p, ENCODE_S, 0.0)

    plan = frames(lambda p: 0.9 * seconds(p).sum() * (p - 1) / p, seconds)

    assert is_named(plan) == is_one


@pytest.mark.parametrize(("share", "is_one"), [(0.45, True), (0.55, False)])
def test_more_than_half_of_it_on_one_rank_is_the_work_of_that_rank(share, is_one: bool) -> None:
    def seconds(p: int) -> np.ndarray:
        total = ENCODE_S * p
        return np.array([share * total] + [(1 - share) * total / (p - 1)] * (p - 1))

    assert is_named(frames(lambda p: 0.9 * ENCODE_S * (p - 1), seconds)) == is_one
