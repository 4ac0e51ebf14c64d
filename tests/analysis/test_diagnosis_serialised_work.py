"""Diagnosis: ranks that work one after the other, while all others wait."""

import numpy as np
import pytest

from tests.analysis.test_diagnosis import Plan, Vector, diagnose, on_rank_0

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
