"""The runs of campaign.toml, and the order in which they are made."""

import math

import pytest

from insitu.design.campaign_plan import AUTO, parse_campaign_plan
from insitu.design.factorial import Point, full_factorial
from insitu.design.schedule import (
    Attempt,
    choose_next_run,
    compute_progress,
    estimate_seconds,
    required_repetitions,
)
from insitu.errors import UsageError

LEVELS = {"p": [1, 2, 4], "n": "16..64:3"}


def plan_data(**run) -> dict:
    return {"levels": LEVELS, "run": {"command": "./heat.py --cells {n}", **run}}


def point(p: float, n: float) -> Point:
    return Point((("p", float(p)), ("n", float(n))))


def test_a_plan_with_many_keys_is_parsed():
    plan = parse_campaign_plan(
        plan_data(
            repetitions="auto",
            launcher="sbatch",
            sbatch=["--nodes=2"],
            timeout_s=60,
            goal=0.2,
            packages=["scipy", "numba"],
        ),
        "here",
    )
    assert plan.command == ("./heat.py", "--cells", "{n}")
    assert plan.levels == {"p": (1, 2, 4), "n": (16, 32, 64)}
    assert (plan.repetitions, plan.launcher, plan.sbatch) == (AUTO, "sbatch", ("--nodes=2",))
    assert (plan.timeout_s, plan.goal) == (60, 0.2)
    assert plan.packages == ("scipy", "numba")


def test_a_deduced_design_names_its_dependencies():
    plan = parse_campaign_plan(plan_data(design="deduced", dependencies="found.json"), "here")

    assert (plan.design, plan.dependencies) == ("deduced", "found.json")
    assert parse_campaign_plan(plan_data(), "here").dependencies == ""


def test_a_parameter_with_one_value_may_be_a_label():
    data = {"levels": {"p": [1, 2], "n": [64]}, "run": {"command": "./heat.py"}}

    assert parse_campaign_plan(data, "here").levels["n"] == (64,)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, r"no table \[levels\]"),
        ({"levels": {}, "run": {}}, "needs a command"),
        ({"levels": {"n": [1]}, "run": {"command": "x"}}, "needs p"),
        ({"levels": {"p": [1.5]}, "run": {"command": "x"}}, "needs p"),
        ({"levels": {"p": {}}, "run": {"command": "x"}}, "has no values"),
        ({"levels": {"p": [0]}, "run": {"command": "x"}}, "not above 0"),
        (plan_data(launcher="lsf"), "must be one of mpiexec, srun, flux, sbatch, psij:pbs"),
        (plan_data(repetitions=0), "above 0 or"),
        (plan_data(repetitions=True), "must be int or text"),
        (plan_data(colour="red"), "has no key 'colour'"),
        (plan_data(design="deduced"), "insitu detect"),
        (plan_data(timeout_s=-1), "above 0"),
        (plan_data(only="step"), "only must be list"),
        (plan_data(iterations=-1), "iterations must be above 0"),
        (plan_data(command="./heat.py 64"), r"n has 3 values, but .* not contain \{n\}"),
    ],
)
def test_an_invalid_plan_is_refused_with_its_reason(data, message):
    with pytest.raises(UsageError, match=message):
        parse_campaign_plan(data, "campaign.toml")


def test_every_configuration_runs_once_before_any_repeats_and_few_ranks_come_first():
    design = full_factorial({"p": [4.0, 2.0]}, 2)
    two, four = Point((("p", 2.0),)), Point((("p", 4.0),))
    complete: dict[Point, list[float]] = {}
    order = []
    while True:
        progress = compute_progress(design, 2, complete, [])
        chosen = choose_next_run(progress, budget_core_h=math.inf, is_retrying=False)
        if chosen is None:
            break
        order.append(chosen.point)
        complete.setdefault(chosen.point, []).append(1.0)
    assert order == [two, four, two, four]


def test_as_many_runs_are_wanted_as_the_scatter_of_their_durations_requires():
    design = full_factorial({"p": [1.0, 2.0]}, 1)
    steady, noisy = (Point((("p", p),)) for p in (1.0, 2.0))
    complete = {steady: [10.0, 10.1], noisy: [10.0, 14.0]}

    progress = compute_progress(design, AUTO, complete, [])

    assert [entry.wanted for entry in progress] == [2, 5]


