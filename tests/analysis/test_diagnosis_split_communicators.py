"""Diagnosis: messages in communicators that have all ranks only because these share a node."""

import numpy as np
import pytest

from tests.analysis.programs import SCALES, diagnose, on_rank_0

WHOLE, SPLIT, OF_NODE = 0, 1, 2


def funnel(origin: int):
    """Rank 0 receives a message from each other rank, in a communicator of this origin."""
    return {
        "app->main->collect->MPI_Irecv": {
            "visits": lambda p: on_rank_0(p - 1, p),
            "split_communicator": lambda p: on_rank_0(origin, p) if origin else np.nan,
        },
        "app->main->collect->MPI_Waitall": {
            "visits": lambda p: on_rank_0(1, p),
            "messages_received": lambda p: on_rank_0(200.0 * (p - 1), p),
            "bytes_received": lambda p: on_rank_0(1e6 * (p - 1), p),
        },
    }


def gathers(origin: int):
    """Each rank gets 1 MB of each other rank, in a communicator of this origin."""
    return {
        "app->main->exchange->MPI_Allgather": {
            "visits": lambda p: 20,
            "comm_ranks": lambda p: 20 * p,
            "bytes_received": lambda p: 2e7 * p,
            "split_communicator": lambda p: origin or np.nan,
        },
    }


@pytest.mark.parametrize("program", [funnel, gathers])
@pytest.mark.parametrize(
    ("origin", "statuses"), [(WHOLE, ["limit"]), (SPLIT, ["unclear"]), (OF_NODE, [])]
)
def test_growth_in_a_communicator_that_may_be_one_of_a_node_is_not_certain(
    program, origin, statuses
):
    diagnosis = diagnose(program(origin), crowded=True)

    assert [entry.status for entry in diagnosis.statements] == statuses
    for entry in diagnosis.statements:
        text = "unless the communicator, which the program splits off, is one of a node"
        assert (text in entry.text) == (origin == SPLIT)
        assert entry.exact == (origin == WHOLE)


def test_only_the_largest_scale_tells_how_the_ranks_were_split():
    def origin(p):
        return SPLIT if p < SCALES[-1] else np.nan

    plan = gathers(WHOLE)
    plan["app->main->exchange->MPI_Allgather"]["split_communicator"] = origin

    assert [entry.status for entry in diagnose(plan, crowded=True).statements] == ["limit"]
