"""Ingestion: tables that agents left behind enter a campaign exactly once."""

from dataclasses import replace

import pytest

from insitu.campaign.store import open_store
from insitu.entities import RunState
from insitu.errors import CampaignError, WireError
from insitu.server.ingest import Ingestion, fit_into_frames
from insitu.server.writer import CampaignWriter
from insitu.wire.messages import Bye, Totals
from tests.support.nodes import RUN, ModelNode, column

NODES = ModelNode("n0", [0, 1], 3), ModelNode("n1", [2], 3)


def ingest(campaign, *nodes):
    with Ingestion(str(campaign), now=1e9) as ingestion:
        is_durable = [ingestion.take(node.name, node.messages()) for node in nodes]
        return is_durable, ingestion.finish()


def test_the_tables_of_all_nodes_complete_the_run(tmp_path):
    is_durable, (ingested,) = ingest(tmp_path, *NODES)

    assert is_durable == [True, True]
    assert (ingested.name, ingested.state) == ("p=3,n=4#0", RunState.COMPLETE)
    assert ingested.text == "complete, 3 of 3 ranks"
    with open_store(str(tmp_path)) as store:
        assert column(store.table(RUN), 2) == NODES[1].truth(2)


def test_the_tables_of_some_nodes_make_an_incomplete_run_with_its_missing_ranks(tmp_path):
    is_durable, (ingested,) = ingest(tmp_path, NODES[0])

    assert is_durable == [True]
    assert ingested.state is RunState.INCOMPLETE
    assert ingested.text == "incomplete, 2 of 3 ranks; missing: 2"


def test_an_incomplete_run_is_completed_by_later_tables(tmp_path):
    ingest(tmp_path, NODES[0])

    _, (ingested,) = ingest(tmp_path, NODES[1])

    assert ingested.text == "complete, 3 of 3 ranks"
    with open_store(str(tmp_path)) as store:
        (record,) = store.runs()
        assert column(store.table(RUN), 0) == NODES[0].truth(0)
        assert record.missing == ()


def test_ingesting_a_run_twice_has_no_effect(tmp_path):
    ingest(tmp_path, *NODES)

    is_durable, (ingested,) = ingest(tmp_path, *NODES)

    assert is_durable == [True, True]
    assert ingested.text == "was complete before"
    with open_store(str(tmp_path)) as store:
        assert len(store.runs()) == 1


def test_ingesting_an_incomplete_run_twice_keeps_one_run(tmp_path):
    ingest(tmp_path, NODES[0])
    ingest(tmp_path, NODES[0])

    with open_store(str(tmp_path)) as store:
        assert [record.missing for record in store.runs()] == [(2,)]


def test_tables_that_contradict_their_run_are_refused(tmp_path):
    with Ingestion(str(tmp_path), now=1e9) as ingestion:
        ingestion.take("n0", NODES[0].messages())
        with pytest.raises(WireError, match="has 3 ranks"):
            ingestion.take("n1", replace(NODES[1], size=4).messages())


def test_malformed_messages_are_refused(tmp_path):
    with Ingestion(str(tmp_path), now=1e9) as ingestion, pytest.raises(WireError, match="32 hex"):
        ingestion.take("n0", replace(NODES[0], run="../x").messages())


def test_tables_are_not_ingested_while_an_aggregator_runs(tmp_path):
    with (
        CampaignWriter(str(tmp_path), instance="i1", heartbeat_s=1.0),
        pytest.raises(CampaignError, match="another aggregator"),
    ):
        ingest(tmp_path, *NODES)


def test_totals_that_are_larger_than_a_frame_are_ingested_completely(tmp_path):
    node = ModelNode("n0", list(range(100)), 100)
    node.paths += [f"f{i}" for i in range(6000)]
    node.visits = {rank: [1] + [rank + 1] * 6000 for rank in node.ranks}

    with Ingestion(str(tmp_path), now=1e9) as ingestion:
        is_durable = ingestion.take(node.name, node.messages())

    assert is_durable
    with open_store(str(tmp_path)) as store:
        assert column(store.table(RUN), 99) == node.truth(99)


def test_totals_and_the_end_are_numbered_through_after_each_split():
    node = ModelNode("n0", list(range(100)), 100)
    node.paths += [f"f{i}" for i in range(6000)]
    node.visits = {rank: [1] + [rank + 1] * 6000 for rank in node.ranks}

    sent = list(fit_into_frames([*(node.totals(number) for number in (1, 2, 3)), node.bye(3)]))

    numbers = [message.seq for message in sent if isinstance(message, Totals)]
    assert len(numbers) > 4
    assert numbers == list(range(1, len(numbers) + 1))
    assert isinstance(sent[-1], Bye) and sent[-1].final_seq == len(numbers)


def test_models_are_fitted_to_ingested_runs(tmp_path):
    nodes = [ModelNode("n", list(range(p)), p, run=f"{p:032x}") for p in (1, 2, 4, 8, 16)]
    for node in nodes:
        node.work("solve", by=node.size)

    ingest(tmp_path, *nodes)

    with open_store(str(tmp_path)) as store:
        assert {str(model.key.callpath) for model in store.models().models} >= {
            "main",
            "main->solve",
        }
