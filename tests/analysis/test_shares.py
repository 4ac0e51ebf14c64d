"""Shares of the cost: they add up, know no unit, and leave out what is not reliable."""

import math

import numpy as np
import pytest

from insitu.analysis.cost import shares_of_run
from insitu.analysis.progress import make_agenda
from insitu.analysis.shares import (
    RELEVANT,
    ROUGH,
    TRUSTED,
    UNCLEAR_SHARE,
    CostShare,
    Estimate,
    find_unclear_shares,
    find_unreliable,
    predict_shares,
    trust_level,
)
from insitu.design.schedule import Progress
from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath
from insitu.modeling.measurement import RunTable

SOLVE, HALO, IO, START = (
    CallPath.parse(text) for text in ("main->solve", "main->halo", "main->io", "main->MPI_Init")
)
COSTS = {SOLVE: Estimate(6.0, 5.0, 7.0), HALO: Estimate(3.0, 2.0, 9.0), IO: Estimate(1.0, 1.0, 1.0)}
NOW = {SOLVE: 0.5, HALO: 0.4, IO: 0.1}


def shares(costs, metric=TIME_EXCLUSIVE.name, now=NOW):
    return list(predict_shares(costs, metric, now))


def scaled(costs, factor):
    return {
        path: Estimate(factor * entry.value, factor * entry.low, factor * entry.high)
        for path, entry in costs.items()
    }


def test_shares_of_exclusive_times_add_up_and_vary_within_their_bounds():
    listed = shares(COSTS)

    assert [share.callpath for share in listed] == [SOLVE, HALO, IO]
    assert sum(share.then.value for share in listed) == pytest.approx(1.0)
    assert [share.now for share in listed] == [0.5, 0.4, 0.1]
    solve, halo, io = (share.then for share in listed)
    assert (solve.low, solve.high) == (5 / 9, 7 / 11)
    assert (halo.low, halo.high) == (2 / 9, 9 / 16)
    assert (io.low, io.value, io.high) == (0.1, 0.1, 0.1)


def test_inclusive_times_are_shares_of_the_largest_and_at_most_all_of_it():
    solve, halo, io = (share.then for share in shares(COSTS, TIME.name))

    assert (solve.value, solve.low, solve.high) == (1.0, 5 / 6, 1.0)
    assert (halo.value, halo.low, halo.high) == (0.5, 2 / 6, 1.0)
    assert io.value == 1 / 6


@pytest.mark.parametrize("metric", [TIME.name, TIME_EXCLUSIVE.name])
@pytest.mark.parametrize("factor", [1e-9, 2.0, 3600.0])
def test_shares_know_no_unit_of_the_cost(metric, factor):
    for share, other in zip(
        shares(COSTS, metric), shares(scaled(COSTS, factor), metric), strict=True
    ):
        assert share.callpath == other.callpath
        for name in ("value", "low", "high"):
            assert getattr(other.then, name) == pytest.approx(getattr(share.then, name))


def test_start_up_stands_behind_the_others_and_unreliable_call_paths_behind_it():
    endless = Estimate(1.0, 1.0, math.inf)
    costs = {HALO: endless, START: Estimate(30.0, 30.0, 30.0), SOLVE: COSTS[SOLVE], IO: COSTS[IO]}

    listed = shares(costs)

    assert [share.callpath for share in listed] == [SOLVE, IO, START, HALO]
    assert [share.is_guess for share in listed] == [False, False, False, True]
    assert sum(share.then.value for share in listed[:3]) == pytest.approx(1.0)
    assert (listed[3].now, listed[2].now) == (0.4, 0.0)


def test_nothing_costs_nothing():
    assert shares({SOLVE: Estimate(0.0, 0.0, 0.0)}) == []
    assert shares({}, TIME.name) == []


def test_doubt_is_half_the_width_relative_to_the_size():
    assert Estimate(2.0, 1.0, 4.0).doubt == Estimate(-2.0, -4.0, -1.0).doubt == 0.75
    assert Estimate(2.0, 1.0, math.inf).doubt == math.inf
    assert Estimate(0.0, 0.0, 0.0).doubt == 0.0
    assert math.isnan(Estimate(0.0, -1.0, 1.0).doubt)
    levels = [trust_level(Estimate(1.0, 1.0 - d, 1.0 + d)) for d in (TRUSTED, ROUGH)]
    beyond = [trust_level(Estimate(1.0, 1.0 - d, 1.0 + d)) for d in (TRUSTED + 0.01, ROUGH + 0.01)]
    assert (levels, beyond) == (["good", "rough"], ["rough", "a guess"])
    assert trust_level(Estimate(1.0)) == "unknown"


