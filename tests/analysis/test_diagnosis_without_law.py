"""Growth without an exact law, or that only bytes of arrays and chains of messages show."""

import math

import numpy as np
import pytest

from insitu.analysis.diagnosis.growth import find_growth
from insitu.analysis.diagnosis.laws import RELATIVE_HEAP, LawFactor, find_laws, quantity_text
from insitu.analysis.diagnosis.measurements import RankSeries
from tests.analysis.programs import HEALTHY, SCALES, Plan, diagnose, on_rank_0, only_limit

REACH = {2: 1, 3: 2, 4: 2, 6: 4, 8: 4, 12: 6}  # ranks within a fixed part of the domain


def test_arrays_that_a_function_makes_for_each_rank_are_work():
    """node_sum.py of tests/evaluation: each rank adds what all ranks have in shared memory."""
    plan: Plan = {
        "app->main->add_up": {
            "visits": lambda p: 60,
            "allocations": lambda p: 60 * (p + 1),
            "bytes_allocated": lambda p: 60 * 192_000 * (p + 1),
        }
    }

    statement = only_limit(diagnose(plan, crowded=True))

    assert (statement.kind, statement.name) == ("compute", "add_up")
    assert statement.text.startswith("each rank allocates 11.5 MB * p + 11.5 MB of the heap in all")
    assert "at least" in statement.text


@pytest.mark.parametrize(("grown", "named"), [(0.8, True), (0.2, False)])
def test_arrays_may_grow_without_a_law(grown, named):
    plan: Plan = {
        "app->main->accelerate": {
            "visits": lambda p: 30,
            "allocations": lambda p: 300,
            "bytes_allocated": lambda p: 1e8 * p**grown * (1 + 0.02 * math.sin(p)),
        }
    }

    statements = diagnose(plan, crowded=True).statements

    assert [(entry.name, entry.status) for entry in statements] == (
        [("accelerate", "unclear")] if named else []
    )


def test_arrays_for_neighbours_are_not_judged():
    plan: Plan = {
        "app->main->exchange->MPI_Isend": {
            "visits": lambda p: 30 * REACH[p],
            "messages_sent": lambda p: 30 * REACH[p],
            "partners": lambda p: REACH[p],
        },
        "app->main->exchange": {
            "visits": lambda p: 30,
            "allocations": lambda p: 30 * REACH[p],
            "bytes_allocated": lambda p: 5e7 * REACH[p],
        },
    }

    found = diagnose(plan, crowded=True)

    assert found.statements == ()
    (unjudged,) = [entry for entry in found.not_judged if entry.metric == "messages_sent"]
    assert "neighbours in a grid look alike" in unjudged.text
    assert "exchange" not in [entry.name for entry in found.fine]


def test_growth_in_stairs_is_growth():
    """Between 6 and 8 ranks nothing grows; ghosts.py of tests/evaluation was called fine."""
    p = np.array(SCALES, dtype=float)
    series = RankSeries(tuple((np.full(ranks, 30.0 * REACH[ranks]),) for ranks in SCALES))

    growth = find_growth(p, series, 4096.0)

    assert growth.law is None
    assert growth.is_growing
    assert 0.5 < growth.exponents[0] <= growth.exponents[1] <= 1.0


def test_the_mean_of_heaps_follows_a_law_as_closely_as_the_largest():
    """Allocators round: each heap is off its law by up to a thousandth."""
    p = np.array(SCALES, dtype=float)
    off = 1e-3 * 12e6 * np.array([1, -1, 1, -1, 1, -1])
    series = RankSeries(
        tuple((np.full(int(n), 1e6 * n + by),) for n, by in zip(p, off, strict=True))
    )

    growth = find_growth(p, series, 4096.0, tolerance=RELATIVE_HEAP)

    assert growth.law is not None
    assert growth.mean is not None
    assert growth.has_same_order


@pytest.mark.parametrize(
    ("value", "text"), [(999.4, "999"), (1000.4, "1,000"), (20_000, "20,000"), (2e6, "2 million")]
)
def test_counts_have_their_digits_in_groups(value, text):
    assert quantity_text(value, "1") == text


