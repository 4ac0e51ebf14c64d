"""Diagnosis: when one rank takes longer than the others by far."""

import math

import numpy as np
import pytest

from insitu.analysis.diagnosis.diagnose import (
    diagnose_experiment,
)
from insitu.analysis.diagnosis.growth import CountGrowth, find_growth
from insitu.analysis.diagnosis.measurements import RankSeries
from insitu.analysis.diagnosis.slow_ranks import _is_uneven
from insitu.analysis.diagnosis.statements import Statement
from insitu.entities import (
    RunKey,
)
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment
from tests.analysis.programs import (
    HEALTHY,
    TARGET,
    Plan,
    diagnose,
    grid_of,
    on_rank_0,
    only_limit,
    table_at,
    visiting,
)


@pytest.mark.parametrize(
    ("slowest", "others", "is_uneven"), [(1.2, 0.8, True), (1.19, 0.81, False), (0.8, 1.2, True)]
)
def test_a_rank_is_slow_from_a_fifth_more_than_the_mean(slowest, others, is_uneven):
    assert _is_uneven([np.array([slowest, others])], [1.0]) == is_uneven


@pytest.mark.parametrize(("computing", "is_uneven"), [(20.0, True), (21.0, False)])
def test_a_slow_rank_matters_from_a_twentieth_of_the_computing(computing, is_uneven):
    assert _is_uneven([np.array([3.0, 1.0])], [computing]) == is_uneven


def test_a_rank_is_slow_at_all_scales_but_that_of_one_rank():
    slow, even, alone = np.array([3.0, 1.0]), np.array([1.0, 1.0, 1.0]), np.array([2.0])

    assert _is_uneven([alone, slow], [1.0, 1.0])
    assert not _is_uneven([alone, slow, even], [1.0, 1.0, 1.0])


def test_work_that_grows_with_the_rank_is_an_imbalance():
    plan = {
        "app->main->assemble": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.001},
        "app->main->assemble->cell": {
            "visits": lambda p: 60 + 30 * (1 + np.arange(p)),
            "time_exclusive": lambda p: 2e-3 * (60 + 30 * (1 + np.arange(p))),
        },
    }

    limit = only_limit(diagnose(plan))

    assert (limit.kind, limit.name) == ("imbalance", "assemble")
    assert "load balance 50 %" in limit.text


@pytest.mark.parametrize(("seconds", "is_named"), [(0.05, True), (0.001, False)])
def test_a_rank_that_is_slower_by_less_than_noise_is_not_worth_a_line(seconds, is_named) -> None:
    """As rank 0 of PT-Scotch's dgord, which opens files and is 1 ms slower than others."""
    plan: Plan = {
        "app": {"time": lambda p: 1.0},
        "app->main->read": {
            "visits": lambda p: 1,
            "time_exclusive": lambda p: np.where(np.arange(p) == 0, seconds, seconds / 100),
        },
    }

    found = diagnose(plan, (2, 3, 4, 6, 8, 12), crowded=True, base={}).statements

    assert [entry.kind for entry in found] == (["imbalance"] if is_named else [])


def test_growth_that_slows_down_does_not_go_on_as_it_began():
    """Heap of miniVite's parallel region: p^3.4 to four ranks would be 19 GB on 512."""
    p = np.array([1.0, 2.0, 4.0, 8.0])

    def growth_of(*values: float) -> CountGrowth:
        vectors = tuple((np.array([value]),) for value in values)
        return find_growth(p, RankSeries(vectors), target=512.0)

    slowing = growth_of(0.0, 1104.0, 11520.0, 14864.0)
    speeding = growth_of(0.0, 1104.0, 1424.0, 14864.0)

    assert slowing.law is None and slowing.is_growing
    assert slowing.low == pytest.approx(14864 * 64**0.368, rel=0.01)
    assert slowing.high == pytest.approx(14864 * 64**1.876, rel=0.01)
    assert speeding.high == pytest.approx(14864 * 64**3.384, rel=0.01)


