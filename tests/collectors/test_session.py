"""The agent's side of the protocol, event by event."""

import random

import pytest

from insitu.collectors.session import ANSWER_WITHIN_S, HELLO_EVERY_S, AgentSession, Step
from insitu.wire.messages import NO_SESSION, REFUSED, Ack, Halt, Reject, Welcome

WELCOME = Welcome(instance="a", known=0, last_seq=0, beat_ms=500)


def step(session: AgentSession, now: float, *, has_data=True, has_ended=False, rows=0) -> Step:
    return session.step(now, has_data=has_data, has_ended=has_ended, rows=rows)


def welcomed() -> AgentSession:
    session = AgentSession()
    assert step(session, 0) is Step.HELLO
    session.receive(WELCOME)
    return session


def test_hello_comes_before_data_and_is_repeated_until_it_is_answered():
    session = AgentSession()

    steps = [step(session, now * HELLO_EVERY_S / 2) for now in range(5)]

    assert steps == [Step.HELLO, Step.NOTHING, Step.HELLO, Step.NOTHING, Step.HELLO]


def test_one_message_is_outstanding():
    session = welcomed()

    assert [step(session, 1), step(session, 2)] == [Step.TOTALS, Step.NOTHING]
    session.receive(Ack("a", 1, 5, False))

    assert step(session, 3) is Step.TOTALS
    assert (session.known_rows, session.sequence) == (5, 2)


def test_bye_follows_the_last_totals_until_it_is_durable():
    session = welcomed()

    assert step(session, 1, has_data=False, has_ended=True) is Step.BYE
    session.receive(Ack("a", 1, 5, False))
    assert step(session, 2, has_data=False, has_ended=True) is Step.BYE
    session.receive(Ack("a", 1, 5, True))

    assert session.is_durable
    assert step(session, 3, has_data=False, has_ended=True) is Step.NOTHING


def test_after_welcome_totals_do_not_wait_for_the_next_hello():
    """A watchdog that used the send time from before Welcome would repeat Hello for ever."""
    session = AgentSession()
    step(session, 0)
    session.receive(WELCOME)

    later = ANSWER_WITHIN_S + 1

    assert step(session, later) is Step.TOTALS
    assert step(session, later + 0.1) is Step.NOTHING
    assert session.is_welcome


def test_after_a_lost_connection_hello_is_sent_first():
    """Data sent before Hello after a silent reconnect were refused, and the session never
    finished."""
    session = welcomed()
    step(session, 1)

    session.lose()

    assert step(session, 1.1) is Step.HELLO


@pytest.mark.parametrize("answer", [Ack("b", 1, 5, False), Reject(NO_SESSION, "who are you?")])
def test_a_new_aggregator_gets_hello_first(answer):
    session = welcomed()
    step(session, 1)

    session.receive(answer)

    assert step(session, 1.1) is Step.HELLO


def test_an_unanswered_message_ends_the_session():
    session = welcomed()
    step(session, 1)

    assert step(session, 1 + ANSWER_WITHIN_S) is Step.HELLO


@pytest.mark.parametrize("answer", [Reject(REFUSED, "wrong token"), Halt("enough")])
def test_a_refused_session_sends_nothing(answer):
    session = welcomed()

    session.receive(answer)

    assert step(session, 100) is Step.NOTHING
    assert session.refusal in ("wrong token", "enough")


def test_an_old_ack_before_welcome_changes_nothing():
    session = AgentSession()
    step(session, 0)

    session.receive(Ack("a", 9, 9, True))

    assert not session.is_durable
    assert session.known_rows == 0


def test_the_sequence_continues_from_the_aggregators():
    session = AgentSession()
    step(session, 0)
    session.receive(Welcome(instance="a", known=7, last_seq=41, beat_ms=500))

    assert step(session, 1) is Step.TOTALS
    assert (session.sequence, session.known_rows, session.heartbeat_s) == (42, 7, 0.5)


def test_call_paths_are_sent_as_a_digest_first():
    session = welcomed()

    first = step(session, 1, rows=5)
    session.receive(Ack("a", 0, 5, False))  # another node has sent them

    assert [first, step(session, 1.1, rows=5)] == [Step.DIGEST, Step.TOTALS]


def test_call_paths_unknown_to_the_aggregator_are_sent_with_their_names():
    session = welcomed()

    steps = []
    for known in (0, 3, 5, 5):  # in two parts
        steps.append(step(session, 1, rows=5))
        session.receive(Ack("a", session.sequence, known, False))

    assert steps == [Step.DIGEST, Step.PATHS, Step.PATHS, Step.TOTALS]


def test_totals_that_were_not_accepted_are_due_again():
    session = welcomed()
    step(session, 1)

    session.receive(Ack("a", 0, 0, False))
    was_behind = session.is_behind
    step(session, 1.1)

    assert (was_behind, session.is_behind) == (True, False)


def test_after_a_second_welcome_outstanding_totals_are_due_again():
    """The next part of totals followed a part that was lost, and the Bye covered both."""
    session = welcomed()
    step(session, 1)

    session.receive(WELCOME)

    assert session.is_behind


@pytest.mark.parametrize("seed", range(20))
def test_the_sequence_never_goes_back_and_each_message_of_totals_has_its_own(seed):
    rng, session, numbers, now = random.Random(seed), AgentSession(), [], 0.0
    for _ in range(60):
        now += rng.choice([0.1, 1.0, ANSWER_WITHIN_S, HELLO_EVERY_S])
        before = session.sequence
        if step(session, now) is Step.TOTALS:
            numbers.append(session.sequence)
        instance, seq = rng.choice("ab"), rng.randint(0, session.sequence + 2)
        answers = [
            Welcome(instance, 0, seq, 500),
            Ack(instance, min(seq, session.sequence), 0, False),
            Reject(NO_SESSION, ""),
            None,
        ]
        answer = rng.choice(answers)
        if answer is not None:
            session.receive(answer)
        assert session.sequence >= before

    assert numbers == sorted(set(numbers))
    assert len(numbers) > 5


@pytest.mark.parametrize("answer", [Reject(NO_SESSION, ""), Ack("b", 0, 0, False)])
def test_after_a_loss_call_paths_are_sent_as_a_digest_again(answer):
    session = welcomed()
    assert step(session, 1, rows=5) is Step.DIGEST
    session.receive(answer)

    assert step(session, 2, rows=5) is Step.HELLO
    session.receive(WELCOME)

    assert step(session, 3, rows=5) is Step.DIGEST
    session.receive(Ack("a", 0, 0, False))
    assert step(session, 4, rows=5) is Step.PATHS
