"""Runs on one node have no law of messages between nodes, and predictions say so."""

import json
from collections.abc import Iterable

import numpy as np
import pytest

from insitu.analysis.diagnosis.gather import gather
from insitu.analysis.diagnosis.nodes import find_node_boundary
from insitu.analysis.diagnosis.statements import Statement
from insitu.analysis.node_boundary import node_boundary
from insitu.analysis.predict import node_notes
from insitu.entities import (
    BYTES_SENT,
    TIME,
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import RefitOptions, remodel

SCALES = (2, 4, 8, 16)
PROCESSORS = 16  # of each node
SENDING = CallPath.parse("app->main->exchange->MPI_Send")
WORKING = CallPath.parse("app->main->work")


def record_of(p: int, n_nodes: int | None, state: RunState = RunState.COMPLETE) -> RunRecord:
    """A run on nodes that have as many ranks each; None: its nodes are unknown."""
    nodes = [
        {"name": f"n{i}", "ranks": list(range(i, p, n_nodes)), "processors": PROCESSORS}
        for i in range(n_nodes or 0)
    ]
    configuration = Configuration.of({"nodes": json.dumps(nodes)})
    return RunRecord(str(p), RunKey.of({"p": p}), state, configuration=configuration)


def experiment_of(path: CallPath, scales: Iterable[int], crowded_from: float) -> Experiment:
    runs = []
    for p in scales:
        values = {TIME.name: np.full((1, p), 1.0 + 0.1 * p), BYTES_SENT.name: np.full((1, p), 8.0)}
        if path == WORKING:
            del values[BYTES_SENT.name]
        metrics = tuple(metric for metric in (TIME, BYTES_SENT) if metric.name in values)
        runs.append((RunKey.of({"p": p}), RunTable((path,), metrics, values)))
    crowded = {key: 1 for key, _ in runs if key.size >= crowded_from}
    return Experiment(("p",), tuple(runs), crowded=crowded)


def statements(
    nodes: dict[int, int | None],
    target: float,
    path: CallPath = SENDING,
    crowded_from: float = np.inf,
) -> list[Statement]:
    experiment = experiment_of(path, nodes, crowded_from)
    records = [record_of(p, n_nodes) for p, n_nodes in nodes.items()]
    return list(find_node_boundary(gather(experiment, {}, {}), records, target))


def test_times_of_messages_between_nodes_are_not_judged_from_one_node():
    (statement,) = statements(dict.fromkeys(SCALES, 1), 1024)

    assert statement.status == "not judged"
    assert statement.text == (
        "times of messages between nodes: all runs were on one node, and p = 1,024 needs more"
    )
    assert statement.run == "p = 32 on two nodes"


def test_the_scales_that_crossed_are_named_until_they_make_a_law():
    (one,) = statements({2: 1, 4: 1, 8: 1, 16: 2}, 1024)
    (two,) = statements({2: 1, 4: 1, 8: 2, 16: 2}, 1024)

    assert "only p = 16 used more than one node, and a law needs 3 scales" in one.text
    assert "only p = 8 and p = 16 used more than one node" in two.text
    assert statements({2: 1, 4: 2, 8: 2, 16: 2}, 1024) == []


@pytest.mark.parametrize(
    ("why", "arguments"),
    [
        ("the target fits on the node", (dict.fromkeys(SCALES, 1), PROCESSORS)),
        ("nodes are unknown", ({**dict.fromkeys(SCALES, 1), 4: None}, 1024)),
        ("nothing is sent", (dict.fromkeys(SCALES, 1), 1024, WORKING)),
        ("hardly any time is judged", (dict.fromkeys(SCALES, 1), 1024, SENDING, 8)),
    ],
)
def test_nothing_is_said_where(why: str, arguments: tuple):
    assert statements(*arguments) == [], why


def test_incomplete_runs_do_not_count():
    records = [record_of(p, 1) for p in SCALES]

    boundary = node_boundary([*records, record_of(32, 2, RunState.INCOMPLETE)])

    assert boundary is not None
    assert boundary.crossed == ()
    assert boundary.capacity == PROCESSORS


def test_predictions_of_times_beyond_the_node_have_a_note():
    models = remodel(experiment_of(SENDING, SCALES, np.inf), RefitOptions())
    times = [entry for entry in models.models if entry.metric == TIME]
    sent = [entry for entry in models.models if entry.metric == BYTES_SENT]
    boundary = node_boundary([record_of(p, 1) for p in SCALES])

    (note,) = node_notes([[8.0], [64.0]], times, boundary)

    assert note.startswith("all runs were on one node, and p = 64 needs more: predicted")
    assert node_notes([[16.0]], times, boundary) == []
    assert node_notes([[64.0]], sent, boundary) == []
    assert node_notes([[64.0]], times, None) == []