def test_work_of_a_class_whose_share_changes_is_an_imbalance():
    def boundary(p: int) -> np.ndarray:
        values = np.full(p, 40.0)
        values[: {2: 2, 3: 2, 4: 4, 6: 4, 8: 4, 12: 4}[p]] += 2000.0 * p
        return values

    plan: Plan = {
        "app->main->assemble": {"visits": lambda p: 1, "time_exclusive": lambda p: 1e-6},
        "app->main->assemble->element": {
            "visits": boundary,
            "time_exclusive": lambda p: 1e-7 * boundary(p),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name) == ("imbalance", "assemble")
    assert limit.text.startswith("slowest rank visits element 2,000 p + 40 times")
    assert "times the mean at p = 12" in limit.text


def test_a_loop_over_the_neighbours_in_a_grid_is_no_imbalance() -> None:
    dims = {2: (2, 1, 1), 3: (3, 1, 1), 4: (2, 2, 1), 6: (3, 2, 1), 8: (2, 2, 2), 12: (3, 2, 2)}

    def neighbours(p: int) -> np.ndarray:  # of 26, as in a 27-point stencil without wrapping
        reach = [[min(i, 1) + min(n - 1 - i, 1) + 1 for i in range(n)] for n in dims[p]]
        return np.array([a * b * c - 1 for a in reach[0] for b in reach[1] for c in reach[2]])

    plan: Plan = {
        "app->main->halo->pack": {
            "visits": lambda p: 50 * neighbours(p),
            "time_exclusive": lambda p: 1e-3 * neighbours(p),
        },
        "app->main->halo->MPI_Isend": {
            "visits": lambda p: 50 * neighbours(p),
            "messages_sent": lambda p: 50 * neighbours(p),
            "partners": neighbours,
        },
    }

    statements = diagnose(plan, crowded=True).statements

    assert not [entry for entry in statements if entry.status in ("limit", "warning")]


def test_neighbours_that_only_some_ranks_have_are_no_imbalance():
    def neighbours(p: int) -> np.ndarray:  # of blocks along a line: at most two
        return np.minimum(np.arange(p), 1) + np.minimum(np.arange(p)[::-1], 1)

    plan: Plan = {
        "app->main->halo": {"visits": lambda p: 1e6, "time_exclusive": lambda p: 1e-3},
        "app->main->halo->pack": {
            "visits": lambda p: 1e6 * neighbours(p),
            "time_exclusive": lambda p: 0.1 * neighbours(p),
        },
    }

    assert diagnose(plan, crowded=True).limits == ()


def test_the_last_rank_that_has_the_remainder_is_named() -> None:
    plan: Plan = {
        "app->main->cell": {
            "visits": lambda p: [1000 // p] * (p - 1) + [1000 // p + 40],
            "time_exclusive": lambda p: np.array([1000 // p] * (p - 1) + [1000 // p + 40]) * 0.1,
        }
    }

    (statement,) = [
        entry for entry in diagnose(plan, crowded=True).statements if entry.kind == "imbalance"
    ]

    assert (statement.ranks, statement.metric) == ("last rank", "visits")


def test_a_rank_that_is_slowest_at_all_scales_is_named_with_doubt_where_cores_are_shared() -> None:
    def times(p: int) -> object:
        return [2.0 if rank == 1 else 0.5 for rank in range(p)]

    def turns(p: int) -> object:
        slowest = {2: 0, 3: 2, 4: 1, 6: 0, 8: 5, 12: 10}[p]
        return [2.0 if rank == slowest else 0.5 for rank in range(p)]

    slow = {"app->main->kernel": {"visits": lambda p: 20, "time_exclusive": times}}
    noisy = {"app->main->kernel": {"visits": lambda p: 20, "time_exclusive": turns}}
    quick = {"app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 0.4}}

    (statement,) = diagnose({**quick, **slow}, crowded=True).statements

    assert (statement.kind, statement.ranks) == ("imbalance", "rank 1")
    assert (statement.status, statement.run) == ("unclear", "p = 12 on as many cores")
    assert not diagnose({**quick, **noisy}, crowded=True).statements
    assert "warning" in {entry.status for entry in diagnose({**quick, **slow}).statements}


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (lambda p: p // 2, "rank 6 (p / 2)"),
        (lambda p: (p - 1) // 2, "rank 5 ((p - 1) / 2)"),
        (lambda p: p - 2, "rank 10 (p - 2)"),
        (lambda p: p * 7 // 10, "rank 8 (the one at 71 % of the ranks)"),
        (lambda p: {2: 1, 3: 0, 4: 0, 6: 3, 8: 2, 12: 7}[p], "rank 7 (2 at p = 8)"),
    ],
)
def test_a_rank_that_does_more_by_any_rule_is_named(rule, name) -> None:
    def visits(p: int) -> object:
        return [60 if rank == rule(p) else 20 for rank in range(p)]

    counted: Plan = {
        "app->main->force": {
            "visits": visits,
            "time_exclusive": lambda p: 0.1 * np.array(visits(p)),
        }
    }
    timed: Plan = {
        "app->main->force": {
            "visits": lambda p: 20,
            "time_exclusive": lambda p: 0.1 * np.array(visits(p)),
        }
    }

    found = [
        (entry.ranks, entry.metric, entry.status)
        for plan in (counted, timed)
        for entry in diagnose(plan, crowded=True).statements
        if entry.kind == "imbalance"
    ]

    times = [] if "at p" in name else [(name, "time_exclusive", "unclear")]
    assert found == [(name, "visits", "warning"), *times]


def test_the_imbalance_of_a_rank_whose_share_grows_is_carried_to_the_target() -> None:
    def visits(p: int) -> object:
        more = 10 * round(30 * math.sqrt(p))
        return [more if rank == p // 2 else 300 for rank in range(p)]

    plan: Plan = {
        "app->main->relax": {
            "visits": visits,
            "time_exclusive": lambda p: 1e-3 * np.array(visits(p)),
        }
    }

    def imbalance(scales: tuple[int, ...]) -> Statement:
        found = diagnose(plan, scales, crowded=True).statements
        (statement,) = [entry for entry in found if entry.kind == "imbalance"]
        return statement

    certain, few = imbalance((2, 4, 6, 8, 12, 16)), imbalance((4, 8, 12, 16))

    assert (certain.status, certain.ranks, certain.exact) == ("limit", "rank 8 (p / 2)", True)
    assert certain.law == "300 p^(1/2)"
    assert certain.text.startswith("rank 8 (p / 2) visits relax 300 p^(1/2) times, each other")
    assert (certain.now, certain.then) == (
        1200,
        pytest.approx(300 * 256, rel=2e-3),
    )  # visits are whole tens
    assert (certain.low, certain.high) == (certain.then, certain.then)
    assert (few.law, few.exact) == (None, False)  # boundaries of a grid may look alike


def test_the_owner_of_an_expensive_layer_is_named_although_its_neighbours_own_a_part_too() -> None:
    rows, layer = np.arange(96), (60, 72)

    def visits(p: int) -> object:
        cost = np.where((rows >= layer[0]) & (rows < layer[1]), 40, 5)
        return [int(part.sum()) for part in np.array_split(cost, p)]

    plan: Plan = {
        "app->main->trace": {
            "visits": visits,
            "time_exclusive": lambda p: 0.01 * np.array(visits(p)),
        }
    }

    (statement,) = [
        entry for entry in diagnose(plan, crowded=True).statements if entry.kind == "imbalance"
    ]

    assert statement.ranks == "rank 8 (the one at 71 % of the ranks)"
    assert statement.metric == "visits"


def test_a_rank_that_waits_for_a_core_where_it_alone_writes_is_not_named() -> None:
    """A visit takes 2 ms at best; what it takes beyond that may be waiting."""
    plan: Plan = {
        "app->main->push": {"visits": lambda p: 100, "time_exclusive": lambda p: 0.4},
        "app->main->report": {
            "visits": lambda p: on_rank_0(5, p),
            "time_exclusive": lambda p: on_rank_0(0.005 * p, p),
        },
    }

    assert not diagnose(plan, crowded=True).statements


def test_the_slow_rank_of_a_function_whose_time_grows_is_named_too() -> None:
    def seconds(p: int) -> object:
        return [2.0 * p if rank == p // 2 else 0.2 * p for rank in range(p)]

    plan: Plan = {"app->main->kernel": {"visits": lambda p: 20, "time_exclusive": seconds}}

    statements = diagnose(plan, has_models=True).statements

    assert {"imbalance", "compute"} <= {entry.kind for entry in statements}


def test_a_rank_that_happened_to_do_most_of_the_shared_tasks_is_not_named() -> None:
    def visits(p: int) -> object:
        slowest = {2: 0, 3: 2, 4: 1, 6: 0, 8: 5, 12: 6}[p]
        return [20 + 3 * rank % 7 + (15 if rank == slowest else 0) for rank in range(p)]

    plan: Plan = {
        "app->main->task": {
            "visits": visits,
            "time_exclusive": lambda p: 0.1 * np.array(visits(p)),
        }
    }

    statements = diagnose(plan, crowded=True).statements

    assert [entry.ranks for entry in statements if entry.metric == "visits"] == ["rank 6"]
    assert "p / 2" not in statements[0].text  # it has most in the largest run, which is all


def test_the_ranks_of_a_row_that_do_more_than_all_others_are_named() -> None:
    def visits(p: int) -> np.ndarray:
        _, columns = grid_of(p)
        return np.where(np.arange(p) < columns, 4_500.0, 1_500.0)

    (statement,) = diagnose(visiting(visits), (2, 4, 6, 8, 12), crowded=True).statements

    assert (statement.kind, statement.status, statement.name) == ("imbalance", "warning", "cell")
    assert statement.ranks == "3 of 12 ranks (0 to 2)"
    assert statement.text.startswith(
        "3 of 12 ranks (0 to 2) visit cell 2.0 times as often as the mean: load balance 50 %"
    )
    assert statement.text.endswith("3 times as often as the others at all 4 scales above two ranks")


def test_a_function_whose_visits_do_not_repeat_hides_no_row_that_does_more() -> None:
    def visits(p: int) -> np.ndarray:
        _, columns = grid_of(p)
        return np.where(np.arange(p) < columns, 4_500.0, 1_500.0)

    runs = []
    for p in (2, 4, 6, 8, 12):
        for repetition in (0, 1):
            polls: Plan = {"app->aaa_poll": {"visits": lambda p, more=repetition: 40.0 + 9 * more}}
            table = table_at({**HEALTHY, **polls, **visiting(visits)}, p)
            runs.append((RunKey.of({"p": p}, repetition), table))
    experiment = Experiment(("p",), tuple(runs), {key: 2 for key, _ in runs})

    found = diagnose_experiment(experiment, [], ModelSet(), program="app", target=TARGET)

    assert [entry.name for entry in found.statements if entry.kind == "imbalance"] == ["cell"]


@pytest.mark.parametrize(
    "scales", [(2, 4, 6, 8, 12, 16), (4, 9, 16, 25, 36), (16, 25, 36, 49), (8, 16, 32, 64)]
)
def test_ranks_inside_a_domain_are_no_group_that_does_more(scales: tuple[int, ...]) -> None:
    """The walls of a domain count ever less: its ranks inside grow from none to most."""

    def visits(p: int) -> np.ndarray:
        rows, columns = grid_of(p)
        row, column = np.divmod(np.arange(p), columns)
        along = (row > 0) * 1 + (row < rows - 1)
        return 1_500.0 * (along + (column > 0) + (column < columns - 1))

    statements = diagnose(visiting(visits), scales, crowded=True, target={"p": 64.0}).statements

    assert not [entry for entry in statements if "others" in entry.text]


def test_neighbours_of_ranks_inside_a_domain_are_no_imbalance() -> None:
    """Of 6, 8 and 10 ranks in two rows, 2, 4 and 6 have three neighbours: ever more."""

    def visits(p: int) -> np.ndarray:
        column = np.arange(p) // 2
        return 1_500.0 * (1.0 + (column > 0) + (column < p // 2 - 1))

    statements = diagnose(visiting(visits), (2, 4, 6, 8, 10), crowded=True).statements

    assert not [entry for entry in statements if entry.kind == "imbalance"]


def test_an_imbalance_of_several_call_paths_of_a_function_is_one_statement() -> None:
    def visits(p: int) -> np.ndarray:
        return np.where(np.arange(p) < 2, 4_500.0, 1_500.0)

    path, values = next(iter(visiting(visits).items()))
    larger = {**values, "time_exclusive": lambda p: 0.004 * visits(p)}
    plan: Plan = {path: values, "app->main->load->cell": larger, "app->main->save->cell": values}

    (statement,) = diagnose(plan, (2, 8), crowded=True).statements

    assert (statement.kind, statement.ranks) == ("imbalance", "2 of 8 ranks (0 to 1)")
    assert statement.callpath == "app->main->load->cell"
    assert statement.text.endswith("at p = 8, 3 s; the same for 2 more call paths")


def test_times_of_ranks_that_all_lacked_a_core_name_no_slow_rank() -> None:
    """Of 10 s, 9 are on a core, or 6: other programs may have slowed rank 0 then."""
    plan: Plan = {
        "app->main->entry": {
            "visits": lambda p: 100,
            "time_exclusive": lambda p: on_rank_0(3.0, p) + 1.0,
        }
    }
    for cpu_s, names in ((9.0, ["entry"]), (6.0, [])):
        base = {**HEALTHY, "app": {**HEALTHY["app"], "cpu_time": lambda p, cpu_s=cpu_s: cpu_s}}

        statements = diagnose(plan, (2,), base=base).statements

        assert [entry.name for entry in statements if entry.kind == "imbalance"] == names


@pytest.mark.parametrize(
    ("slowest", "others", "polls", "is_named"),
    [
        (1.6, 0.4, False, True),
        (0.5, 0.4, False, False),  # by as much as caches and chance explain
        (0.05, 0.01, False, False),  # too few samples
        (1.6, 0.4, True, False),  # a loop around MPI_Test, in which ranks wait
    ],
)
def test_a_rank_with_far_more_samples_at_both_largest_scales_is_named(
    slowest: float, others: float, polls: bool, is_named: bool
) -> None:
    def times(p: int) -> np.ndarray:
        vector = np.full(p, others)
        vector[3:4] = slowest  # on one and two ranks, there is no rank 3
        return vector

    plan: Plan = {
        "app": {"time": lambda p: 10.0, "time_exclusive": lambda p: 0.1},
        "app->main->smooth": {"time_exclusive": times},
        "app->main->smooth->norm": {"time_exclusive": lambda p: 0.3 * times(p)},
        "app->main->halo->MPI_Barrier": {"visits": lambda p: 100, "comm_ranks": lambda p: 100 * p},
    }
    if polls:
        plan = {**plan, "app->main->smooth->MPI_Testall": {"visits": lambda p: 900}}

    statements = diagnose(plan, (1, 2, 4, 8), crowded=True, base={}, sampling_s=0.01).statements

    found = [entry for entry in statements if entry.kind == "imbalance"]
    named = [(entry.ranks, entry.name) for entry in found]
    if polls:
        assert ("rank 3", "smooth") not in named
    else:
        assert named == ([("rank 3", "smooth")] if is_named else [])
    if is_named:
        assert "rank 3 has 160 samples of smooth, no other rank more than 40," in found[0].text


@pytest.mark.parametrize(("count", "is_named"), [(1, False), (2, False), (9, True)])
def test_single_samples_that_fall_on_the_same_rank_are_chance(count: int, is_named: bool) -> None:
    def times(p: int) -> np.ndarray:
        vector = np.full(p, 0.001)  # the mean of several repetitions
        vector[3:4] = 0.01 * count
        return vector

    plan: Plan = {
        "app": {"time": lambda p: 1.0, "time_exclusive": lambda p: 0.01},
        "app->main->smooth": {"time_exclusive": times},
        "app->main->halo->MPI_Barrier": {"visits": lambda p: 100, "comm_ranks": lambda p: 100 * p},
    }

    statements = diagnose(plan, (1, 2, 4, 6, 8), crowded=True, base={}, sampling_s=0.01).statements

    assert ("rank 3" in {entry.ranks for entry in statements}) == is_named


@pytest.mark.parametrize(("seconds", "is_named"), [(0.005, False), (0.5, True)])
def test_milliseconds_that_one_rank_does_more_at_every_scale_are_not_worth_a_line(
    seconds: float, is_named: bool
) -> None:
    """Such as a database that rank 0 creates; sqlite_log.py of tests/evaluation."""
    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 0.3, "time_exclusive": lambda p: 0.2},
        "app->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.01},
        "app->main->create": {
            "visits": lambda p: on_rank_0(1, p),
            "time_exclusive": lambda p: on_rank_0(seconds, p),
        },
    }

    statements = diagnose(plan, crowded=True, base={}).statements

    assert bool(statements) == is_named


def test_a_function_that_one_rank_alone_visits_has_no_load_balance() -> None:
    plan: Plan = {
        "app->main->master": {
            "visits": lambda p: on_rank_0(1, p),
            "time_exclusive": lambda p: on_rank_0(4.0, p),
        }
    }

    statements = diagnose(plan, crowded=True).statements

    (statement,) = [entry for entry in statements if entry.name == "master"]
    assert statement.text.startswith("only rank 0 visits master: 3.67 s more than the mean at p =")
    assert "load balance" not in statement.text
