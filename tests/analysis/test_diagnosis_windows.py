"""Diagnosis: windows that MPI allocates, which are larger on more ranks."""

import numpy as np
import pytest

from tests.analysis.programs import Plan, diagnose, on_rank_0, only_limit


def window(size_bytes, visits=1, call="MPI_Win_allocate"):
    """A function that allocates so many bytes in all."""
    values = {
        "visits": lambda p: visits if np.isscalar(visits) else visits(p),
        "window_bytes": size_bytes,
    }
    return {f"app->main->slots->{call}": values}


def test_a_window_of_a_slot_per_rank_is_a_limit():
    limit = only_limit(diagnose(window(lambda p: 80_000 * p)))

    assert (limit.kind, limit.name, limit.metric) == ("memory", "slots", "window_bytes")
    assert limit.exact
    assert "allocates a window of 80 kB * p" in limit.text


def test_the_size_of_each_of_several_windows_counts():
    limit = only_limit(diagnose(window(lambda p: 20 * 80_000 * p, visits=20)))

    assert "allocates a window of 80 kB * p" in limit.text


def test_windows_of_equal_size_are_no_limit():
    assert diagnose(window(lambda p: 80_000)).limits == ()


def test_more_windows_on_more_ranks_may_be_freed_one_by_one():
    diagnosis = diagnose(window(lambda p: 800_000 * p, visits=lambda p: p))

    assert [limit for limit in diagnosis.limits if limit.kind == "memory"] == []
    texts = [entry.text for entry in diagnosis.statements if entry.kind == "memory"]
    assert len(texts) == 1
    assert "if all of them are held at once" in texts[0]


def test_a_window_on_rank_0_is_named_as_such():
    limit = only_limit(diagnose(window(lambda p: on_rank_0(80_000 * p, p))))

    assert limit.text.startswith("rank 0 allocates a window of 80 kB * p")


def test_a_shared_window_whose_first_rank_allocates_for_all_is_no_limit():
    plan = window(lambda p: on_rank_0(80_000 * p, p), call="MPI_Win_allocate_shared")

    diagnosis = diagnose(plan)

    assert not [entry for entry in diagnosis.statements if entry.kind == "memory"]


def test_a_shared_window_that_grows_by_rank_may_depend_on_the_node():
    plan = window(lambda p: 80_000 * p, call="MPI_Win_allocate_shared")

    diagnosis = diagnose(plan)

    assert diagnosis.limits == ()
    (entry,) = [entry for entry in diagnosis.statements if entry.kind == "memory"]
    assert "not for those of a node" in entry.text


@pytest.mark.parametrize(
    ("partners", "is_named"), [(lambda p: p - 1, True), (lambda p: min(p - 1, 2), False)]
)
def test_windows_that_are_opened_to_all_ranks_are_a_limit(partners, is_named):
    """epochs.c of tests/evaluation."""
    plan: Plan = {
        f"app->main->swap_edges->{call}": {
            "visits": lambda p: 500,
            "comm_ranks": lambda p: 500 * partners(p),
        }
        for call in ("MPI_Win_post", "MPI_Win_start")
    }

    statements = diagnose(plan, crowded=True).statements

    assert [(entry.kind, entry.status) for entry in statements] == [
        ("messages", "limit")
    ] * is_named
    assert all(
        entry.text.startswith("each rank begins epochs with 500 (p - 1) ranks in MPI_Win_")
        for entry in statements
    )
