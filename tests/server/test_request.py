"""What a relay says in one conversation, and what it makes of the answers."""

import pytest

from insitu.server.relay.request import Outcome, Request
from insitu.wire.messages import (
    NO_SESSION,
    REFUSED,
    Ack,
    Bye,
    Digest,
    Hello,
    Paths,
    Reject,
    Totals,
    Welcome,
)
from tests.support.nodes import ModelNode


def errand_of(*seqs):
    node = ModelNode("n0", [0], 1)
    node.work("solve")
    words = [node.totals(seq) for seq in seqs]
    return Request(node.hello(), (node.dictionary(),), node.digest(), (*words, node.bye(seqs[-1])))


def play(request, *answers):
    """All that it says."""
    said = [request.begin()]
    for answer in answers:
        said.append(request.answered(answer))
    return said


def test_all_is_said_in_order_and_is_done_when_the_end_is_durable():
    request = errand_of(3, 4)

    said = play(
        request,
        Welcome("i", 0, 0, 1000),
        Ack("i", 0, 0, False),
        Ack("i", 0, 2, False),
        Ack("i", 3, 2, False),
        Ack("i", 4, 2, False),
        Ack("i", 4, 2, True),
    )

    assert [type(m) for m in said[:-1]] == [Hello, Digest, Paths, Totals, Totals, Bye]
    assert [m.seq for m in said if isinstance(m, Totals)] == [3, 4]
    assert (said[-1], request.outcome) == (None, Outcome.DONE)


def test_what_the_aggregator_has_is_not_said_again():
    request = errand_of(3, 4)

    said = play(request, Welcome("i", 2, 3, 1000), Ack("i", 4, 2, False))

    assert [type(m) for m in said] == [Hello, Totals, Bye]
    assert said[1].seq == 4


def test_a_digest_that_is_known_spares_the_names():
    said = play(errand_of(1), Welcome("i", 0, 0, 1000), Ack("i", 0, 2, False))

    assert [type(m) for m in said] == [Hello, Digest, Totals]


@pytest.mark.parametrize(
    "answers",
    [
        [Ack("i", 9, 9, True)],  # to something that was said before
        [Welcome("i", 2, 1, 1000), Ack("i", 1, 2, False)],  # an end that is not on a disk
        [Welcome("i", 2, 1, 1000), Ack("other", 1, 2, True)],
        [Welcome("i", 2, 0, 1000), Ack("i", 0, 2, False)],
        [Welcome("i", 0, 0, 1000), Ack("i", 0, 0, False), Ack("i", 0, 0, False)],
        [Reject(NO_SESSION, "who?")],
        [Welcome("i", 2, 0, 1000), Welcome("i", 2, 0, 1000)],
    ],
)
def test_an_answer_out_of_place_loses_the_request(answers):
    request = errand_of(1)

    assert play(request, *answers)[-1] is None
    assert request.outcome is Outcome.LOST


def test_an_end_that_came_too_late_is_outdated():
    request = errand_of(1)

    assert play(request, Welcome("i", 2, 7, 1000), Ack("i", 7, 2, False))[-1] is None
    assert request.outcome is Outcome.OUTDATED


def test_a_refusal_is_final():
    request = errand_of(1)

    play(request, Reject(REFUSED, "no room"))

    assert (request.outcome, request.refusal) == (Outcome.REFUSED, "no room")