def test_one_scale_shows_no_scaling():
    assert diagnose(HEALTHY, scales=(4,)).scaling == "unknown"


def test_what_falls_in_between_grows_by_chance():
    values = {2: 3, 3: 3, 4: 11, 6: 9, 8: 9, 12: 51}
    series = RankSeries(tuple((np.full(ranks, float(values[ranks])),) for ranks in SCALES))

    assert not find_growth(np.array(SCALES, dtype=float), series, 4096.0).is_growing


ROUNDS = {1: 101, 2: 127, 3: 166, 4: 192, 6: 220, 8: 267, 12: 369}


@pytest.mark.parametrize("scales", [SCALES, (1, *SCALES)])
def test_iterations_that_grow_without_a_law_are_calls_and_not_bytes(scales):
    """block_jacobi.py of tests/evaluation."""
    plan: Plan = {
        "app->main->solve->dot->MPI_Allreduce": {
            "visits": lambda p: 300 * ROUNDS[p],
            "bytes_sent": lambda p: 2400 * ROUNDS[p],
            "bytes_received": lambda p: 2400 * ROUNDS[p] * (p > 1),
            "comm_ranks": lambda p: 300 * p * ROUNDS[p],
        }
    }

    (statement,) = diagnose(plan, scales, crowded=True).statements

    assert (statement.name, statement.metric, statement.status) == ("dot", "visits", "unclear")
    assert statement.text.startswith("each rank calls MPI_Allreduce 110,700 times, growing as p^0")


def test_more_calls_are_named_although_their_bytes_grow_by_another_law():
    """panels.cpp of tests/evaluation: one broadcast for each rank, of a share of a fixed matrix."""
    plan: Plan = {
        "app->main->factorise->MPI_Bcast": {
            "visits": lambda p: 6 * p,
            "bytes_received": lambda p: 2.16e7 * (1 - 1 / p),
            "bytes_sent": lambda p: 2.16e7 / p,
        }
    }

    statement = only_limit(diagnose(plan, crowded=True))

    assert statement.text.startswith("each rank calls MPI_Bcast 6 p times")


def test_a_law_that_ends_begins_with_its_end():
    (law, *_) = find_laws(np.array([2.0, 3, 4, 6, 8]), 1e6 * (1 - 1 / np.array([2.0, 3, 4, 6, 8])))

    assert law.text("B") == "1 MB - 1 MB * p^(-1)"
    assert LawFactor(5.0, 2.0, law.term).text("1") == "2 p^(-1) + 5"


def test_calls_that_poll_as_often_on_all_ranks_follow_a_law():
    """poll_all.c of tests/evaluation asks for a message of each other rank in each step."""
    polls = {"visits": lambda p: 4000 * (p - 1), "time_exclusive": lambda p: 4e-4 * p}
    uneven = polls | {"visits": lambda p: 4000 * (p - 1) + np.arange(p) % 2}

    statement = only_limit(diagnose({"app->main->look->MPI_Iprobe": polls}, crowded=True))

    assert statement.text.startswith("each rank calls MPI_Iprobe 4,000 (p - 1) times")
    assert not diagnose({"app->main->look->MPI_Iprobe": uneven}, crowded=True).statements


LINKS = {2: 1, 3: 2, 4: 3, 6: 4, 8: 5, 12: 7}  # of the longest chain
GRIDS = {2: (2, 1), 3: (3, 1), 4: (2, 2), 6: (3, 2), 8: (4, 2), 12: (4, 3)}


