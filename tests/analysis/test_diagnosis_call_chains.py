"""Diagnosis: collective calls of some of the ranks that wait for one another."""

import pytest

from tests.analysis.test_diagnosis import SCALES, Plan, diagnose


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
