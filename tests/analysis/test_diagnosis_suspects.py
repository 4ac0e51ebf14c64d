"""Diagnosis: what one or two runs let suspect."""

import pytest

from tests.analysis.programs import diagnose


def gathering(received):
    """Calls that receive so many bytes on each rank."""
    return {
        "app->main->collect->MPI_Allgather": {
            "visits": lambda p: 10,
            "bytes_received": received,
            "comm_ranks": lambda p: 10 * p,
        }
    }


def suspects(plan, scales):
    found = diagnose(plan, scales).statements
    return [entry for entry in found if entry.name == "collect" and entry.status == "unclear"]


def test_what_one_run_receives_of_all_ranks_is_suspected_without_a_ratio():
    (suspect,) = suspects(gathering(lambda p: 8000 * p), (8,))

    assert suspect.text == "each rank receives 64 kB at p = 8, possibly 8 kB * p: run p = 16"
    assert (suspect.kind, suspect.ranks) == ("bytes", "all")
    assert (suspect.metric, suspect.unit, suspect.now) == ("bytes_received", "B", 64_000.0)


def test_what_two_runs_receive_has_the_ratio_of_both():
    (suspect,) = suspects(gathering(lambda p: 8000 * p), (4, 8))

    assert suspect.text == (
        "each rank receives 64 kB at p = 8, 2 times as much as at p = 4, possibly 8 kB * p:"
        " run p = 16"
    )


@pytest.mark.parametrize(("each", "law"), [(1, "p"), (21, "21 p"), (200, "200 p")])
def test_a_suspected_multiple_of_all_ranks_is_named_in_full(each: int, law: str):
    plan = {"app->main->collect": {"visits": lambda p: each * p, "time_exclusive": lambda p: 1.0}}

    (suspect,) = suspects(plan, (8, 16))

    assert suspect.law == law
    assert f", possibly {law}: run p = 32" in suspect.text


def test_growth_from_nothing_has_no_ratio():
    (suspect,) = suspects(gathering(lambda p: 8000 * (p - 4)), (4, 8))

    assert "times as much" not in suspect.text


@pytest.mark.parametrize(("last", "is_suspected"), [(4095.0, False), (4096.0, True)])
def test_fewer_bytes_than_a_page_are_not_suspected(last: float, is_suspected: bool):
    found = suspects(gathering(lambda p: last if p == 8 else 100.0), (4, 8))

    assert bool(found) == is_suspected


@pytest.mark.parametrize(("ratio", "is_suspected"), [(1.09, False), (1.1, True)])
def test_a_tenth_more_on_more_ranks_is_suspected(ratio: float, is_suspected: bool):
    found = suspects(gathering(lambda p: 1e6 * ratio if p == 9 else 1e6), (4, 9))

    assert bool(found) == is_suspected
