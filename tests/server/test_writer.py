"""What the writer of a campaign makes durable, and what it reports when it cannot."""

import os
import resource
from contextlib import contextmanager

import pytest

from insitu.campaign.store import open_store
from insitu.entities import RANK_SIGNAL, Finding, RunState
from insitu.errors import CampaignError
from insitu.server.events import MessageArrived, Reply, Report, StopRequested, Tick
from insitu.server.writer import CampaignWriter
from insitu.wire.messages import Ack
from tests.support.nodes import RUN, ModelNode, column


def open_writer(campaign):
    writer = CampaignWriter(str(campaign), instance="i1", heartbeat_s=1.0)
    writer.replay(0.0)
    return writer


def live(writer, node, *, seq=1):
    node.token = writer.token
    effects = []
    for message in node.messages(seq):
        effects = writer.handle(MessageArrived(node.name.encode(), message, 0.0))
    return effects


def has_durable_ack(effects):
    acks = [e.message for e in effects if isinstance(e, Reply) and isinstance(e.message, Ack)]
    return any(ack.is_durable for ack in acks)


def findings_of(effects):
    return [effect.finding for effect in effects if isinstance(effect, Report)]


@contextmanager
def full_disk():
    """Let no file grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_repetitions_are_numbered_in_the_order_of_storing(tmp_path):
    with open_writer(tmp_path) as writer:
        for run in "abc":
            live(writer, ModelNode("n0", [0], 1, run=run * 32))

        assert [str(record.key) for record in writer.store.runs()] == [
            "p=1,n=4#0",
            "p=1,n=4#1",
            "p=1,n=4#2",
        ]


def test_a_run_that_is_completed_keeps_its_number(tmp_path):
    a, b = ModelNode("n0", [0], 2), ModelNode("n1", [1], 2)
    with open_writer(tmp_path) as writer:
        live(writer, a)
        writer.handle(StopRequested(1.0))
        live(writer, ModelNode("n0", [0, 1], 2, run="f" * 32))
        live(writer, b)

        states = {str(record.key): record.state for record in writer.store.runs()}
    assert states == {"p=2,n=4#0": RunState.COMPLETE, "p=2,n=4#1": RunState.COMPLETE}


def test_the_totals_of_a_lost_node_survive_in_the_journal(tmp_path):
    a, b = ModelNode("n0", [0], 2), ModelNode("n1", [1], 2)
    with open_writer(tmp_path) as writer:
        a.token = writer.token
        for message in a.messages()[:3]:  # it is killed before its end
            writer.handle(MessageArrived(b"a", message, 0.0))
        writer.handle(StopRequested(1.0))

    with open_writer(tmp_path) as writer:
        live(writer, b)
        writer.handle(StopRequested(2.0))

        (record,) = writer.store.runs()
        assert record.missing == (0,)
        assert column(writer.store.table(RUN), 0) == a.truth(0)


def test_a_signal_that_was_added_to_an_incomplete_run_stays_when_it_is_stored_again(tmp_path):
    with open_writer(tmp_path) as writer:
        live(writer, ModelNode("n0", [0], 2))
        writer.handle(StopRequested(1.0))
    signal = Finding(RANK_SIGNAL, "signal 11 (SIGSEGV) ended rank 1", RUN)
    with open_store(str(tmp_path)) as store:
        (record,) = store.runs()
        assert record.state is RunState.INCOMPLETE
        store.add_findings(record.id, [signal])

    with open_writer(tmp_path) as writer:
        writer.handle(StopRequested(1.0))
        (record,) = writer.store.runs()

    assert [finding for finding in record.findings if finding.code == RANK_SIGNAL] == [signal]


def test_nothing_is_acknowledged_as_durable_while_the_disk_is_full(tmp_path):
    with open_writer(tmp_path) as writer:
        with full_disk():
            effects = live(writer, ModelNode("n0", [0], 1))
        later = writer.handle(Tick(1.0))

        assert not has_durable_ack(effects)
        assert [finding.code for finding in findings_of(effects)] == ["not-kept"]
        assert has_durable_ack(later)
        assert writer.store.runs()[0].state is RunState.COMPLETE


def test_a_full_disk_is_reported_once(tmp_path):
    with open_writer(tmp_path) as writer, full_disk():
        live(writer, ModelNode("n0", [0], 1))
        writer.handle(Tick(1.0))

        assert findings_of(writer.handle(Tick(2.0))) == []


def test_a_complete_run_leaves_no_journal(tmp_path):
    with open_writer(tmp_path) as writer:
        live(writer, ModelNode("n0", [0], 1))

    assert "aggregator.journal" not in os.listdir(tmp_path)


def test_an_aggregator_that_cannot_start_removes_nothing(tmp_path):
    with open_writer(tmp_path) as writer:
        live(writer, ModelNode("n0", [0], 2))
        size = os.path.getsize(tmp_path / "aggregator.journal")
        with pytest.raises(CampaignError, match="another aggregator"):
            open_writer(tmp_path)

    assert os.path.getsize(tmp_path / "aggregator.journal") == size


def test_values_that_are_equal_on_all_nodes_are_listed_once(tmp_path):
    with open_writer(tmp_path) as writer:
        live(writer, ModelNode("n0", [0], 2))
        live(writer, ModelNode("n1", [1], 2))

        configuration = writer.store.runs()[0].configuration
    assert configuration["command"] == "heat '-n 4'"
    assert configuration["cost"] == 'n0 {"agent_cpu_s": 0.1}, n1 {"agent_cpu_s": 0.1}'