@pytest.mark.parametrize("is_sweep", [True, False])
def test_a_sweep_through_a_grid_outgrows_its_messages(is_sweep):
    """octants.c of tests/evaluation; without a sweep, its chain is that of an exchange."""

    def received(p):
        i, j = np.divmod(np.arange(p), GRIDS[p][1])
        return 120 * sum((k > 0).astype(int) for k in (i, j)) + 120 * (
            (i < GRIDS[p][0] - 1).astype(int) + (j < GRIDS[p][1] - 1)
        )

    def chain(p):
        return on_rank_0(120 * (LINKS[p] if is_sweep else min(p - 1, 2)), p)

    plan: Plan = {
        "app->main->sweep->MPI_Recv": {
            "visits": lambda p: 480,
            "messages_received": received,
            "bytes_received": lambda p: 480 * received(p),
            "partners": lambda p: received(p) / 120,
            "message_chain": chain,
            "message_chain_time": lambda p: 1e-3 * chain(p),
        },
    }

    statements = diagnose(plan, crowded=True).statements

    assert [(entry.name, entry.kind, entry.status) for entry in statements] == (
        [("sweep", "serial", "unclear")] if is_sweep else []
    )


def test_calls_that_are_repeated_where_another_rank_was_faster_are_served_by_one_rank():
    """retry.cpp of tests/evaluation."""
    plan: Plan = {
        "app->main->add->MPI_Compare_and_swap": {
            "visits": lambda p: 20_000 + np.arange(p) ** 2 % 5 * 7.0,
            "only_partner": lambda p: 0.0,
        }
    }

    (statement,) = diagnose(plan, crowded=True).statements

    assert (statement.status, statement.ranks) == ("unclear", "rank 0")
    assert "growing as p^1.0" in statement.text


@pytest.mark.parametrize("is_freed", [False, True])
def test_objects_that_the_caller_frees_at_the_end_are_held(is_freed):
    """chunks.cpp of tests/evaluation: in compiled programs, nobody knows how often a function runs.

    What it frees each time is not in the peak of the heap.
    """
    plan: Plan = {
        "app->main->decompose": {
            "visits": lambda p: 0,
            "allocations": lambda p: 4 * p,
            "heap_growth": lambda p: 1e6 * p + 7.68e5,
        },
        "app->main": {
            **HEALTHY["app->main"],
            "visits": lambda p: 0,
            "heap_growth": lambda p: 3e4,
        },
        "app": {
            **HEALTHY["app"],
            "heap_growth": lambda p: 3e4,
            "heap_peak": lambda p: 6e6 + p * (1e4 if is_freed else 1.1e6),
        },
    }

    (statement,) = diagnose(plan, crowded=True).statements

    assert (statement.name, statement.kind) == ("decompose", "memory")
    assert statement.status == ("unclear" if is_freed else "limit")


@pytest.mark.parametrize("is_shared", [True, False])
def test_memory_that_ranks_share_is_not_held_by_each(is_shared):
    """In the peak of each process is all shared memory of its node."""
    call = "MPI_Win_shared_query" if is_shared else "MPI_Barrier"
    plan: Plan = {
        f"app->main->set_up->{call}": {"visits": lambda p: 1},
        "app": {
            **HEALTHY["app"],
            "heap_growth": lambda p: 3e4,
            "memory_rss_peak": lambda p: 5e7 + 1e6 * p,
            "memory_mpi": lambda p: 1e7,
        },
    }

    found = diagnose(plan, crowded=True)

    assert bool([entry for entry in found.statements if entry.kind == "memory"]) != is_shared


@pytest.mark.parametrize(
    ("scales", "partners", "is_named"),
    [
        ((1, 2, 4, 8, 16), lambda p: p - 1, True),
        ((2, 4, 8, 16), lambda p: p - 1, True),
        ((1, 2, 4, 8), lambda p: p - 1, False),
        ((1, 2, 4, 8, 16), lambda p: math.log2(p), False),  # faces of blocks
        ((1, 2, 4, 8, 16), lambda p: {1: 0, 2: 1, 4: 3, 8: 7, 16: 11}[p], False),
    ],
)
def test_sixteen_ranks_tell_all_others_from_neighbours(scales, partners, is_named):
    plan: Plan = {
        "app->main->exchange->MPI_Isend": {
            "visits": lambda p: 6000 * partners(p),
            "messages_sent": lambda p: 6000 * partners(p),
            "partners": partners,
        },
    }

    found = diagnose(plan, scales, crowded=True)

    assert [entry.name for entry in found.limits] == (["exchange"] if is_named else [])
    assert [entry.name for entry in found.statements] == (["exchange"] if is_named else [])