def test_only_negligible_call_paths_that_might_matter_are_doubtful():
    least = RELEVANT * 10.0  # of all others
    costs = {SOLVE: Estimate(10.0, 0.0, 99.0), HALO: Estimate(0.01, 0.0, 1.01 * least)}

    assert find_unreliable(costs, {SOLVE: RELEVANT}) == {HALO}
    assert find_unreliable(costs, {SOLVE: 1.0, HALO: RELEVANT}) == set()
    narrow = costs | {HALO: Estimate(0.01, 0.0, least)}
    assert find_unreliable(narrow, {SOLVE: 1.0}) == set()
    sure = costs | {HALO: Estimate(5.0, 0.0, 5.0 + ROUGH)}
    assert find_unreliable(sure, {SOLVE: 1.0}) == set()
    unknown = costs | {HALO: Estimate(1.01 * least)}
    assert find_unreliable(unknown, {SOLVE: 1.0}) == {HALO}
    for value in (math.inf, math.nan):
        assert find_unreliable({SOLVE: Estimate(value, 1.0, 2.0)}, {SOLVE: 1.0}) == {SOLVE}


def test_an_unclear_call_path_leaves_all_unclear_if_it_is_expensive():
    def listed(value):
        others = CostShare(SOLVE, 0.5, Estimate(0.9))
        return [others, CostShare(HALO, 0.05, Estimate(value)), CostShare(IO, 0.1, Estimate(0.5))]

    def find(value, unclear):
        return find_unclear_shares(listed(value), unclear, TIME_EXCLUSIVE.name)

    assert find(UNCLEAR_SHARE, {HALO}) == {SOLVE, HALO, IO}
    assert find(0.99 * UNCLEAR_SHARE, {HALO}) == {HALO}
    assert find(math.nan, {HALO}) == {HALO}
    assert find(1.0, set()) == frozenset()


def test_many_call_paths_without_a_prediction_leave_all_unclear_together():
    paths = [CallPath(("main", f"f{i}")) for i in range(6)]
    known = CostShare(SOLVE, 0.4, Estimate(0.9))
    unclear = [CostShare(path, 0.02, Estimate(0.02)) for path in paths]
    guesses = [CostShare(path, 0.02, Estimate(math.nan)) for path in paths]
    start_up = [CostShare(START, 0.9, Estimate(math.nan))]
    exclusive = TIME_EXCLUSIVE.name

    assert find_unclear_shares([known, *unclear], set(paths), exclusive) == {SOLVE, *paths}
    assert find_unclear_shares([known, *guesses], set(), exclusive) == {SOLVE, *paths}
    assert find_unclear_shares([known, *unclear[:4]], set(paths), exclusive) == set(paths[:4])
    assert find_unclear_shares([known, *start_up], set(), exclusive) == frozenset()
    # Inclusive times contain each other: they do not add up.
    assert find_unclear_shares([known, *guesses], set(), TIME.name) == frozenset()


def test_the_agenda_is_the_sum_of_its_lines():
    lines = [
        Progress({"p": 2.0}, done=3, wanted=4, failed=0, seconds=10.0),
        Progress({"p": 8.0}, done=5, wanted=5, failed=1, seconds=math.nan),
        Progress({"p": 4.0}, done=1, wanted=3, failed=0, seconds=90.0),
    ]

    agenda = make_agenda(lines)

    assert (agenda.lines, agenda.done, agenda.left) == (tuple(lines), 9, 3)
    assert agenda.seconds == 190.0
    assert agenda.core_hours == pytest.approx((2 * 10 + 4 * 180) / 3600)


@pytest.mark.parametrize("unit", [1.0, 1e-6])
@pytest.mark.parametrize("metric", [TIME_EXCLUSIVE, TIME])
def test_shares_of_a_run_know_no_unit_and_no_order_of_ranks(metric, unit):
    times = np.array([[1.0, 2.0, 3.0], [0.5, 0.5, np.nan], [3.0, 1.0, 1.0]])
    paths = (SOLVE, HALO, IO)

    of_runs = [
        shares_of_run(RunTable(paths, (metric,), {metric.name: unit * values}))
        for values in (times, times[:, ::-1])
    ]

    whole = 12.0 if metric is TIME_EXCLUSIVE else 6.0  # inclusive times contain each other
    assert of_runs[0] == pytest.approx({SOLVE: 6 / whole, HALO: 1 / whole, IO: 5 / whole})
    assert of_runs[1] == pytest.approx(of_runs[0])
