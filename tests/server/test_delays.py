"""Who causes waiting across nodes, against simulated ranks whose clocks differ."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.collectors.late_messages import LateCall
from insitu.collectors.table_events import NEEDS_ALL, NEEDS_NOBODY
from insitu.entities import DELAY_COST, TIME, VISITS, CallPath
from insitu.modeling.measurement import RunTable
from insitu.server.delays import NodeIntervals, add_delays
from insitu.wire.messages import (
    INTERVALS_BYTES,
    NO_COLLECTIVES,
    NO_INTERVALS,
    Collectives,
    Intervals,
)
from tests.server.test_collectives import trips_of

NODES, PER_NODE = 3, 2
P = NODES * PER_NODE
NAMES = ("app", "assemble", "filter", "work", "MPI_Allreduce", "MPI_Recv")
MAIN, ASSEMBLE, FILTER, WORK, CALL, RECEIVE = range(len(NAMES))
PATHS = tuple(
    CallPath(("app", name)) if row else CallPath(("app",)) for row, name in enumerate(NAMES)
)
OPERATION_S = 5e-6
STEPS = 60


def simulate(delay, *, seed=0, imbalance_s=2e-4, root=None, rate=1e-4, trip_s=None, threshold_ns=0):
    """Ranks that work, some of them longer, and then call a collective, step by step.

    Args:
        delay: function of step and rank: seconds of further work by row.
        seed: of the random numbers.
        imbalance_s: the range of what work takes by chance.
        root: all ranks need this one only; None if all need all.
        rate: the largest difference between rates of clocks.
        trip_s: of the messages of agents, the least time; None for no such messages.
        threshold_ns: of all nodes.

    Returns:
        What each node has sent, and the longest times that ranks waited together (s).
    """
    rng = np.random.default_rng(seed)
    node_of = np.arange(P) // PER_NODE
    offsets, clocks = rng.uniform(2e3, 3e3, NODES), 1 + rng.uniform(-rate, rate, NODES)
    columns = [{name: [] for name in INTERVALS_BYTES} for _ in range(NODES)]
    profiles = [([], []) for _ in range(NODES)]
    starts, waited = np.full(P, 1.0), 0.0
    keys = [0, *rng.permutation(np.arange(1, STEPS + 1))]
    for step in range(STEPS):
        works = [
            {WORK: 1e-3 + rng.uniform(0, imbalance_s), **delay(step, rank)} for rank in range(P)
        ]
        begins = starts + [sum(work.values()) for work in works]
        ready = np.full(P, begins.max()) if root is None else np.full(P, begins[root])
        ends = np.maximum(ready, begins) + rng.exponential(OPERATION_S, P)
        waited += np.maximum(ready - begins, 0).sum()
        for rank in range(P):
            node = node_of[rank]
            times = {"starts": starts[rank], "begins": begins[rank], "ends": ends[rank]}
            shown = {
                name: round((moment * clocks[node] + offsets[node]) * 1e9)
                for name, moment in times.items()
            }
            needs = NEEDS_ALL if root is None else NEEDS_NOBODY if rank == root else root
            values = {
                "keys": int(keys[step + 1]) << 56,
                "previous_keys": int(keys[step]) << 56,
                **shown,
                "ranks": rank,
                "members": rank,
                "sizes": P,
                "rows": CALL,
                "needs": needs,
                "counts": len(works[rank]),
            }
            for name, value in values.items():
                columns[node][name].append(value)
            profiles[node][0].extend(works[rank])
            profiles[node][1].extend(works[rank].values())
        starts = ends

    nodes = []
    for node in range(NODES):
        types = {name: f"<u{width}" for name, width in INTERVALS_BYTES.items()} | {"needs": "<i4"}
        intervals = Intervals(
            **{name: np.array(columns[node][name], kind).tobytes() for name, kind in types.items()},
            profile_rows=np.array(profiles[node][0], "<u4").tobytes(),
            profile_seconds=np.array(profiles[node][1], "<f4").tobytes(),
            mpi_rows=np.array([CALL, RECEIVE], "<u4").tobytes(),
            threshold_ns=threshold_ns,
        )
        trips = trips_of(rng, trip_s, offsets[node], clocks[node])
        collectives = Collectives(is_steady=True, listener="a", trips=trips)
        nodes.append(NodeIntervals(intervals, collectives, np.arange(len(PATHS))))
    return nodes, waited


def empty_table():
    values = {name: np.zeros((len(PATHS), P)) for name in (VISITS.name, TIME.name)}
    return RunTable(PATHS, (VISITS, TIME), values)


def find_costs(nodes):
    """The costs by row and rank (s), and how long ranks waited in the calls that count."""
    table, described = add_delays(empty_table(), nodes, PATHS)
    costs = table.values.get(DELAY_COST.name, np.zeros((len(PATHS), P)))
    waited = sum(call["waited"] for call in described)
    return np.nan_to_num(costs), waited


def fixed(step, rank):
    return {ASSEMBLE: 4e-3 if rank == P - 1 else 0.0}


def rotating(step, rank):
    return {ASSEMBLE: 5e-3 if rank == step % P else 1e-3}


def rare(step, rank):
    return {FILTER: 0.1} if step % 20 == 7 and rank == 1 else {}


def test_the_late_rank_on_another_node_is_named_with_what_it_does():
    nodes, truth = simulate(fixed, trip_s=2e-5)

    costs, waited = find_costs(nodes)

    assert waited == pytest.approx(truth, rel=0.05)
    assert costs[ASSEMBLE, P - 1] > 0.9 * waited
    assert costs.sum() <= waited * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_ranks_that_take_turns_in_being_late_cause_it_together(seed):
    nodes, truth = simulate(rotating, seed=seed)

    costs, waited = find_costs(nodes)

    assert waited == pytest.approx(truth, rel=0.05)
    assert costs[ASSEMBLE].sum() > 0.9 * waited
    assert costs[ASSEMBLE] / costs[ASSEMBLE].sum() == pytest.approx(np.full(P, 1 / P), abs=0.03)


def test_a_rare_delay_is_named():
    nodes, truth = simulate(rare, trip_s=2e-5)

    costs, _ = find_costs(nodes)

    planted = 3 * (P - 1) * 0.1
    assert costs[FILTER, 1] == pytest.approx(planted, rel=0.05)
    assert costs.sum() == pytest.approx(truth, rel=0.1)


def test_the_root_of_a_broadcast_is_named():
    nodes, truth = simulate(
        lambda step, rank: {FILTER: 4e-3 if rank == 2 else 0.0}, root=2, trip_s=2e-5
    )

    costs, waited = find_costs(nodes)

    assert waited == pytest.approx(truth, rel=0.05)
    assert costs[FILTER, 2] > 0.9 * waited


def test_nobody_is_named_where_ranks_wait_since_some_leave_the_call_before_late():
    nodes, _ = simulate(lambda step, rank: {}, imbalance_s=0)

    costs, waited = find_costs(nodes)

    assert waited > 1e-4
    assert costs.sum() < 1e-6  # profiles are in single precision


def test_a_node_that_may_be_late_or_have_another_clock_is_not_accused():
    """Nothing but the calls bounds the clocks, and the same rank is late in all of them."""
    nodes, _ = simulate(fixed, trip_s=None, imbalance_s=0)

    costs, waited = find_costs(nodes)

    assert (costs.sum(), waited) == (0, 0)


def test_short_intervals_count_for_those_that_were_thinned_out():
    """Of two in three short intervals nothing was sent."""
    nodes, truth = simulate(rotating)
    length_ns = 6.5e6
    thinned = []
    for node in nodes:
        keys = np.frombuffer(node.intervals.keys, "<u8")
        is_kept = keys * 2.0**-64 * 3 < 60 / 256  # the keys are 1 to 60 of 256
        thinned.append(replace(node, intervals=select(node.intervals, is_kept)))
        assert 15 <= is_kept.sum() / PER_NODE <= 20
    thinned = [
        replace(node, intervals=replace(node.intervals, threshold_ns=round(3 * length_ns)))
        for node in thinned
    ]

    costs, waited = find_costs(thinned)

    assert waited == pytest.approx(truth, rel=0.2)
    assert costs[ASSEMBLE].sum() > 0.9 * waited


def select(intervals, is_kept):
    """Some of the intervals, with their profiles."""
    counts = np.frombuffer(intervals.counts, "<u4")
    of_profiles = np.repeat(is_kept, counts)
    columns = {
        name: np.frombuffer(getattr(intervals, name), f"<u{width}")[is_kept].tobytes()
        for name, width in INTERVALS_BYTES.items()
    }
    profiles = {
        name: np.frombuffer(getattr(intervals, name), "<u4")[of_profiles].tobytes()
        for name in ("profile_rows", "profile_seconds")
    }
    return replace(intervals, **columns, **profiles)


def test_calls_that_a_rank_has_not_sent_are_left_out():
    nodes, _ = simulate(rotating)
    keys = np.frombuffer(nodes[0].intervals.keys, "<u8")
    is_kept = np.ones(keys.size, dtype=bool)
    is_kept[::2] = False  # all of its first rank
    nodes[0] = replace(nodes[0], intervals=select(nodes[0].intervals, is_kept))

    assert add_delays(empty_table(), nodes, PATHS)[1] == []


def test_costs_are_added_to_those_of_the_nodes():
    nodes, _ = simulate(rotating)
    known = np.full((len(PATHS), P), np.nan)
    known[ASSEMBLE, 0] = 100.0
    table = empty_table()
    table = replace(
        table, metrics=(*table.metrics, DELAY_COST), values={**table.values, DELAY_COST.name: known}
    )

    table, _ = add_delays(table, nodes, PATHS)

    costs, _ = find_costs(nodes)
    expected = np.append(100 + costs[ASSEMBLE, 0], costs[ASSEMBLE, 1:])
    assert table.values[DELAY_COST.name][ASSEMBLE] == pytest.approx(expected)


def passing(step, rank):
    return {0: {RECEIVE: 4e-3}, P - 1: {ASSEMBLE: 4e-3}}.get(rank, {})


def late_calls(nodes, late_rank):
    """The first rank waits for a message in each of its intervals."""
    intervals = nodes[0].intervals
    is_first = np.frombuffer(intervals.ranks, "<u4") == 0
    starts = np.frombuffer(intervals.starts, "<u8")[is_first].tolist()
    times = [(start + 100_000, start + 4_100_000) for start in starts]
    return [LateCall(0, RECEIVE, *of_call, late_rank, 4_000_000, 1.0) for of_call in times]


def test_the_sender_of_a_late_message_on_another_node_is_named_with_what_it_does():
    """The calls alone do not bound the clocks, and so the other ranks that wait tell nothing."""
    nodes, _ = simulate(passing)

    table, (call,) = add_delays(empty_table(), nodes, PATHS, late_calls(nodes, P - 1))

    waited = STEPS * 4e-3
    assert (call["callpath"], call["waited"]) == ("app->MPI_Recv", pytest.approx(waited))
    assert table.values[DELAY_COST.name][ASSEMBLE, P - 1] == pytest.approx(waited, rel=0.1)


def test_late_messages_of_ranks_without_intervals_have_no_known_cause():
    nodes, _ = simulate(passing)
    is_kept = np.frombuffer(nodes[-1].intervals.ranks, "<u4") < P - 1
    nodes[-1] = replace(nodes[-1], intervals=select(nodes[-1].intervals, is_kept))

    assert add_delays(empty_table(), nodes, PATHS, late_calls(nodes, P - 1))[1] == []


def test_nodes_of_older_versions_send_no_intervals():
    nodes = [NodeIntervals(NO_INTERVALS, NO_COLLECTIVES, np.arange(len(PATHS)))] * NODES
    table = empty_table()

    assert add_delays(table, nodes, PATHS) == (table, [])


@pytest.fixture(scope="module")
def undamaged():
    """What nodes sent, and the late calls of other ones; simulated once for all examples."""
    return simulate(rotating)[0], late_calls(simulate(passing)[0], 2)


@given(st.data())
def test_damaged_intervals_are_no_error(undamaged, data):
    sent, late = undamaged
    nodes = []
    for node in sent[:2]:
        columns = {}
        for name in data.draw(st.sets(st.sampled_from(sorted(INTERVALS_BYTES)), max_size=4)):
            raw = bytearray(getattr(node.intervals, name))
            for _ in range(8):
                raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
            columns[name] = bytes(raw)
        profile = data.draw(st.binary(min_size=4, max_size=4))
        columns["profile_rows"] = profile + node.intervals.profile_rows[4:]
        columns["profile_seconds"] = profile + node.intervals.profile_seconds[4:]
        nodes.append(replace(node, intervals=replace(node.intervals, **columns)))

    table, _ = add_delays(empty_table(), nodes, PATHS, late)

    costs = table.values.get(DELAY_COST.name, np.zeros(1))
    assert not np.isinf(costs).any()
