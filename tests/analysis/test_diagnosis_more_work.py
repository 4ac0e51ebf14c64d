"""Work that exact counts show to grow with p, whatever the times: threads, blocks, halves of p."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from insitu.units import quantity
from tests.analysis.programs import (
    HEALTHY,
    Plan,
    diagnose,
    on_rank_0,
    only_limit,
    spread_evenly,
)

EVEN = (2, 4, 8, 16)


def test_a_thread_for_each_other_rank_is_named() -> None:
    """A container that grows starts some of them; listeners.cpp of tests/evaluation."""
    by_vector = {2: 60, 3: 120, 4: 180, 6: 240, 8: 240, 12: 300}
    plan: Plan = {
        "app->main->pack_all": {"time_exclusive": lambda p: 0.1},
        "app->main->pack_all->(thread)": {"visits": lambda p: 60 * (p - 1) - by_vector[p]},
        "app->main->pack_all->std::vector<std::thread>::_M_realloc_insert->(thread)": {
            "visits": lambda p: by_vector[p]
        },
    }

    statement = only_limit(diagnose(plan, crowded=True))

    assert statement.name == "pack_all"
    assert statement.text.startswith("each rank starts 60 (p - 1) threads: 3.93 million of them")


def test_threads_may_be_those_for_neighbours_on_powers_of_two() -> None:
    plan: Plan = {
        "app->main->pack_all->(thread)": {"visits": lambda p: 60 * (p - 1)},
    }

    (statement,) = diagnose(plan, (1, 2, 4, 8), crowded=True).statements

    assert statement.status == "unclear"
    assert "unless these are threads for neighbours in a grid" in statement.text


def test_blocks_of_strings_that_are_joined_for_all_ranks_are_named() -> None:
    plan: Plan = {
        "app->main->status_line": {
            "visits": lambda p: 60,
            "allocations": lambda p: 3600 * p - 960,
            "heap_growth": lambda p: 100_800 * p + 3360,
        },
    }

    statement = only_limit(diagnose(plan, crowded=True))

    assert (statement.name, statement.law) == ("status_line", "3,600 p - 960")
    assert "at least" in statement.text


def test_blocks_for_neighbours_are_no_limit() -> None:
    plan: Plan = {
        "app->main->exchange": {
            "visits": lambda p: 60,
            "allocations": lambda p: np.array([2000.0 * min(p - 1, 26)] * (p - 1) + [2000.0]),
        },
    }

    assert not diagnose(plan, EVEN, crowded=True).limits


@pytest.mark.parametrize(
    ("partners", "status"),
    [
        (lambda p: min(p - 1, 2), "limit"),  # a ring
        (lambda p: math.ceil(math.log2(p)), "limit"),  # a tree
        (lambda p: min(p - 1, 26), "not judged"),
        (lambda p: 0, "not judged"),  # unknown ones
    ],
)
def test_work_for_each_rank_is_told_from_neighbours_by_the_partners_of_messages(
    partners: Callable[[int], int], status: str
) -> None:
    """seeds.py of tests/evaluation, on powers of two."""
    plan: Plan = {
        "app->main->reduce->MPI_Send": {
            "visits": lambda p: 80,
            "messages_sent": lambda p: 80,
            "partners": partners,
        },
        "app->main->make_stream->spawn": {
            "visits": lambda p: 1920 * p + 960,
            "time_exclusive": lambda p: 0.01 * p,
        },
        "app->main->make_stream": {"visits": lambda p: 480},
    }

    diagnosis = diagnose(plan, (1, 2, 4, 8), crowded=True)

    about = [*diagnosis.statements, *diagnosis.not_judged]
    assert [entry.status for entry in about if entry.name == "make_stream"] == [status]


@pytest.mark.parametrize(("partners", "is_named"), [(2, True), (26, False)])
def test_more_messages_to_as_many_neighbours_are_a_limit(partners: int, is_named: bool) -> None:
    """vcycle.f90 of tests/evaluation."""
    plan: Plan = {
        "app->main->swap_ghosts->MPI_Sendrecv": {
            "visits": lambda p: 600 * p + 10_500,
            "messages_received": lambda p: 600 * p + 10_500,
            "partners": lambda p: min(p - 1, partners),
        }
    }

    found = diagnose(plan, (2, 4, 6, 8), crowded=True)

    named = [entry.name for entry in found.limits]
    assert named == ["swap_ghosts"] * is_named


def test_a_halo_as_deep_as_half_the_ranks_has_an_exact_law() -> None:
    """deep_halo.c of tests/evaluation/plants/held_out."""
    plan: Plan = {
        "app->main->exchange->MPI_Sendrecv": {
            "visits": lambda p: 800,
            "messages_received": lambda p: 800,
            "bytes_received": lambda p: 2.56e6 * (2 + p // 2),
            "partners": lambda p: min(p - 1, 2),
        },
    }

    statement = only_limit(diagnose(plan, crowded=True))

    assert statement.law == "2.56 MB * floor(p/2) + 5.12 MB"


@pytest.mark.parametrize(
    ("partners", "names"),
    [
        # Strips of a stencil that reaches over ever more of them; wide_stencil.py of evaluation.
        (lambda r, p: np.minimum(r, p // 4) + np.minimum(p - 1 - r, p // 4), ["fill_halo"]),
        # Two halves of a grid, whose rows become longer.
        (lambda r, p: np.where(r % (p // 2) % (p // 2 - 1), 3, 2) if p > 4 else 2 + 0 * r, []),
    ],
)
def test_messages_of_the_slowest_rank_are_not_fine_if_the_mean_keeps_up(partners, names) -> None:
    plan: Plan = {
        "app": HEALTHY["app"],
        "app->main->fill_halo": {"visits": lambda p: 20, "time_exclusive": lambda p: 0.1},
        "app->main->fill_halo->MPI_Waitall": {
            "visits": lambda p: 20,
            "messages_received": lambda p: 20_000 * partners(np.arange(p), p),
            "bytes_received": lambda p: 4e7,
        },
    }

    diagnosis = diagnose(plan, (4, 8, 16, 24), base={}, crowded=True)

    unjudged = {entry.name for entry in diagnosis.not_judged if entry.callpath}
    assert [name for name in ("fill_halo",) if name in unjudged] == names


@pytest.mark.parametrize(
    ("samples", "names"),
    [
        # Of all ranks together, of the loop over all elements in elements.cpp of tests/evaluation.
        ({2: 96, 3: 99, 4: 118, 6: 145, 8: 141, 12: 174}, ["assemble"]),
        ({2: 96, 3: 90, 4: 104, 6: 95, 8: 112, 12: 106}, []),  # only its own elements
        ({2: 24, 3: 25, 4: 30, 6: 36, 8: 35, 12: 43}, []),  # too few to tell
        ({2: 200, 3: 300, 4: 400, 6: 600, 8: 800, 12: 1200}, []),  # weak scaling
        ({2: 96, 3: 0, 4: 0, 6: 12, 8: 0, 12: 0}, []),  # a loop that was sampled by chance
    ],
)
def test_processor_time_that_does_not_fall_as_shared_work_does_is_unclear(samples, names) -> None:
    interval_s = 0.01
    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 1.0, "time_exclusive": lambda p: 0.1},
        "app->main->assemble": {
            "time_exclusive": lambda p: interval_s * spread_evenly(samples[p], p)
        },
        "app->main->assemble->MPI_Allreduce": {"visits": lambda p: 60},
    }

    diagnosis = diagnose(plan, crowded=True, base={}, sampling_s=interval_s)

    assert [entry.name for entry in diagnosis.statements] == names
    for entry in diagnosis.statements:
        assert (entry.status, entry.kind) == ("unclear", "compute")
        assert "each rank seems to repeat" in entry.text
        of_a_rank = interval_s * samples[12] / 12
        assert entry.now == pytest.approx(of_a_rank)
        assert 0 < entry.seconds < of_a_rank
        assert entry.severity == pytest.approx(entry.seconds / of_a_rank)


@pytest.mark.parametrize(
    ("of_flux", "is_precise", "names"),
    [
        # Of all ranks together, as in faces.cpp of tests/evaluation.
        ({2: 23, 3: 20, 4: 16, 6: 19, 8: 14, 12: 21}, True, ["match_faces"]),
        ({2: 23, 3: 20, 4: 16, 6: 19, 8: 14, 12: 21}, False, []),  # perhaps of another function
        ({2: 23, 3: 35, 4: 46, 6: 69, 8: 92, 12: 140}, True, []),  # weak scaling
        ({2: 1, 3: 1, 4: 1, 6: 1, 8: 1, 12: 1}, True, []),  # hardly any work is shared
    ],
)
def test_sampled_work_that_each_rank_repeats_is_unclear_where_other_work_is_shared(
    of_flux, is_precise, names
) -> None:
    of_faces, interval_s = {2: 5, 3: 9, 4: 21, 6: 25, 8: 39, 12: 47}, 0.01
    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 1.0, "time_exclusive": lambda p: 0.1},
        "app->main->MPI_Allreduce": {"visits": lambda p: 60},
    }
    for name, samples in (("flux", of_flux), ("match_faces", of_faces)):
        plan = {
            **plan,
            f"app->main->{name}": {
                "time_exclusive": lambda p, of=samples: interval_s * spread_evenly(of[p], p)
            },
        }

    found = diagnose(
        plan, crowded=True, base={}, sampling_s=interval_s, is_precise=is_precise
    ).statements

    assert [entry.name for entry in found if "seems to repeat" in entry.text] == names


def test_blocks_that_one_rank_allocates_for_all_are_named() -> None:
    """pvtu.cpp of tests/evaluation: rank 0 copies a text for each of its pieces."""
    plan: Plan = {
        "app->main->add_piece": {
            "visits": lambda p: on_rank_0(960 * p, p),
            "allocations": lambda p: on_rank_0(1920 * p - 3040 + 120 * (p == 2), p),
            "bytes_allocated": lambda p: on_rank_0(2.8e6 * p**2 - 6.1e6, p),
        },
        "app->main->write": {  # as much at all scales
            "visits": lambda p: on_rank_0(10, p),
            "bytes_allocated": lambda p: on_rank_0(1e8, p),
        },
    }

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.ranks) == ("serial", "add_piece", "rank 0")
    assert limit.law == "2.8 MB * p^2 - 6.1 MB"


@pytest.mark.parametrize(
    ("buffers", "is_named"),
    [
        (lambda p: {1: 0, 2: 19.7e6, 4: 38.8e6, 8: 57.5e6}[p], False),  # 0, 1, 2 and 3 neighbours
        (lambda p: 2.18e6 * (p - 1), False),  # 0, 1, 3 and 7 neighbours
        (lambda p: 2.18e6 * p * p, True),
    ],
)
def test_buffers_for_each_neighbour_are_not_judged_on_few_ranks(buffers, is_named) -> None:
    """Particle buffers of Quicksilver, allocated in each of many visits of sampled functions."""
    through_faces = {1: 0, 2: 1, 4: 2, 8: 3}
    plan: Plan = {
        "app->main->exchange->Allocate": {
            "heap_growth": buffers,
            "allocations": lambda p: 100 * p,
            "bytes_allocated": buffers,
            "time_exclusive": lambda p: 0.01,
        },
        "app->main->exchange->MPI_Isend": {
            "visits": lambda p: 100 * through_faces[p],
            "partners": lambda p: through_faces[p],
        },
        "app->main->exchange->MPI_Irecv": {
            "visits": lambda p: 100 * (p - 1),
            "partners": lambda p: p - 1,
        },
    }

    diagnosis = diagnose(plan, (1, 2, 4, 8), crowded=True, target={"p": 65_536.0})

    memory = [entry for entry in diagnosis.statements if entry.kind == "memory"]
    assert bool(memory) == is_named
    if not is_named:
        assert any(
            "neighbours in a grid look alike" in entry.text for entry in diagnosis.not_judged
        )


def test_the_function_in_which_each_rank_is_blocked_is_named() -> None:
    """Ranks that sleep before they write, 25 times; stagger.py of tests/evaluation."""

    def asleep(p: int) -> np.ndarray:
        return 0.1 * np.arange(p) + 0.001

    plan: Plan = {
        "app": {**HEALTHY["app"], "blocked_time": asleep},
        "app->main->advance": {"visits": lambda p: 25, "time_exclusive": lambda p: 0.03 * p},
        "app->main->write": {"visits": lambda p: 25, "time_exclusive": lambda p: asleep(p) + 0.05},
    }

    statements = diagnose(plan, crowded=True).statements

    (statement,) = [entry for entry in statements if entry.metric == "blocked_time"]
    assert (statement.name, statement.status) == ("write", "unclear")
    assert statement.text.endswith("most of it in write on each rank")


def test_what_a_package_imports_when_it_is_first_asked_is_start_up() -> None:
    """`np.random` in main, as in wide_stencil.py of tests/evaluation, whose own work is shared."""
    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 0.02 * p + 0.1 / p},
        "app->main": {"visits": lambda p: 1, "time_exclusive": lambda p: 0.002},
        "app->main->numpy.__getattr__": {
            "visits": lambda p: 1,
            "time": lambda p: 0.02 * p,
            "time_exclusive": lambda p: 0.02 * p,
        },
        "app->main->filter_rows": {
            "visits": lambda p: 20,
            "time_exclusive": lambda p: 0.1 / p,
        },
        "app->main->filter_rows->mean": {
            "visits": lambda p: 1920 / p,
            "time_exclusive": lambda p: 0.1 / p,
        },
    }

    diagnosis = diagnose(plan, EVEN, base={}, crowded=True)

    assert diagnosis.scaling == "strong"
    assert not diagnosis.statements
    assert diagnosis.start_up is not None
    assert diagnosis.start_up.text.startswith("imports 320 ms")


@pytest.mark.parametrize(
    ("samples", "of_others", "name", "is_named"),
    [
        # All pairs of p members: a part of a sample at first; pareto.cpp of tests/evaluation.
        ([0, 0, 0, 20, 48], 10, "rank_front", True),
        ([0, 0, 0, 4, 9], 10, "rank_front", False),  # too few to tell
        ([0, 3, 0, 20, 48], 10, "rank_front", False),  # a law of it may be known
        ([0, 0, 30, 20, 10], 10, "rank_front", False),  # sampled by chance
        ([0, 0, 0, 20, 48], 100, "rank_front", False),  # little of all work
        # Samples of the other function, which has as many less.
        ([0, 0, 0, 20, 48], [20, 40, 80, 100, 112], "rank_front", False),
        ([0, 0, 0, 20, 48], 10, "(thread)->count_up", False),  # on cores that others leave
    ],
)
def test_work_that_small_runs_have_no_sample_of_is_unclear(samples, of_others, name, is_named):
    interval_s, scales = 0.01, (2, 4, 8, 12, 16)
    in_all = dict(zip(scales, samples, strict=True))
    others = of_others if isinstance(of_others, list) else [of_others * p for p in scales]
    others = dict(zip(scales, others, strict=True))
    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 1.0, "time_exclusive": lambda p: 0.1},
        "app->main->evaluate": {
            "time_exclusive": lambda p: interval_s * spread_evenly(others[p], p)
        },
        f"app->main->{name}": {
            "time_exclusive": lambda p: interval_s * spread_evenly(in_all[p], p)
        },
        "app->main->MPI_Allgather": {"visits": lambda p: 30},
    }

    diagnosis = diagnose(plan, scales, crowded=True, base={}, sampling_s=interval_s)

    named = [(entry.status, entry.name) for entry in diagnosis.statements]
    assert named == ([("unclear", name)] if is_named else [])


def copies(calls: Callable[[int], float], visits: Callable[[int], float] = lambda p: 40) -> Plan:
    """A library function in as many visits, with so many calls inside."""
    return {
        "app->main->freeze": {"visits": lambda p: 40, "time_exclusive": lambda p: 1e-4},
        "app->main->freeze->copy.deepcopy": {
            "visits": visits,
            "library_calls": calls,
            "time_exclusive": lambda p: 1e-6 * calls(p),
        },
    }


SITES = {"app->main->freeze->copy.deepcopy": ("/usr/lib/python3.11/copy.py", 128)}


def test_more_calls_inside_a_library_function_are_named() -> None:
    """settings.py of tests/evaluation: a deep copy of a structure with a part for each rank."""
    diagnosis = diagnose(copies(lambda p: 1280 * p + 80), crowded=True, sites=SITES)

    limit = only_limit(diagnosis)
    assert (limit.kind, limit.name, limit.law) == ("compute", "freeze", "1,280 p + 80")
    assert limit.seconds == pytest.approx(1e-6 * (1280 * 65_536 + 80))
    assert "makes 1,280 p + 80 calls inside copy.deepcopy" in limit.text


@pytest.mark.parametrize(
    "plan",
    [
        copies(lambda p: 2640),
        copies(lambda p: 900 * p**0.9 + 50 * (p % 5)),  # by no law
        copies(lambda p: 20 * min(p, 26) * p, lambda p: p),  # in more visits, which have a law
        copies(lambda p: 90 * p * (np.arange(p) == p // 2)),  # on another rank each time
    ],
)
def test_other_calls_inside_library_functions_are_no_limit_of_their_own(plan: Plan) -> None:
    diagnosis = diagnose(plan, crowded=True, sites=SITES)

    assert not [its for its in diagnosis.statements if "inside" in its.text]


@pytest.mark.parametrize(
    ("visits", "seconds", "is_named"),
    [
        (lambda p: 800 * (p == 12), 3.0, True),
        (lambda p: 800 * (p == 12), 0.01, False),  # hardly any of the work
        (lambda p: 2 * (p == 12), 3.0, False),  # no loop
        (lambda p: 800 * (p in (3, 12)), 3.0, False),  # not only on many ranks
    ],
)
def test_work_that_only_the_largest_run_has_is_unclear(
    visits: Callable[[int], float], seconds: float, is_named: bool
) -> None:
    plan: Plan = {
        "app->main->refill": {"visits": visits, "time_exclusive": lambda p: 0.01 * (p == 12)},
        "app->main->refill->fetch": {
            "visits": visits,
            "time_exclusive": lambda p: seconds * (p == 12),
        },
    }

    found = diagnose(plan, crowded=True).statements

    named = [
        (its.kind, its.status, its.name, its.run)
        for its in found
        if "never up to p = 8" in its.text
    ]
    assert named == [("compute", "unclear", "refill", "p = 24")] * is_named


@pytest.mark.parametrize(("visits", "first"), [(2400, "compute"), (3, "memory")])
def test_blocks_of_many_visits_cost_more_time_than_memory(visits: int, first: str) -> None:
    """A property that adds up the boxes of all ranks at each access; box_table.py of
    tests/evaluation. Both are one cause."""
    plan: Plan = {
        "app->main->starts": {
            "visits": lambda p: visits,
            "time_exclusive": lambda p: 1e-6 * visits,
            "heap_growth": lambda p: 0,
            "allocations": lambda p: visits,
            "bytes_allocated": lambda p: visits * 160_000 * p,
        },
    }

    (statement,) = diagnose(plan, crowded=True, target={"p": 4096.0}).statements

    assert (statement.kind, statement.name) == (first, "starts")
    assert len(statement.also) == (1 if first == "compute" else 0)


@pytest.mark.parametrize(("of_caller", "is_named"), [(0, True), (9, False)])
def test_samples_that_count_for_a_caller_that_polls_are_no_new_work(of_caller, is_named) -> None:
    """A function with fewer than ten samples in all ranks stands below its caller;
    healthy_nbx.c of tests/evaluation."""
    interval_s, scales = 0.01, (2, 3, 4, 6, 8, 12)
    of_advance = {2: 0, 3: 0, 4: 0, 6: 14, 8: 20, 12: 31}

    def samples(counts):
        return lambda p: interval_s * spread_evenly(counts[p], p)

    plan: Plan = {
        "app": {"visits": lambda p: 1, "time": lambda p: 1.0, "time_exclusive": lambda p: 0.1},
        "app->main": {
            "time_exclusive": samples({p: of_caller * (p <= 4) for p in scales}),
        },
        "app->main->advance": {"time_exclusive": samples(of_advance)},
        "app->main->exchange": {"time_exclusive": samples({p: 10 * p for p in scales})},
        "app->main->exchange->MPI_Iprobe": {"visits": lambda p: 1e6 * p},
    }

    statements = diagnose(
        plan, scales, crowded=True, base={}, sampling_s=interval_s, is_precise=True
    ).statements

    named = [entry.name for entry in statements]
    assert named == (["advance"] if is_named else [])


def test_memory_and_what_a_call_receives_are_two_causes() -> None:
    """A table with an entry for each rank, and an allgather of larger ones."""
    plan: Plan = {
        "app->main->scratch": {
            "visits": lambda p: 60,
            "time_exclusive": lambda p: 1e-4,
            "heap_growth": lambda p: 0,
            "allocations": lambda p: 60,
            "bytes_allocated": lambda p: 60 * 400_000 * p,
        },
        "app->main->scratch->MPI_Allgather": {
            "visits": lambda p: 60,
            "bytes_received": lambda p: 60 * 400_000 * p,
            "bytes_sent": lambda p: 60 * 400_000,
            "comm_ranks": lambda p: 60 * p,
        },
    }

    statements = diagnose(plan, crowded=True, target={"p": 4096.0}).statements

    assert {entry.kind for entry in statements} >= {"memory", "bytes"}


def law_of_visits(count: Callable[[int], float], scales: tuple[int, ...]) -> tuple[str, str | None]:
    """What is said of a function that each of ten visits of its caller visits so often."""
    plan: Plan = {
        "app->main->sort": {"visits": lambda p: 10},
        "app->main->sort->compare": {
            "visits": lambda p: 1e5 * count(p),
            "time_exclusive": lambda p: 1e-2 * count(p),
        },
    }
    found = diagnose(plan, scales, crowded=True)
    (entry,) = (each for each in found.all_statements() if each.law is not None)
    return entry.status, entry.law


@pytest.mark.parametrize(
    ("count", "law"),
    [
        (lambda p: p * math.log2(p), "100,000 p log2(p)"),
        (lambda p: p**1.5, "100,000 p^(3/2)"),
        (lambda p: math.log2(p) ** 2, "100,000 log2(p)^2"),
        (lambda p: math.log2(p) * (math.log2(p) + 1) / 2, "50,000 (log2(p)^2 + log2(p))"),
    ],
)
def test_laws_that_neighbours_do_not_follow_are_judged_on_few_ranks(
    count: Callable[[int], float], law: str
) -> None:
    assert law_of_visits(count, (2, 4, 8, 16, 32)) == ("limit", law)
    assert law_of_visits(count, (1, 2, 4, 8)) == ("unclear", law)


def test_a_logarithm_may_be_that_of_sides_up_to_64_ranks() -> None:
    """A block has another neighbour for each doubling of p, up to six of them."""
    assert law_of_visits(math.log2, (2, 4, 8, 16, 32)) == ("not judged", "100,000 log2(p)")
    assert law_of_visits(math.log2, (4, 8, 16, 32, 128))[0] in ("limit", "warning")


def test_growth_without_a_law_is_told_from_its_lower_to_its_upper_bound() -> None:
    received = {2: 10.0, 4: 14.0, 8: 25.0, 16: 70.0}
    plan: Plan = {
        "app->main->collect->MPI_Allgatherv": {
            "visits": lambda p: 50,
            "bytes_received": lambda p: 1e5 * received[p],
            "comm_ranks": lambda p: p,
        }
    }

    (entry,) = diagnose(plan, (2, 4, 8, 16), crowded=True, target={"p": 1024.0}).statements

    assert (entry.status, entry.law) == ("unclear", "p^0.8 to p^1.5")
    low, high = 7e6 * 64 ** np.log2(25 / 14), 7e6 * 64 ** np.log2(70 / 25)
    assert (entry.low, entry.high) == (pytest.approx(low), pytest.approx(high))
    assert f"{quantity(low, 'B')} to {quantity(high, 'B')}, up to " in entry.text
