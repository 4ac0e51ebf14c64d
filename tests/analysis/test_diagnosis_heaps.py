"""Diagnosis: heaps that differ between ranks: by pages, by a rank, or by what neighbours need."""

import numpy as np
import pytest

from tests.analysis.programs import (
    HEALTHY,
    Plan,
    Vector,
    diagnose,
    on_rank_0,
    only_limit,
)


def table(held: Vector, visits: int = 1) -> Plan:
    """A function whose table stays, in the heap of the program."""
    return {
        "app": {**HEALTHY["app"], "heap_peak": lambda p: 1e7 + held(p)},
        "app->main": {**HEALTHY["app->main"], "heap_growth": lambda p: 5000 + held(p)},
        "app->main->build": {
            "visits": lambda p: visits,
            "time_exclusive": lambda p: 1e-6,
            "heap_growth": held,
        },
    }


@pytest.mark.parametrize(
    "more",
    [
        lambda p: 4072.0 * (np.arange(p) > 0) * (p >= 6),  # a page, once the block is a large one
        lambda p: 128.0 * np.arange(p) / p,
    ],
)
def test_pages_and_small_blocks_are_no_neighbours(more: Vector):
    limit = only_limit(diagnose(table(lambda p: 12_800.0 * p**2 + more(p)), crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("memory", "build", "12.8 kB * p^2")


def test_a_neighbour_more_is_no_page():
    """Inner ranks of a row of blocks have a second one."""
    held = table(lambda p: 1e5 * p + 1e5 * ((np.arange(p) > 0) & (np.arange(p) < p - 1)))

    assert diagnose(held, crowded=True).limits == ()


@pytest.mark.parametrize(("term", "status"), [(lambda p: p**2, "unclear"), (lambda p: p, None)])
def test_pairs_of_neighbours_have_hardly_any_memory(term: Vector, status: str | None):
    plan = table(lambda p: 12_800.0 * term(p) * 100)

    found = diagnose(plan, (1, 2, 4, 8), crowded=True).statements

    assert [entry.status for entry in found if entry.kind == "memory"] == [status] * bool(status)
    for entry in found:
        assert "unless these are pairs of neighbours in a grid: run p = 32" in entry.text


@pytest.mark.parametrize("scales", [(1, 2, 4, 8), (2, 3, 4, 6, 8, 12)])
def test_what_rank_0_alone_holds_is_a_limit_of_that_rank(scales: tuple[int, ...]):
    def held(p: int) -> np.ndarray:
        return on_rank_0(8e6 * p, p) + 16.0 * np.arange(p)  # small blocks on all

    limit = only_limit(diagnose(table(held), scales, crowded=True))

    assert (limit.kind, limit.name, limit.ranks) == ("memory", "build", "rank 0")
    assert (limit.law, limit.exact, limit.metric) == ("8 MB * p", True, "heap_growth")
    assert limit.text.startswith("rank 0 holds 8 MB * p: 524 GB")


def test_what_rank_0_may_free_again_is_estimated_from_the_peak():
    """Its callers may free what each of many visits returns."""
    plan = table(lambda p: on_rank_0(8e6 * p, p), visits=20)

    found = diagnose(plan, crowded=True).statements

    memory = [entry for entry in found if entry.kind == "memory"]
    assert [entry.exact for entry in memory] == [False]
    assert "(estimated from the peak of the heap)" in memory[0].text


@pytest.mark.parametrize(
    ("function", "named"),
    [("xmalloc", "build"), ("hypre_CAlloc", "build"), ("allocate", "allocate")],
)
def test_a_function_that_allocates_for_others_counts_as_its_caller(function: str, named: str):
    plan = table(lambda p: 12_800.0 * p**2)
    plan[f"app->main->build->{function}"] = plan["app->main->build"]

    limit = only_limit(diagnose(plan, crowded=True))

    assert (limit.kind, limit.name, limit.law) == ("memory", named, "12.8 kB * p^2")
