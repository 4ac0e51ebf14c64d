"""Diagnosis: the hub of an irregular graph of ranks."""

import numpy as np
import pytest

from tests.analysis.programs import SCALES, diagnose


def exchange(degrees):
    """60 steps in each of which a rank sends 16 kB to each of its neighbours."""
    return {
        "app->main->exchange->MPI_Isend": {
            "visits": lambda p: 60 * degrees(p),
            "messages_sent": lambda p: 60 * degrees(p),
            "bytes_sent": lambda p: 960_000 * degrees(p),
            "partners": degrees,
        }
    }


def star(p):
    """A ring with a hub at three quarters of the ranks, which has an edge to each other rank."""
    if p == 1:
        return np.zeros(1)
    ranks = np.arange(p)
    hub = 3 * p // 4
    beside = np.isin(ranks, [(hub + 1) % p, (hub - 1) % p])
    degrees = np.where(beside, min(p - 1, 2), min(p - 1, 3)).astype(float)
    degrees[hub] = p - 1
    return degrees


def grid(p):
    """A ring of pillars: the ranks in the middle touch all others up to 12 ranks."""
    return np.where(np.arange(p) < (p + 1) // 2, p - 1, min(p - 1, 7)).astype(float)


def serial(degrees, scales):
    entries = diagnose(exchange(degrees), scales, crowded=True).statements
    return [entry for entry in entries if entry.kind == "serial"]


@pytest.mark.parametrize(("scales", "status"), [(SCALES, "limit"), ((1, 2, 4, 8), "unclear")])
def test_a_rank_that_sends_to_every_other_one_is_named(scales, status):
    (statement,) = serial(star, scales)

    assert (statement.status, statement.name) == (status, "exchange")
    assert "busiest rank sends 60 (p - 1) messages to all others" in statement.text
    assert ("unless its part of a domain" in statement.text) == (status == "unclear")


@pytest.mark.parametrize("scales", [SCALES, (1, 2, 4, 8)])
def test_several_ranks_that_touch_all_others_are_no_hub(scales):
    assert serial(grid, scales) == []


def test_a_ring_has_no_hub():
    assert serial(lambda p: np.full(p, min(p - 1, 2)), SCALES) == []
