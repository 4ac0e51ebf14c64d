"""What every process that agents connect to does with messages, answers and errors."""

import asyncio
import time
from types import SimpleNamespace

import pytest
import zmq
import zmq.asyncio

from insitu.server.events import Reply
from insitu.server.listener import Listener
from insitu.wire.codec import decode, encode
from insitu.wire.messages import REFUSED, Ack, Bye, Reject

BYE = Bye(3, (), 7, "{}")


class Recorder(Listener):
    """It keeps what arrives, and fails where it is told to."""

    NAME = "recorder"

    def __init__(self, error: Exception | None = None, send_error: Exception | None = None):
        self.reports, self.events, self.sent = [], [], []
        self.error, self.send_error = error, send_error
        sockets = SimpleNamespace(agents=SimpleNamespace(send_multipart=self._send))
        super().__init__(sockets=sockets, heartbeat_s=1.0, report=self.reports.append)

    async def _send(self, frames, flags):
        assert flags == zmq.NOBLOCK
        self.sent.append(frames)
        if self.send_error:
            raise self.send_error

    async def _handle_message(self, event):
        self.events.append(event)
        if self.error:
            raise self.error

    def take(self, *frames):
        asyncio.run(self._handle_frames(list(frames)))

    def send(self):
        asyncio.run(self._send_answers())


def test_a_message_is_handled_with_its_peer_and_time():
    listener = Recorder()
    before = time.time()

    listener.take(b"n0", encode(BYE))

    (event,) = listener.events
    assert (event.peer, event.message, event.is_trusted) == (b"n0", BYE, False)
    assert before - 1 < event.at < time.time() + 1
    assert (listener.answers, listener.reports, listener.failures) == ([], [], 0)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ((b"\xff",), ""),
        ((b"", encode(BYE)), "a message has 2 frames, not 1"),
        ((), "a message has 0 frames, not 1"),
    ],
)
def test_a_malformed_message_is_refused_and_reported_once(frames, reason):
    listener = Recorder()

    listener.take(b"n0", *frames)
    listener.take(b"n0", *frames)

    assert listener.events == []
    (report,) = listener.reports
    assert report.startswith(f"a message was refused: {reason}")
    assert [peer for peer, _ in listener.answers] == [b"n0", b"n0"]
    reject = decode(listener.answers[0][1])
    assert isinstance(reject, Reject) and reject.code == REFUSED
    assert report.endswith(reject.text) and reason in reject.text


def test_an_error_in_one_message_is_counted_and_the_next_is_handled():
    listener = Recorder(ZeroDivisionError("planted"))

    listener.take(b"n0", encode(BYE))
    listener.take(b"n1", encode(BYE))

    assert [event.peer for event in listener.events] == [b"n0", b"n1"]
    assert listener.failures == 2
    assert listener.reports[0].startswith("internal error in the recorder:\nTraceback")
    assert "ZeroDivisionError: planted" in listener.reports[0]


def test_only_the_peer_that_has_just_asked_learns_the_times_of_its_round_trip():
    listener = Recorder()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    listener.take(b"n0", encode(BYE))

    listener._queue_answer(Reply(b"n0", Ack("i", 3, 0, False)))
    listener._queue_answer(Reply(b"n1", Ack("i", 3, 0, False)))
    listener.send()

    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    (peer, own), (other_peer, other) = listener.sent
    own, other = decode(own), decode(other)
    assert (peer, other_peer) == (b"n0", b"n1")
    assert before <= own.arrived_ns <= own.answered_ns <= after
    assert other == Ack("i", 3, 0, False)


def test_answers_are_sent_once_and_a_peer_that_is_gone_does_not_hold_up_the_others():
    listener = Recorder(send_error=zmq.ZMQError(zmq.EHOSTUNREACH))
    for peer in (b"n0", b"n1"):
        listener._queue_answer(Reply(peer, Ack("i", 1, 0, False)))

    listener.send()
    listener.send()

    assert [peer for peer, _ in listener.sent] == [b"n0", b"n1"]
    assert listener.answers == []


def test_a_request_to_stop_is_an_event():
    listener = Recorder()
    assert not listener.stop.is_set()

    listener.request_stop()

    assert listener.stop.is_set()


def test_all_messages_that_are_there_are_handled_in_one_burst():
    async def burst() -> Recorder:
        with zmq.asyncio.Context() as context:
            listener = Recorder()
            agents, agent = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
            listener.sockets.agents = agents
            try:
                agent.connect(f"tcp://127.0.0.1:{agents.bind_to_random_port('tcp://127.0.0.1')}")
                for _ in range(3):
                    await agent.send(encode(BYE))
                while len(listener.events) < 3:
                    await asyncio.wait_for(listener._receive_burst(), 30)
            finally:
                agent.close(0)
                agents.close(0)
        return listener

    listener = asyncio.run(burst())

    assert [event.message for event in listener.events] == [BYE] * 3
    assert listener.reports == []
