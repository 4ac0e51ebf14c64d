"""What campaign.toml may say about runs, and the order in which they are made."""

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


def told(**run) -> dict:
    return {"levels": LEVELS, "run": {"command": "./heat.py --cells {n}", **run}}


def point(p: float, n: float) -> Point:
    return Point((("p", float(p)), ("n", float(n))))


def test_study_with_everything_in_it():
    study = parse_campaign_plan(
        told(repetitions="auto", launcher="sbatch", sbatch=["--nodes=2"], timeout_s=60), "here"
    )
    assert study.command == ("./heat.py", "--cells", "{n}")
    assert study.levels == {"p": (1, 2, 4), "n": (16, 32, 64)}
    assert (study.repetitions, study.launcher, study.sbatch) == (AUTO, "sbatch", ("--nodes=2",))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, r"no table \[levels\]"),
        ({"levels": {}, "run": {}}, "wants a command"),
        ({"levels": {"n": [1]}, "run": {"command": "x"}}, "wants p"),
        ({"levels": {"p": [1.5]}, "run": {"command": "x"}}, "wants p"),
        ({"levels": {"p": {}}, "run": {"command": "x"}}, "holds no values"),
        ({"levels": {"p": [0]}, "run": {"command": "x"}}, "not above 0"),
        (told(launcher="lsf"), "there are mpiexec, srun, flux, sbatch, psij:pbs"),
        (told(repetitions=0), "above 0 or"),
        (told(repetitions=True), "no int or text"),
        (told(colour="red"), "knows no 'colour'"),
        (told(design="deduced"), "insitu detect"),
        (told(timeout_s=-1), "above 0"),
    ],
)
def test_study_that_has_no_meaning(data, said):
    with pytest.raises(UsageError, match=said):
        parse_campaign_plan(data, "campaign.toml")


def test_every_configuration_once_before_any_again_and_few_ranks_first():
    design = full_factorial({"p": [4.0, 2.0]}, 2)
    two, four = Point((("p", 2.0),)), Point((("p", 4.0),))
    sealed: dict[Point, list[float]] = {}
    order = []
    while True:
        progress = compute_progress(design, 2, sealed, [])
        chosen = choose_next_run(progress, budget_core_h=math.inf, is_retrying=False)
        if chosen is None:
            break
        order.append(chosen.point)
        sealed.setdefault(chosen.point, []).append(1.0)
    assert order == [two, four, two, four]


def test_failed_configurations_wait_for_resume():
    design = full_factorial({"p": [1.0, 2.0]}, 1)
    one, two = Point((("p", 1.0),)), Point((("p", 2.0),))
    attempts = [Attempt(one, 3.0, code=1)]
    progress = compute_progress(design, 1, {}, attempts)
    assert choose_next_run(progress, budget_core_h=9, is_retrying=False).point == two
    assert choose_next_run(progress, budget_core_h=9, is_retrying=True).point == one
    assert choose_next_run(progress, budget_core_h=9, is_retrying=True, tried=[one]).point == two


def test_budget_bears_no_run_beyond_it():
    design = full_factorial({"p": [1.0, 64.0]}, 2)
    sealed = {Point((("p", 1.0),)): [3600.0, 3600.0], Point((("p", 64.0),)): [3600.0]}
    progress = compute_progress(design, 2, sealed, [])
    assert choose_next_run(progress, budget_core_h=63, is_retrying=False) is None
    assert choose_next_run(progress, budget_core_h=64, is_retrying=False).point["p"] == 64


def test_noise_decides_on_repetitions():
    assert required_repetitions([]) == 2
    assert required_repetitions([1.0, 1.01]) == 2
    assert required_repetitions([1.0, 1.05]) == 2
    assert required_repetitions([1.0, 1.5]) == 5


@pytest.mark.parametrize(
    ("loop", "wanted"),
    [
        ([1.0, 1.02] * 16, 1),  # steady: a run repeats enough by itself
        ([1.0, 1.0, 1.0, 1.0, 1.5] * 4, 3),  # (1.96 * 0.19 / 0.05)^2 iterations, 20 in a run
        ([1 + k / 40 for k in range(40)], 2),  # grows: tells nothing, whole runs decide
        ([], 2),
    ],
)
def test_iterations_of_the_main_loop_are_repetitions(loop, wanted):
    assert required_repetitions([1.0], [loop]) == wanted


def test_time_is_expected_by_a_power_law():
    sealed = {point(p, n): [0.1 * n**2 / p] for p in (1, 2, 4) for n in (16, 32)}
    assert estimate_seconds(point(8, 64), sealed) == pytest.approx(0.1 * 64**2 / 8)
    assert estimate_seconds(point(8, 64), {point(1, 1): [7.0]}) == 7.0
    assert math.isnan(estimate_seconds(point(8, 64), {}))
