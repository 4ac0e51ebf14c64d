"""Diagnosis: ranks that are blocked as long at all scales, but at different times."""

from collections.abc import Callable

import numpy as np
import pytest

from insitu.analysis.diagnosis import blocking
from insitu.analysis.diagnosis.blocking import blocked_times
from insitu.analysis.diagnosis.measurements import MeasuredRun
from insitu.modeling.measurement import FloatArray
from tests.analysis.programs import HEALTHY, SCALES, Plan, diagnose, on_rank_0

Seconds = Callable[[int], object]
JOURNAL_S = 0.04


def journal(delays: Seconds, blocked: Seconds = lambda p: JOURNAL_S, late_s: float = 0.0) -> Plan:
    """A journal that each rank writes every 64 steps, after which it waits for a core."""
    return {
        "app": {**HEALTHY["app"], "blocked_time": blocked},
        "app->main->flush": {
            "visits": lambda p: 2,
            "time_exclusive": lambda p: np.asarray(blocked(p)) + late_s,
            "delay_cost": delays,
        },
        "app->main->relax": {"visits": lambda p: 128, "time_exclusive": lambda p: 0.05},
    }


def test_a_function_in_which_ranks_are_blocked_in_turn_is_unclear() -> None:
    """housekeeping.py of tests/evaluation."""
    plan = journal(lambda p: JOURNAL_S * (p - 1))

    (statement,) = diagnose(plan, crowded=True).statements

    assert (statement.kind, statement.status, statement.name) == ("waiting", "unclear", "flush")
    assert "blocked for 40 ms in flush at any scale" in statement.text
    assert statement.text.endswith("80 ms at p = 2 and 480 ms at p = 12")


@pytest.mark.parametrize(
    "plan",
    [
        journal(lambda p: 0.002 * p),  # all at once
        # One rank: the others wait for it as long as for all others together.
        journal(lambda p: on_rank_0(0.4 * (p - 1), p)),
        journal(lambda p: [0.3, 0.1, 0.6, 0.2, 0.5, 0.4][SCALES.index(p)]),  # by chance
        # All at once; but the last one is late, since others have its core.
        journal(lambda p: 0.01 * (p - 1), late_s=0.01),
        # Each is blocked for longer: that is said of the time for which it is.
        journal(lambda p: JOURNAL_S * p * (p - 1), lambda p: np.full(p, JOURNAL_S * p)),
    ],
)
def test_other_delays_of_blocked_ranks_are_none_of_ranks_in_turn(plan: Plan) -> None:
    diagnosis = diagnose(plan, crowded=True)

    assert not any("but not when others are" in entry.text for entry in diagnosis.statements)


@pytest.mark.parametrize(
    ("scales", "crowded", "is_named"),
    [(SCALES, True, True), (SCALES, False, False), ((1, 2, 4, 8, 12, 16), True, False)],
)
def test_ranks_in_turn_are_named_on_shared_cores_from_two_ranks_on(scales, crowded, is_named):
    """On free cores, waiting itself is judged; a rank alone delays nobody."""
    plan = journal(lambda p: JOURNAL_S * (p - 1))

    statements = diagnose(plan, scales, crowded=crowded).statements

    assert any("but not when others are" in entry.text for entry in statements) == is_named


def test_blocked_times_are_summed_once_per_run_however_many_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Programs such as CP2K have thousands of functions, and each sum visits all call paths."""
    sums = []

    def sum_up(run: MeasuredRun) -> FloatArray:
        sums.append(run)
        return blocked_times(run)

    monkeypatch.setattr(blocking, "blocked_times", sum_up)
    few = journal(lambda p: JOURNAL_S * (p - 1))
    many = few | {
        f"app->main->f{i}": {"visits": lambda p: 1, "time_exclusive": lambda p: 1e-6}
        for i in range(40)
    }

    lengths = []
    for plan in (few, many):
        sums.clear()
        diagnose(plan, crowded=True)
        lengths.append(len(sums))

    assert lengths[0] == lengths[1] > 0