def test_a_run_is_expected_to_take_as_long_as_those_that_did_not_fail():
    (one,) = full_factorial({"p": [1.0]}, 1).points
    attempts = [Attempt(one, 100.0, code=1), Attempt(one, 12.0), Attempt(one, 8.0)]

    (progress,) = compute_progress(full_factorial({"p": [1.0]}, 1), 3, {one: [9.0, 6.0]}, attempts)

    assert progress.seconds == 10.0


def test_failed_configurations_wait_for_resume():
    design = full_factorial({"p": [1.0, 2.0]}, 1)
    one, two = Point((("p", 1.0),)), Point((("p", 2.0),))
    attempts = [Attempt(one, 3.0, code=1)]
    progress = compute_progress(design, 1, {}, attempts)
    assert choose_next_run(progress, budget_core_h=9, is_retrying=False).point == two
    assert choose_next_run(progress, budget_core_h=9, is_retrying=True).point == one
    assert choose_next_run(progress, budget_core_h=9, is_retrying=True, tried=[one]).point == two


def test_no_run_exceeds_the_budget():
    design = full_factorial({"p": [1.0, 64.0]}, 2)
    complete = {Point((("p", 1.0),)): [3600.0, 3600.0], Point((("p", 64.0),)): [3600.0]}
    progress = compute_progress(design, 2, complete, [])
    assert choose_next_run(progress, budget_core_h=63.99, is_retrying=False) is None
    assert choose_next_run(progress, budget_core_h=64, is_retrying=False).point["p"] == 64


def test_noise_determines_the_number_of_repetitions():
    assert required_repetitions([]) == 2
    assert required_repetitions([1.0, 1.01]) == 2
    assert required_repetitions([1.0, 1.05]) == 2
    assert required_repetitions([1.0, 1.5]) == 5


@pytest.mark.parametrize(
    ("loop", "wanted"),
    [
        ([1.0, 1.02] * 16, 1),  # steady: the iterations of one run are enough
        ([1.0, 1.0, 1.0, 1.0, 1.5] * 4, 3),  # (1.96 * 0.19 / 0.05)^2 iterations, 20 in a run
        ([1 + k / 40 for k in range(40)], 2),  # grows: whole runs decide
        ([], 2),
    ],
)
def test_iterations_of_the_main_loop_are_repetitions(loop, wanted):
    assert required_repetitions([1.0], [loop]) == wanted


def test_durations_are_estimated_by_a_power_law():
    complete = {point(p, n): [0.1 * n**2 / p] for p in (1, 2, 4, 8) for n in (16, 32, 64, 128)}
    assert estimate_seconds(point(16, 256), complete) == pytest.approx(0.1 * 256**2 / 16, rel=0.2)
    assert estimate_seconds(point(4, 4), {point(1, 1): [7.0]}) == pytest.approx(7.0 * 4)
    assert math.isnan(estimate_seconds(point(8, 64), {}))


def test_a_single_run_with_more_ranks_does_not_multiply_the_remaining_time():
    measured = {point(1, n): [seconds] for n, seconds in ((32, 2.4), (64, 2.4), (96, 3.4))}
    before = estimate_seconds(point(6, 96), measured)

    after = estimate_seconds(point(6, 96), measured | {point(2, 32): [6.8]})

    assert before < after < 3 * before


def test_a_plan_names_the_functions_to_time():
    plan = parse_campaign_plan(plan_data(only=["solver.*", "*.step"]), "here")

    assert plan.only == ("solver.*", "*.step")


def test_failures_are_those_since_the_last_success():
    here, other = point(1, 16), point(2, 16)
    attempts = [
        Attempt(here, 1.0, 1),
        Attempt(here, 1.0, 124),
        Attempt(other, 1.0, 3),
        Attempt(here, 1.0),
        Attempt(other, 1.0, 3),
    ]
    design = full_factorial({"p": (1.0, 2.0), "n": (16.0,)})

    failed = [
        [entry.failed for entry in compute_progress(design, 3, {}, attempts[:count])]
        for count in range(len(attempts) + 1)
    ]

    assert failed == [[0, 0], [1, 0], [2, 0], [2, 1], [0, 1], [0, 2]]
