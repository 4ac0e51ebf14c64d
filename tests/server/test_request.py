"""The messages of a request, and what follows from the answers."""

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


def request_of(*seqs):
    node = ModelNode("n0", [0], 1)
    node.work("solve")
    totals = [node.totals(seq) for seq in seqs]
    return Request(node.hello(), (node.dictionary(),), node.digest(), (*totals, node.bye(seqs[-1])))


def play(request, *answers):
    """Return all messages that the request sends."""
    sent = [request.begin()]
    for answer in answers:
        sent.append(request.handle_answer(answer))
    return sent


def test_a_request_is_sent_in_order_and_is_done_when_its_end_is_durable():
    request = request_of(3, 4)

    sent = play(
        request,
        Welcome("i", 0, 0, 1000),
        Ack("i", 0, 0, False),
        Ack("i", 0, 2, False),
        Ack("i", 3, 2, False),
        Ack("i", 4, 2, False),
        Ack("i", 4, 2, True),
    )

    assert [type(m) for m in sent[:-1]] == [Hello, Digest, Paths, Totals, Totals, Bye]
    assert [m.seq for m in sent if isinstance(m, Totals)] == [3, 4]
    assert (sent[-1], request.outcome) == (None, Outcome.DONE)


def test_known_totals_are_not_sent_again():
    request = request_of(3, 4)

    sent = play(request, Welcome("i", 2, 3, 1000), Ack("i", 4, 2, False))

    assert [type(m) for m in sent] == [Hello, Totals, Bye]
    assert sent[1].seq == 4


def test_rows_with_a_known_digest_are_not_sent():
    sent = play(request_of(1), Welcome("i", 0, 0, 1000), Ack("i", 0, 2, False))

    assert [type(m) for m in sent] == [Hello, Digest, Totals]


@pytest.mark.parametrize(
    "answers",
    [
        [Ack("i", 9, 9, True)],  # to an earlier message
        [Welcome("i", 2, 1, 1000), Ack("i", 1, 2, False)],  # an end that is not on a disk
        [Welcome("i", 2, 1, 1000), Ack("other", 1, 2, True)],
        [Welcome("i", 2, 0, 1000), Ack("i", 0, 2, False)],
        [Welcome("i", 0, 0, 1000), Ack("i", 0, 0, False), Ack("i", 0, 0, False)],
        [Reject(NO_SESSION, "who?")],
        [Welcome("i", 2, 0, 1000), Welcome("i", 2, 0, 1000)],
    ],
)
def test_an_unexpected_answer_fails_the_request(answers):
    request = request_of(1)

    assert play(request, *answers)[-1] is None
    assert request.outcome is Outcome.FAILED


def test_a_bye_older_than_the_aggregators_totals_is_outdated():
    request = request_of(1)

    assert play(request, Welcome("i", 2, 7, 1000), Ack("i", 7, 2, False))[-1] is None
    assert request.outcome is Outcome.OUTDATED


def test_a_refusal_is_final():
    request = request_of(1)

    play(request, Reject(REFUSED, "no room"))

    assert (request.outcome, request.refusal) == (Outcome.REFUSED, "no room")
