"""Functions whose share of the computing grows on shared cores."""

from collections.abc import Mapping

import numpy as np
import pytest

from insitu.analysis.diagnosis.statements import UNCLEAR
from tests.analysis.programs import HEALTHY, Plan, Vector, diagnose

LACK = {p: max(p / 2, 1.0) for p in (1, 2, 3, 4, 6, 8, 12)}  # of cores: all takes so much longer


def shares_of(
    plan: Plan, scales: tuple[int, ...] = (2, 3, 4, 6, 8, 12), *, sampling_s: float = 0.0
) -> list[str]:
    """The functions whose shares are said to grow, beside one of constant work."""
    push = {"visits": lambda p: 100, "time_exclusive": lambda p: 0.4 * LACK[p]}
    main = {**HEALTHY["app->main"], "time_exclusive": lambda p: 0.01 * LACK[p]}
    base: Plan = {"app->main": main, "app->main->push": push}
    plan = {**base, **plan}
    diagnosis = diagnose(plan, scales, crowded=True, sampling_s=sampling_s)
    statements = [entry for entry in diagnosis.statements if "computing" in entry.text]
    assert {entry.status for entry in statements} <= {UNCLEAR}
    return [entry.name for entry in statements]


def test_a_function_whose_share_of_the_computing_grows_is_named() -> None:
    search = {"visits": lambda p: 100, "time_exclusive": lambda p: 0.05 * p * LACK[p]}

    assert shares_of({"app->main->search": search}) == ["search"]
    assert shares_of({"app->main->search": search}, (1, 2, 4, 8)) == ["search"]


def test_a_growing_share_of_a_short_run_is_not_judged_and_its_function_not_fine() -> None:
    def short(seconds: float) -> Vector:
        return lambda p: seconds * p * LACK[p]

    push = {"visits": lambda p: 100, "time_exclusive": lambda p: 0.008 * LACK[p]}
    main = {**HEALTHY["app->main"], "time_exclusive": lambda p: 1e-4 * LACK[p]}
    plan: Plan = {
        "app": {**HEALTHY["app"], "time_exclusive": lambda p: 1e-4 * LACK[p]},
        "app->main": main,
        "app->main->push": push,
        "app->main->search": {"visits": lambda p: 100, "time_exclusive": short(1e-3)},
        "app->main->log": {"visits": lambda p: 100, "time_exclusive": short(2e-5)},
    }

    diagnosis = diagnose(plan, crowded=True)

    short_runs = [entry for entry in diagnosis.not_judged if "too little time" in entry.text]
    assert diagnosis.statements == ()
    assert [entry.name for entry in short_runs] == ["search"]
    assert "search" not in {entry.name for entry in diagnosis.fine}
    assert diagnosis.next_run == "p = 12 with more work in each rank"


def test_a_parallel_region_is_not_compared_with_samples() -> None:
    region = {"visits": lambda p: 100, "time_exclusive": lambda p: 0.05 * p * LACK[p]}
    sampled: Mapping[str, Vector] = {"time_exclusive": lambda p: 0.1}  # its visits are unknown

    assert shares_of({"app->main->step": region, "app->main->save": sampled}, sampling_s=0.01) == []


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("as all others", lambda p: 0.4 * LACK[p]),
        ("twice as long on busy cores", lambda p: 0.2 * min(p, 4) ** 0.5 * LACK[p]),
        ("as many neighbours as a grid has", lambda p: 0.1 * min(p - 1, 4) * LACK[p]),
        ("too little", lambda p: 0.001 * p * LACK[p]),
        ("at one scale only", lambda p: 0.1 * LACK[p] * (8 if p == 12 else 1)),
    ],
)
def test_a_function_that_takes_longer_as_all_others_do_is_not_named(name, seconds) -> None:
    plan: Plan = {"app->main->search": {"visits": lambda p: 100, "time_exclusive": seconds}}

    assert shares_of(plan) == [], name


def test_a_share_of_functions_that_sleep_says_nothing() -> None:
    plan: Plan = {
        "app": {**HEALTHY["app"], "blocked_time": lambda p: 0.4},
        "app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 0.4},
        "app->main->search": {
            "visits": lambda p: 100,
            "time_exclusive": lambda p: 0.05 * p * LACK[p],
        },
    }

    assert shares_of(plan) == []


def test_a_master_that_has_less_to_do_than_its_workers_is_no_imbalance() -> None:
    def only_on_0(p: int) -> np.ndarray:
        return np.where(np.arange(p) == 0, 1, 0)

    def tasks(p: int) -> np.ndarray:
        return np.where(np.arange(p) == 0, 0, 240 // max(p - 1, 1))

    def plan(master_s: float) -> Plan:
        return {
            "app->main->push": {"visits": lambda p: 0, "time_exclusive": lambda p: 0.0},
            "app->master": {
                "visits": only_on_0,
                "time_exclusive": lambda p: master_s * only_on_0(p),
            },
            "app->worker": {"visits": tasks, "time_exclusive": lambda p: 1e-3 * tasks(p)},
        }

    def imbalances(master_s: float) -> list[str]:
        diagnosis = diagnose(plan(master_s), crowded=True)
        return [entry.name for entry in diagnosis.statements if entry.kind == "imbalance"]

    assert imbalances(3e-3) == []
    assert imbalances(3.0) == ["master"]


def test_messages_that_hardly_grow_are_no_warning_of_far_more_ranks() -> None:
    """A master of 240 tasks sends one message more to each rank, at the end."""

    def sent(p: int) -> np.ndarray:
        return np.where(np.arange(p) == 0, p + 239, 0)

    send = {"visits": sent, "messages_sent": sent, "bytes_sent": lambda p: 17 * sent(p)}
    plan: Plan = {"app->main->master->MPI_Send": send}

    assert not diagnose(plan, target={"p": 4_096.0}).statements


@pytest.mark.parametrize(("visits", "is_named"), [(102, True), (103, False), (97, False)])
def test_a_function_that_is_visited_about_as_often_at_all_scales_is_named(visits, is_named):
    search: Mapping[str, Vector] = {
        "visits": lambda p: visits if p == 12 else 100,
        "time_exclusive": lambda p: 0.05 * p * LACK[p],
    }

    assert bool(shares_of({"app->main->search": search})) == is_named