@pytest.mark.parametrize(("size", "metric"), [(1, "bytes_allocated"), (16, "allocations")])
def test_of_more_blocks_their_bytes_are_named_unless_they_grow_faster(size, metric):
    """A string that becomes longer may stay where it is, and counts as a new block each time."""
    plan: Plan = {
        "app->main->add_up": {
            "visits": lambda p: 60,
            "allocations": lambda p: 600 * p,
            "bytes_allocated": lambda p: 60 * 192_000 * p * (1 if size == 1 else p),
        }
    }

    assert {entry.metric for entry in diagnose(plan, crowded=True).statements} == {metric}


def test_a_table_that_doubles_now_and_then_is_estimated_from_the_peak_of_the_process():
    """numbering.py of tests/evaluation: a dictionary of the unknowns of all, and their numbers."""
    sizes = {2: 3e5, 3: 3e5, 4: 6e5, 6: 6e5, 8: 1.3e6, 12: 1.3e6}
    plan: Plan = {
        "app->main->fill": {"visits": lambda p: 1, "heap_growth": lambda p: sizes[p]},
        "app->main": {**HEALTHY["app->main"], "heap_growth": lambda p: sizes[p]},
        "app": {
            **HEALTHY["app"],
            "heap_growth": lambda p: 3e4,
            "memory_rss_peak": lambda p: 5e7 + 3e5 * p,
            "memory_mpi": lambda p: 1e7,
        },
    }

    (statement,) = diagnose(plan, crowded=True).statements

    assert statement.name == "fill"
    assert statement.text.startswith("each rank holds about 300 kB * p outside of the heap")


@pytest.mark.parametrize(
    ("partners", "is_named"),
    [
        (lambda p: p, True),  # each rank looks at the counters of all for work
        (lambda p: min(p - 1, 2), True),
        (lambda p: min(p, 9), False),  # of a grid
    ],
)
def test_messages_of_as_many_ranks_or_of_all_are_none_of_ever_more_neighbours(partners, is_named):
    def received(p: int) -> np.ndarray:
        return 400 * p**0.6 + 20 * np.cos(np.arange(p))

    plan: Plan = {
        "app->main->steal->MPI_Fetch_and_op": {
            "visits": received,
            "messages_received": received,
            "partners": partners,
        }
    }

    diagnosis = diagnose(plan, (2, 4, 8, 12, 16), crowded=True)

    named = [(entry.kind, entry.name) for entry in diagnosis.statements]
    assert named == ([("messages", "steal")] if is_named else [])


@pytest.mark.parametrize(("grown", "is_named"), [(1.0, True), (0.35, False)])
def test_as_many_messages_that_are_ever_larger_are_a_doubt_without_a_law(grown, is_named):
    # Each rank tells a partner what it has heard of all others: less in the first rounds.
    def sent(p: int) -> float:
        return 49_000 * p**grown - 800 * math.ceil(math.log2(p)) ** 2

    plan: Plan = {
        "app->main->gossip->MPI_Isend": {
            "messages_sent": lambda p: 120,
            "bytes_sent": sent,
            "partners": lambda p: math.ceil(math.log2(p)),
        }
    }

    diagnosis = diagnose(plan, (2, 4, 6, 8, 12), target={"p": 1e7}, crowded=True)

    named = [(entry.kind, entry.status, entry.name) for entry in diagnosis.statements]
    assert named == ([("bytes", "unclear", "gossip")] if is_named else [])


