"""Diagnosis: one rank exchanges messages with all others, from some number of ranks on."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.analysis.programs import Plan, diagnose, on_rank_0

Counts = Callable[[int], object]


def sum_of_parts(messages: Counts) -> Plan:
    """What a sum receives that a tree makes as long as its buffer suffices."""
    return {
        "app->main->sum_on_root->MPI_Recv": {
            "visits": messages,
            "messages_received": messages,
            "bytes_received": lambda p: 32_000 * np.asarray(messages(p)),
        }
    }


def test_a_rank_that_receives_from_all_others_from_8_ranks_on_is_unclear() -> None:
    """fallback.c of tests/evaluation."""
    plan = sum_of_parts(lambda p: on_rank_0(60 * (p - 1) * (p >= 8), p))

    (statement,) = diagnose(plan, crowded=True, target={"p": 4096.0}).statements

    assert (statement.kind, statement.status, statement.name) == (
        *("serial", "unclear"),
        "sum_on_root",
    )
    assert statement.law == "60 (p - 1)"
    assert statement.text.endswith("if it goes on as from p = 8 on, where it begins")


@pytest.mark.parametrize(
    "messages",
    [
        lambda p: on_rank_0(60 * (p - 1) * (p >= 12), p),  # at one scale: it may be any growth
        lambda p: on_rank_0(180 * (p >= 8), p),  # as many to three ranks, as in a tree
        lambda p: np.full(p, 60.0 * (p - 1) * (p >= 8)),  # on all ranks: these may be neighbours
        lambda p: on_rank_0(60 * (p - 1) * (3 <= p <= 6), p),  # the other way round
    ],
)
def test_other_messages_that_begin_at_some_scale_are_no_funnel(messages: Counts) -> None:
    diagnosis = diagnose(sum_of_parts(messages), crowded=True)

    assert not any("where it begins" in entry.text for entry in diagnosis.statements)
