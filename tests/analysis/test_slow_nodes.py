"""A node that is slow in all runs is named; imbalance, disturbed runs and single runs are not."""

import json
from collections.abc import Callable

import numpy as np

from insitu.analysis.diagnosis.gather import gather
from insitu.analysis.diagnosis.nodes import find_slow_nodes
from insitu.analysis.diagnosis.statements import Statement
from insitu.entities import (
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    Configuration,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.modeling.measurement import Experiment, RunTable

RANKS_PER_NODE = 2
PATHS = tuple(CallPath.parse(f"app->main->step{i}") for i in range(8))
Speed = Callable[[int, int], object]  # of a node at p, for all call paths or for each


def slow_nodes(
    speed: Speed, scales: tuple[int, ...] = (4, 6, 8), mhz: int = 3000
) -> list[Statement]:
    """The statements about runs on nodes whose times are multiplied by a factor."""
    runs, records = [], []
    rng = np.random.default_rng(1)
    for p in scales:
        key = RunKey.of({"p": p})
        visits = rng.integers(50, 150, (len(PATHS), p)).astype(float)
        times = visits * 1e-3 * rng.normal(1.0, 0.01, (len(PATHS), p))
        nodes = []
        for node in range(p // RANKS_PER_NODE):
            ranks = [RANKS_PER_NODE * node, RANKS_PER_NODE * node + 1]
            times[:, ranks] *= np.reshape(speed(node, p), (-1, 1))
            nodes.append({"name": f"n{node}", "ranks": ranks, "mhz": mhz if node == 1 else 3000})
        values = {VISITS.name: visits, TIME_EXCLUSIVE.name: times}
        runs.append((key, RunTable(PATHS, (VISITS, TIME_EXCLUSIVE), values)))
        configuration = Configuration.of({"nodes": json.dumps(nodes)})
        records.append(RunRecord(str(p), key, RunState.COMPLETE, configuration=configuration))

    measurements = gather(Experiment(("p",), tuple(runs)), {}, {})
    return list(find_slow_nodes(measurements, records))


def test_a_node_that_is_slow_in_all_runs_is_named_with_its_frequency():
    (statement,) = slow_nodes(lambda node, p: 1.4 if node == 1 else 1.0, mhz=2100)

    assert statement.status == "warning"
    assert statement.text.startswith("node n1 is slow: 1.4 times the time of the other nodes")
    assert "in all 3 runs on it (2,100 MHz, the others 3,000)" in statement.text


def test_a_node_that_is_slow_in_some_runs_is_not_named():
    assert slow_nodes(lambda node, p: 1.4 if (node, p) == (1, 6) else 1.0) == []


def test_a_single_run_names_no_node():
    assert slow_nodes(lambda node, p: 1.4 if node == 1 else 1.0, scales=(6,)) == []


def test_a_few_call_paths_that_take_longer_are_imbalance():
    factors = np.where(np.arange(len(PATHS)) < 3, 2.0, 1.0)

    assert slow_nodes(lambda node, p: factors if node == 1 else 1.0) == []


def test_a_few_functions_name_no_node(monkeypatch):
    monkeypatch.setattr("insitu.analysis.diagnosis.nodes.MIN_SERIES", len(PATHS) + 1)

    assert slow_nodes(lambda node, p: 1.4 if node == 1 else 1.0) == []


def test_equal_nodes_are_not_named():
    assert slow_nodes(lambda node, p: 1.0) == []
