"""Diagnosis: what a function leaves behind, while other data shrink because ranks share them."""

import numpy as np
import pytest

from tests.analysis.programs import HEALTHY, diagnose

SHARED = 8e6  # bytes in all ranks together
LEFT = 80_000  # bytes for each rank that ten visits leave behind


def plan_of(kept: float):
    """A program that frees what `record` leaves behind but for a share."""

    def left(p):
        return SHARED / p + kept * LEFT * p

    return {
        "app": {**HEALTHY["app"], "heap_peak": lambda p: 2e6 + left(p) + LEFT * p / 10},
        "app->main": {**HEALTHY["app->main"], "heap_growth": left},
        "app->main->record": {"visits": lambda p: 10, "heap_growth": lambda p: LEFT * p},
        # MPI has its own memory, and frees it.
        "app->main->MPI_Init": {"heap_growth": lambda p: 3e6 + 9e5 * (p > 4)},
        "app->main->MPI_Finalize": {"heap_growth": lambda p: -3e6 - 9e5 * (p > 4)},
    }


@pytest.mark.parametrize("scales", [(2, 3, 4, 6, 8, 12), (2, 3, 4, 6, 9)])
@pytest.mark.parametrize(("kept", "law"), [(1, "80 kB * p"), (0, "8 kB * p")])
def test_what_is_left_behind_is_seen_beside_data_that_shrink(scales, kept, law):
    statements = diagnose(plan_of(kept), scales, target={"p": 1e6}).all_statements()

    (statement,) = [entry for entry in statements if entry.name == "record"]
    assert (statement.kind, statement.law) == ("memory", law)


def test_on_three_scales_it_is_not_said_to_be_freed():
    diagnosis = diagnose(plan_of(1), (2, 4, 8), target={"p": 1e5})

    (statement,) = [entry for entry in diagnosis.all_statements() if entry.name == "record"]
    assert "80 kB * p" in statement.text


@pytest.mark.parametrize(("is_kept", "kinds"), [(True, {"memory"}), (False, set())])
def test_what_some_ranks_add_to_the_heap_is_held_if_their_peak_is_higher(is_kept, kinds):
    """Of pySDC: rank r makes arrays r + 1 times, and frees those of the time before."""

    of_others = {1: 3.011e7, 2: 3.159e7, 3: 3.183e7, 4: 3.187e7, 6: 3.194e7, 8: 3.202e7}

    def added(p):
        return 49_000.0 * (np.arange(p) + 1)

    def peak(p):
        return of_others[p] + is_kept * added(p)

    grown = {"visits": lambda p: np.arange(p) + 1, "heap_growth": added}
    plan = {
        "app": {**HEALTHY["app"], "heap_peak": peak},
        "app->main": {**HEALTHY["app->main"], "heap_growth": added},
        "app->main->sweep": {"visits": lambda p: 1, "heap_growth": added},
        "app->main->sweep->integrate": grown,
    }

    statements = diagnose(plan, tuple(of_others), target={"p": 1e5}).all_statements()

    assert {entry.kind for entry in statements if entry.name == "integrate"} & {"memory"} == kinds
