"""The nodes of a run as a campaign stores them."""

import json

import pytest

from insitu.campaign.node_facts import NODES, RunNode, nodes_of
from insitu.entities import Configuration, RunKey, RunRecord, RunState


def run_with(nodes):
    configuration = Configuration.of({NODES: nodes})
    return RunRecord("id", RunKey.of({"p": 3}), RunState.COMPLETE, configuration=configuration)


def test_each_node_has_its_ranks_and_facts():
    stored = [
        {"name": "n1", "ranks": [0, 1], "mhz": 2500, "load": 0.5},
        {"name": "n2", "ranks": [2]},
    ]

    nodes = nodes_of(run_with(json.dumps(stored)))

    facts = {"mhz": 2500, "load": 0.5}
    assert nodes == [RunNode("n1", (0, 1), facts), RunNode("n2", (2,), {})]


def test_what_is_no_node_is_skipped():
    stored = [3, {"name": "n1"}, {"name": "n2", "ranks": 2}, {"ranks": [0, "x", 1]}]

    assert nodes_of(run_with(json.dumps(stored))) == [RunNode("", (0, 1), {})]


@pytest.mark.parametrize("text", ["", "{", '{"ranks": [0]}', "[" * 100_000])
def test_damaged_facts_are_no_nodes(text):
    assert nodes_of(run_with(text)) == []
