"""What dead agents left comes in once, through the same state as live messages."""

from dataclasses import replace

import pytest

from insitu.campaign.store import open_store
from insitu.entities import RunState
from insitu.errors import CampaignError, WireError
from insitu.server.ingest import Ingestion
from insitu.server.writer import CampaignWriter
from tests.support.nodes import RUN, ModelNode, column

NODES = ModelNode("n0", [0, 1], 3), ModelNode("n1", [2], 3)


def bring(campaign, *nodes):
    with Ingestion(str(campaign), now=1e9) as ingestion:
        safe = [ingestion.take(node.name, node.messages()) for node in nodes]
        return safe, ingestion.finish()


def test_tables_of_all_nodes_seal_the_run(tmp_path):
    safe, (became,) = bring(tmp_path, *NODES)

    assert safe == [True, True]
    assert (became.name, became.state) == ("p=3,n=4#0", RunState.COMPLETE)
    assert became.text == "sealed, 3 of 3 ranks"
    with open_store(str(tmp_path)) as store:
        assert column(store.table(RUN), 2) == NODES[1].truth(2)


def test_tables_of_some_nodes_make_the_run_partial_and_name_the_missing(tmp_path):
    safe, (became,) = bring(tmp_path, NODES[0])

    assert safe == [True]
    assert became.state is RunState.INCOMPLETE
    assert became.text == "partial, 2 of 3 ranks; missing: 2"


def test_a_partial_run_is_completed_by_what_comes_later(tmp_path):
    bring(tmp_path, NODES[0])

    _, (became,) = bring(tmp_path, NODES[1])

    assert became.text == "sealed, 3 of 3 ranks"
    with open_store(str(tmp_path)) as store:
        (record,) = store.runs()
        assert column(store.table(RUN), 0) == NODES[0].truth(0)
        assert record.missing == ()


def test_what_is_brought_in_twice_does_no_harm(tmp_path):
    bring(tmp_path, *NODES)

    safe, (became,) = bring(tmp_path, *NODES)

    assert safe == [True, True]
    assert became.text == "was sealed before"
    with open_store(str(tmp_path)) as store:
        assert len(store.runs()) == 1


def test_a_partial_run_brought_in_twice_stays_one_run(tmp_path):
    bring(tmp_path, NODES[0])
    bring(tmp_path, NODES[0])

    with open_store(str(tmp_path)) as store:
        assert [record.missing for record in store.runs()] == [(2,)]


def test_tables_of_another_run_than_they_say_are_refused(tmp_path):
    with Ingestion(str(tmp_path), now=1e9) as ingestion:
        ingestion.take("n0", NODES[0].messages())
        with pytest.raises(WireError, match="has 3 ranks"):
            ingestion.take("n1", replace(NODES[1], size=4).messages())


def test_malformed_messages_are_refused(tmp_path):
    with Ingestion(str(tmp_path), now=1e9) as ingestion, pytest.raises(WireError, match="32 hex"):
        ingestion.take("n0", replace(NODES[0], run="../x").messages())


def test_tables_are_not_brought_in_while_an_aggregator_runs(tmp_path):
    with (
        CampaignWriter(str(tmp_path), instance="i1", heartbeat_s=1.0),
        pytest.raises(CampaignError, match="another aggregator"),
    ):
        bring(tmp_path, *NODES)


def test_a_node_with_more_totals_than_a_frame_holds_comes_in_whole(tmp_path):
    node = ModelNode("n0", list(range(100)), 100)
    node.paths += [f"f{i}" for i in range(6000)]
    node.visits = {rank: [1] + [rank + 1] * 6000 for rank in node.ranks}

    with Ingestion(str(tmp_path), now=1e9) as ingestion:
        is_safe = ingestion.take(node.name, node.messages())

    assert is_safe
    with open_store(str(tmp_path)) as store:
        assert column(store.table(RUN), 99) == node.truth(99)


def test_models_are_made_of_what_was_brought_in(tmp_path):
    nodes = [ModelNode("n", list(range(p)), p, run=f"{p:032x}") for p in (1, 2, 4, 8, 16)]
    for node in nodes:
        node.work("solve", by=node.size)

    bring(tmp_path, *nodes)

    with open_store(str(tmp_path)) as store:
        assert {str(one.key.callpath) for one in store.models().models} >= {"main", "main->solve"}
