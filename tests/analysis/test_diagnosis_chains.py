"""Diagnosis: messages that pass from rank to rank."""

import numpy as np

from tests.analysis.test_diagnosis import Plan, chain, diagnose


def test_a_chain_by_the_numbers_of_messages_has_as_many_as_ranks_that_send():
    plan: Plan = {
        "app->main->spread->MPI_Recv": {"messages_received": lambda p: chain(p)[0]},
        "app->main->spread->MPI_Send": {
            "messages_sent": lambda p: chain(p)[1],
            "bytes_sent": lambda p: np.array(chain(p)[1]) * 1e6,
        },
    }

    (statement,) = diagnose(plan).statements

    assert statement.text.startswith("last rank waits for p - 1 messages one after the other")
    assert statement.then == 65_535