@pytest.mark.parametrize(("grown", "is_named"), [(1, True), (0, False)])
def test_ever_larger_messages_through_a_tree_are_a_doubt(grown: int, is_named: bool) -> None:
    """merge_stats.py of tests/evaluation: rank 0 receives dictionaries of others, merged."""

    merged = {2: 39_350, 3: 78_700, 4: 117_450, 6: 195_550, 8: 273_050, 12: 431_650}

    def rounds(p: int) -> int:
        return math.ceil(math.log2(p))

    def received(p: int) -> np.ndarray:
        of_root = merged[p] if grown else 39_350 * rounds(p)
        return np.array([of_root, *[of_root / 3] * (p // 2), *[0.0] * (p - 1 - p // 2)])

    plan: Plan = {
        "app->main->summarise->MPI_Recv": {
            "messages_received": lambda p: on_rank_0(50 * rounds(p), p),
            "bytes_received": received,
            "partners": lambda p: on_rank_0(rounds(p), p),
        }
    }

    diagnosis = diagnose(plan, crowded=True)

    named = [(entry.kind, entry.status, entry.name) for entry in diagnosis.statements]
    assert named == ([("serial", "unclear", "summarise")] if is_named else [])


@pytest.mark.parametrize(("is_doubled", "is_named"), [(True, True), (False, False)])
def test_lists_that_double_in_each_round_are_a_doubt_on_few_ranks(
    is_doubled: bool, is_named: bool
) -> None:
    """tree_lists.c of tests/evaluation: as many messages as faces of a block, ever larger ones."""
    plan: Plan = {
        "app->main->exchange_lists->MPI_Sendrecv": {
            "messages_received": lambda p: 100 * math.log2(p),
            "bytes_received": lambda p: 160_000 * (p - 1 if is_doubled else math.log2(p)),
            "partners": math.log2,
        }
    }

    diagnosis = diagnose(plan, (1, 2, 4, 8), crowded=True)

    named = [(entry.kind, entry.status, entry.name, entry.law) for entry in diagnosis.statements]
    expected = ("bytes", "unclear", "exchange_lists", "160 kB * (p - 1)")
    assert named == ([expected] if is_named else [])
    for entry in diagnosis.statements:
        assert entry.text.endswith(
            "unless each further neighbour in a grid has a larger face: run p = 32"
        )


def test_messages_to_all_ranks_for_work_that_is_shared_dynamically_grow_in_the_mean():
    # Each rank asks all others for tasks: 20 times, and once more for each task that it gets.
    def received(p: int) -> np.ndarray:
        tasks = np.full(p, 280.0)
        tasks[: p // 2] += 10 + p % 5
        tasks[p // 2 :] -= 10 + p % 5
        return 20 * p + tasks

    plan: Plan = {
        "app->main->steal->MPI_Fetch_and_op": {
            "visits": received,
            "messages_received": received,
            "partners": lambda p: p,
        }
    }

    limit = only_limit(diagnose(plan, (2, 4, 8, 12, 16), target={"p": 1e6}, crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("messages", "steal", "20 p + 280")
    assert "messages in the mean" in limit.text


FETCHES = {2: 2, 3: 3, 4: 4, 6: 6, 8: 480, 12: 720}  # a cache has room for six
CALLS = ("MPI_Isend", "messages_sent", "not judged"), ("MPI_Allreduce", "visits", "unclear")


def test_work_that_begins_at_some_scale_is_a_doubt_without_an_amount():
    """cache_cliff.py of tests/evaluation: a cache is too small for seven ranks."""
    plan: Plan = {
        "app->main->interpolate": {"visits": lambda p: 60},
        "app->main->interpolate->fetch": {
            "visits": lambda p: FETCHES[p],
            "time_exclusive": lambda p: 1e-5 * FETCHES[p],
            "heap_growth": lambda p: 4096 * FETCHES[p],  # which the cache frees
        },
    }

    found = diagnose(plan, crowded=True)

    (statement,) = found.statements
    assert (statement.status, statement.kind, statement.name) == (
        "unclear",
        "compute",
        "interpolate",
    )
    assert statement.text == (
        "each rank visits fetch 720 times at p = 12, 6 at p = 6; its steps differ too much to"
        " extrapolate them: run p = 24"
    )
    assert not any(entry.kind == "memory" for entry in found.not_judged)


@pytest.mark.parametrize(("call", "metric", "status"), CALLS)
def test_messages_between_ranks_that_begin_at_some_scale_may_be_of_neighbours(call, metric, status):
    plan: Plan = {
        f"app->main->exchange->{call}": {
            "visits": lambda p: FETCHES[p],
            metric: lambda p: FETCHES[p],
        }
    }

    found = diagnose(plan, crowded=True)

    judged = [entry for entry in (*found.statements, *found.not_judged) if entry.name == "exchange"]
    assert [entry.status for entry in judged] == [status]


EDGES = {2: 84, 3: 120, 4: 120, 6: 169, 8: 169, 12: 240}  # of the largest front of a tree


def test_growth_without_a_law_is_of_the_busiest_rank_where_others_do_less():
    """fronts.cpp of tests/evaluation: half of the ranks send a small front, one a large one."""
    plan: Plan = {
        "app->main->merge->MPI_Send": {
            "visits": lambda p: 20,
            "messages_sent": lambda p: 20,
            "partners": lambda p: 1,
            "bytes_sent": lambda p: 40 * np.where(np.arange(p) == p // 2, EDGES[p] ** 2, 3600),
        },
    }

    (statement,) = diagnose(plan, crowded=True).statements

    assert (statement.status, statement.ranks) == ("unclear", "busiest rank")
    assert statement.text.startswith("busiest rank sends 2.3 MB, growing as p^")


def test_the_run_that_helps_most_is_that_of_the_first_doubt():
    plan: Plan = {
        "app->main->gather->MPI_Allgatherv": {
            "visits": lambda p: 100,
            "bytes_received": lambda p: 4e6 * p**1.3 * (1 + 0.02 * (p % 3)),
        },
        "app->main->fill": {  # of which a model asks for p = 18
            "visits": lambda p: 1,
            "bytes_received": lambda p: 1e6 if p == 12 else 1e3,
        },
    }

    found = diagnose(plan, crowded=True, has_models=True)

    (doubt,) = found.statements
    assert doubt.status == "unclear"
    assert found.next_run == doubt.run == "p = 24"


def test_a_function_is_not_fine_below_one_caller_and_a_limit_below_another():
    """vcycle.f90 of tests/evaluation: the halos of the coarsest grid are filled ever more often."""
    sends = {"partners": lambda p: min(p - 1, 2), "bytes_sent": lambda p: 8.0}
    plan: Plan = {
        "app->main->relax->fill_halo->MPI_Send": {
            **sends,
            "visits": lambda p: 1000,
            "messages_sent": lambda p: 1000,
        },
        "app->main->solve_coarsest->fill_halo->MPI_Send": {
            **sends,
            "visits": lambda p: 60 * p,
            "messages_sent": lambda p: 60 * p,
        },
    }

    found = diagnose(plan, crowded=True)

    (limit,) = found.statements
    assert limit.name == "fill_halo"
    assert limit.name not in [entry.name for entry in found.fine]


@pytest.mark.parametrize(("last", "is_open"), [(125_244, True), (360, False)])
def test_work_that_begins_at_the_largest_scale_is_not_called_fine(last, is_open):
    """tolerance.py of tests/evaluation: intervals are halved from some scale on."""
    plan: Plan = {
        "app->main->integrate": {"visits": lambda p: 40, "time_exclusive": lambda p: 0.5},
        "app->main->integrate->density": {
            "visits": lambda p: last if p == 8 else 120,
            "time_exclusive": lambda p: 1e-5 * (last if p == 8 else 120),
        },
    }

    found = diagnose(plan, (1, 2, 4, 8), crowded=True)

    about = [entry.text for entry in found.statements if entry.status == "unclear"]
    assert about == (
        [
            "each rank visits density 125,244 times at p = 8, 120 at p = 4; its steps differ too"
            " much to extrapolate them: run p = 16"
        ]
        * is_open
    )
    assert ("integrate" in [entry.name for entry in found.fine]) != is_open
