"""Diagnosis: messages, and collective calls of some of the ranks, that wait for one another."""

import numpy as np
import pytest

from tests.analysis.programs import SCALES, Plan, diagnose


def edges(chain: object) -> Plan:
    """Twelve steps, in each of which a rank calls one or two of its neighbours."""
    return {
        "app->main->merge->MPI_Allreduce": {
            "visits": lambda p: 24 if p > 2 else 12,
            "comm_ranks": lambda p: 48 if p > 2 else 24,
            "bytes_sent": lambda p: 16_000 * (24 if p > 2 else 12),
            "bytes_received": lambda p: 16_000 * (24 if p > 2 else 12),
            "message_chain": chain,
        },
    }


def test_a_chain_of_calls_through_all_ranks_is_named() -> None:
    """pair_chain.cpp of tests/evaluation."""
    diagnosis = diagnose(edges(lambda p: 12 * (p - 1)), crowded=True)

    (statement,) = diagnosis.statements
    assert (statement.kind, statement.status, statement.name) == ("serial", "limit", "merge")
    assert (statement.law, statement.exact) == ("12 (p - 1)", True)
    assert "waits for 12 (p - 1) calls of MPI_Allreduce" in statement.text


@pytest.mark.parametrize("chain", [lambda p: 24, lambda p: 24 + 2 * p, lambda p: 0])
def test_other_chains_of_calls_are_none(chain: object) -> None:
    """Of even and odd edges in turn, or with steps that overlap."""
    assert not diagnose(edges(chain), SCALES, crowded=True).statements


@pytest.mark.parametrize(("length", "is_named"), [(lambda p: p - 1, True), (lambda p: 2, False)])
def test_a_chain_through_all_ranks_is_none_on_two_ranks(length: object, is_named: bool) -> None:
    """A message for which no other one had to arrive is no chain."""
    plan: Plan = {
        "app->main->norm->MPI_Recv": {
            "visits": lambda p: (np.arange(p) > 0) * 1.0,
            "messages_received": lambda p: (np.arange(p) > 0) * 1.0,
            "bytes_received": lambda p: (np.arange(p) > 0) * 8.0,
            "message_chain": lambda p: (np.arange(p) > 0) * (length(p) if p > 2 else 0.0),
        },
    }

    statements = diagnose(plan, (1, 2, 3, 4, 6, 8), crowded=True).statements

    found = [(entry.name, entry.kind, entry.law) for entry in statements]
    assert found == ([("norm", "serial", "p - 1")] if is_named else [])
