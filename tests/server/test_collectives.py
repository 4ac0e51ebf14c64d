"""Waiting across nodes, against simulated ranks whose clocks differ in offset and rate."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from insitu.entities import (
    COLLECTIVE_TIME,
    COLLECTIVE_TIME_MIN,
    TIME,
    TIME_WAITING,
    VISITS,
    CallPath,
)
from insitu.modeling.measurement import RunTable
from insitu.server.collectives import (
    MAX_OPERATION_UNCERTAINTY,
    MIN_CALLS,
    NodeCollectives,
    add_waiting,
)
from insitu.server.round_trips import ListenerClocks
from insitu.server.wait_intervals import NEEDS_ALL, NEEDS_LOWER, NEEDS_NOBODY
from insitu.wire.messages import COLLECTIVES_BYTES, Collectives
from tests.support.parameters import plain_and_full

PATHS = (CallPath(("app",)), CallPath(("app", "MPI_Allreduce")))
OPERATION_S = 3e-6
NODES, PER_NODE = 3, 2
P = NODES * PER_NODE
KINDS = ("all", "broadcast", "reduce")


@dataclass
class Simulation:
    """Calls of a communicator of all ranks, with the true waiting time of each rank (s)."""

    nodes: list[NodeCollectives]
    table: RunTable
    waited: np.ndarray
    operations: np.ndarray  # of each call, from the last entry to the last exit (s)


def simulate(
    *,
    seed=0,
    calls=200,
    kind="all",
    imbalance_s=2e-3,
    late_s=0.0,
    slow_link_s=0.0,
    operation_s=OPERATION_S,
    rate=1e-4,
    visits=None,
    lost=(),
    trip_s=None,
    listeners="aaa",
):
    """Simulate calls.

    Args:
        seed: of the random numbers.
        calls: number of sampled calls.
        kind: what the ranks need in a call.
        imbalance_s: the range of random arrivals.
        late_s: by how much the last node is always late.
        slow_link_s: by how much longer messages to the last node take.
        operation_s: what each operation takes at least.
        rate: the largest difference between rates of clocks.
        visits: of each rank, if there are more calls than sampled ones.
        lost: pairs of call and rank that were not sampled.
        trip_s: of the messages of agents, the least time; None for no such messages.
        listeners: the instances that they are sent to, by node.
    """
    rng = np.random.default_rng(seed)
    node_of = np.arange(P) // PER_NODE
    offsets = rng.uniform(2e3, 3e3, NODES)
    rates = rng.uniform(-rate, rate, NODES)
    columns = [[] for _ in range(NODES)]
    waited, time, operations = np.zeros(P), np.zeros(P), []
    for call, start in enumerate(np.sort(rng.uniform(0, 10, calls))):
        begin = start + rng.uniform(0, imbalance_s, P)
        begin[node_of == NODES - 1] += late_s
        root = int(rng.integers(P))
        needs, ready = needs_of(kind, root), begin.copy()
        ready[needs == NEEDS_ALL] = begin.max()
        ready[needs == root] = begin[root]
        end = np.maximum(ready, begin) + operation_s + rng.exponential(OPERATION_S, P)
        end[node_of == NODES - 1] += slow_link_s
        operations.append(max(end.max() - begin.max(), 0))
        for rank in range(P):
            clock = rates[node_of[rank]] + 1
            waited[rank] += clock * max(ready[rank] - begin[rank], 0)
            time[rank] += clock * (end[rank] - begin[rank])
            if (call, rank) not in lost:
                begin_ns, end_ns = (
                    round((moment * clock + offsets[node_of[rank]]) * 1e9)
                    for moment in (begin[rank], end[rank])
                )
                columns[node_of[rank]].append((call, rank, begin_ns, end_ns, needs[rank]))

    scale = 1 if visits is None else visits / calls
    rows = {
        VISITS.name: np.full(P, float(calls if visits is None else visits)),
        TIME.name: time * scale,
    }
    values = {name: np.stack([np.full(P, np.nan), row]) for name, row in rows.items()}
    return Simulation(
        nodes=[
            NodeCollectives(
                replace(
                    pack(columns[node]),
                    listener=listeners[node],
                    trips=trips_of(rng, trip_s, offsets[node], rates[node] + 1),
                ),
                np.arange(2),
            )
            for node in range(NODES)
        ],
        table=RunTable(PATHS, (VISITS, TIME), values),
        waited=waited * scale,
        operations=np.array(operations),
    )


def trips_of(rng, trip_s, offset_s, clock):
    """Round trips once a second, mostly to the listener slower than back."""
    if trip_s is None:
        return b""
    sent = np.arange(0, 11) + rng.uniform(0, 0.1, 11)
    arrived = sent + 3 * trip_s + rng.exponential(trip_s, 11)
    answered = arrived + rng.exponential(1e-3, 11)
    received = answered + trip_s + rng.exponential(trip_s, 11)
    times = (sent * clock + offset_s, arrived + 5e4, answered + 5e4, received * clock + offset_s)
    return np.round(np.column_stack(times) * 1e9).astype("<i8").tobytes()


def needs_of(kind, root):
    needs = np.full(P, {"all": NEEDS_ALL, "broadcast": root, "scan": NEEDS_LOWER}.get(kind, -2))
    if kind == "broadcast":
        needs[root] = NEEDS_NOBODY
    elif kind == "reduce":
        needs[root] = NEEDS_ALL
    return needs


def pack(events, *, is_steady=True, size=P):
    keys, ranks, begins, ends, needs = zip(*events, strict=True)
    count = len(keys)
    return Collectives(
        keys=np.array(keys, "<u8").tobytes(),
        ranks=np.array(ranks, "<i4").tobytes(),
        members=np.array(ranks, "<i4").tobytes(),
        sizes=np.full(count, size, "<u4").tobytes(),
        rows=np.ones(count, "<u4").tobytes(),
        begins=np.array(begins, "<u8").tobytes(),
        ends=np.array(ends, "<u8").tobytes(),
        needs=np.array(needs, "<i4").tobytes(),
        is_steady=is_steady,
    )


@pytest.mark.parametrize(("kind", "seed"), list(itertools.product(KINDS, range(4))))
def test_waiting_is_found_although_the_clocks_differ_by_minutes(kind, seed):
    simulation = simulate(kind=kind, seed=seed)

    table, findings = add_waiting(simulation.table, simulation.nodes, PATHS)

    assert findings == []
    time = simulation.table.values[TIME.name][1]
    error = np.abs(table.values[TIME_WAITING.name][1] - simulation.waited)
    assert (error <= 0.01 * time.max()).all()  # the calls bound the clocks to a few microseconds


def test_a_sample_represents_all_calls():
    simulation = simulate(visits=20_000)

    table, _ = add_waiting(simulation.table, simulation.nodes, PATHS)

    found = table.values[TIME_WAITING.name][1]
    assert found == pytest.approx(simulation.waited, rel=0.02)


def test_a_node_that_is_always_late_is_not_distinguished_from_a_clock_that_is_ahead():
    """All calls fit to both, so nothing but the width of the interval may be reported."""
    simulation = simulate(late_s=1e-3, imbalance_s=1e-4)

    table, (finding,) = add_waiting(simulation.table, simulation.nodes, PATHS)

    assert TIME_WAITING.name not in table.values
    assert finding.code == "waiting-unclear"
    assert finding.where == "app->MPI_Allreduce"
    assert "the clocks of its nodes are known to ±" in finding.text


@pytest.mark.parametrize("kind", KINDS)
def test_round_trips_distinguish_a_late_node_from_a_clock_that_is_ahead(kind):
    simulation = simulate(late_s=5e-3, imbalance_s=1e-4, kind=kind, trip_s=2e-5)

    table, findings = add_waiting(simulation.table, simulation.nodes, PATHS)

    assert findings == []
    time = simulation.table.values[TIME.name][1]
    error = np.abs(table.values[TIME_WAITING.name][1] - simulation.waited)
    assert (error <= 0.05 * time.max()).all()


def test_round_trips_to_different_listeners_cannot_be_compared():
    simulation = simulate(late_s=5e-3, imbalance_s=1e-4, trip_s=2e-5, listeners="abc")

    _, (finding,) = add_waiting(simulation.table, simulation.nodes, PATHS)

    assert finding.code == "waiting-unclear"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0.0, 1e-4, 1e-3])
def test_round_trips_contain_the_true_offset(seed, rate):
    rng = np.random.default_rng(seed)
    offsets, clocks = rng.uniform(-1e4, 1e4, 2), 1 + rng.uniform(-rate, rate, 2)
    nodes = [
        Collectives(
            trips=trips_of(rng, 1e-4, offset, clock), listener="a", is_steady=bool(seed % 2)
        )
        for offset, clock in zip(offsets, clocks, strict=True)
    ]
    times = rng.uniform(-1, 12, 50)  # also before the first and after the last trip

    low, high = ListenerClocks(nodes).bounds(0, 1, times * clocks[1] + offsets[1])

    truth = times * (clocks[0] - clocks[1]) + offsets[0] - offsets[1]
    assert ((low <= truth) & (truth <= high)).all()
    assert np.isfinite(high - low).all()


@pytest.mark.parametrize("kind", KINDS)
@plain_and_full("slow_link_s", [2e-4, 0.0])
@plain_and_full("late_s", [2e-4, 0.0])
@pytest.mark.parametrize("trip_s", [None, 3e-5])
def test_what_is_reported_is_right_within_its_uncertainty(kind, slow_link_s, late_s, trip_s):
    for seed in range(3):
        simulation = simulate(
            kind=kind, seed=seed, slow_link_s=slow_link_s, late_s=late_s, trip_s=trip_s
        )

        table, findings = add_waiting(simulation.table, simulation.nodes, PATHS)

        if findings:
            assert TIME_WAITING.name not in table.values
            continue
        time = simulation.table.values[TIME.name][1]
        error = np.abs(table.values[TIME_WAITING.name][1] - simulation.waited)
        assert error.sum() <= 0.05 * time.sum()


@pytest.mark.parametrize("seed", range(3))
def test_the_time_of_operations_is_known_if_calls_bound_the_clocks(seed):
    simulation = simulate(seed=seed, operation_s=0.0, calls=800)

    table, _ = add_waiting(simulation.table, simulation.nodes, PATHS)

    expected = np.full(P, np.quantile(simulation.operations, 0.25))
    found = table.values[COLLECTIVE_TIME.name][1]
    assert found == pytest.approx(expected, rel=MAX_OPERATION_UNCERTAINTY)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation_s", [0.0, 3e-5, 3e-4, 1e-3])
@pytest.mark.parametrize("trip_s", [None, 1e-5])
def test_the_time_of_operations_is_right_or_absent(kind, operation_s, trip_s):
    for seed in range(2):
        simulation = simulate(kind=kind, seed=seed, operation_s=operation_s, trip_s=trip_s)

        table, _ = add_waiting(simulation.table, simulation.nodes, PATHS)

        for metric, share in ((COLLECTIVE_TIME, 0.25), (COLLECTIVE_TIME_MIN, 0.0)):
            found = table.values.get(metric.name, np.full((2, P), np.nan))[1]
            expected = np.quantile(simulation.operations, share)
            error = np.abs(found - expected)[~np.isnan(found)]
            # The interval reaches a tenth of its middle to both sides, and contains the truth.
            certified = MAX_OPERATION_UNCERTAINTY / (1 - MAX_OPERATION_UNCERTAINTY) * expected
            assert (error <= certified + 1e-9).all()
        if trip_s and operation_s == 1e-3:
            assert not np.isnan(found).any()


def test_a_call_counts_only_if_all_its_ranks_have_sampled_it():
    lost = {(call, call % P) for call in range(200) if call % 4}
    whole, thinned = simulate(visits=200), simulate(lost=lost)

    expected, _ = add_waiting(whole.table, whole.nodes, PATHS)
    table, _ = add_waiting(thinned.table, thinned.nodes, PATHS)

    shares = table.values[TIME_WAITING.name][1] / expected.values[TIME_WAITING.name][1]
    assert shares == pytest.approx(np.ones(P), abs=0.25)  # 50 calls: standard deviation 0.08


def test_collectives_count_as_often_as_they_represent_others():
    """Both simulations have the same clocks."""
    once, often = simulate(imbalance_s=2e-3), simulate(imbalance_s=2e-4)
    nodes = [
        NodeCollectives(weigh_together(node.events, other.events, times=10), node.path_ids)
        for node, other in zip(once.nodes, often.nodes, strict=True)
    ]
    values = {
        name: once.table.values[name] + 10 * often.table.values[name] for name in once.table.values
    }

    table, findings = add_waiting(replace(once.table, values=values), nodes, PATHS)

    assert not findings
    waited = once.waited + 10 * often.waited
    assert table.values[TIME_WAITING.name][1] == pytest.approx(waited, rel=0.05)


def weigh_together(events, others, *, times):
    """The events of both; each of the others represents so many."""
    count, count_of_others = len(events.keys) // 8, len(others.keys) // 8
    keys = np.frombuffer(others.keys, "<u8") + 1000
    columns = {name: getattr(events, name) + getattr(others, name) for name in COLLECTIVES_BYTES}
    columns["keys"] = events.keys + keys.astype("<u8").tobytes()
    weights = np.repeat([1.0, times], [count, count_of_others]).astype("<f4")
    return replace(events, **columns, weights=weights.tobytes())


def test_few_sampled_calls_do_not_represent_many():
    simulation = simulate(calls=MIN_CALLS - 1, visits=1000)

    table, (finding,) = add_waiting(simulation.table, simulation.nodes, PATHS)

    assert TIME_WAITING.name not in table.values
    assert f"fewer than {MIN_CALLS} of its calls" in finding.text


def test_scans_are_not_compared():
    simulation = simulate(kind="scan")

    _, (finding,) = add_waiting(simulation.table, simulation.nodes, PATHS)

    assert finding.text.endswith("scans are compared on single nodes only")


def test_a_clock_that_jumps_is_reported():
    simulation = simulate()
    node = simulation.nodes[1]
    begins, ends = (
        np.frombuffer(column, "<u8").copy() for column in (node.events.begins, node.events.ends)
    )
    shift = np.where(np.arange(begins.size) % 20 < 10, 0, 10**9).astype("<u8")
    needs = np.frombuffer(node.events.needs, "<i4")
    ranks = np.frombuffer(node.events.ranks, "<i4")
    keys = np.frombuffer(node.events.keys, "<u8")
    events = list(zip(keys, ranks, begins + shift, ends + shift, needs, strict=True))
    simulation.nodes[1] = NodeCollectives(pack(events), node.path_ids)

    table, (finding,) = add_waiting(simulation.table, simulation.nodes, PATHS)

    assert TIME_WAITING.name not in table.values
    assert "contradict others" in finding.text


def test_numbers_out_of_range_are_left_out():
    simulation = simulate()
    events = [(7, P + 5, 0, 1, NEEDS_ALL), (8, -1, 0, 1, NEEDS_ALL), (9, 0, 5, 1, 10**6)]
    later, weightless = (
        replace(pack([(10, 0, 0, 1, NEEDS_ALL)]), arrivals=arrival, weights=weight)
        for arrival, weight in ((b"\5" + bytes(7), b""), (bytes(8), bytes(4)))
    )
    strangers = [NodeCollectives(sent, np.arange(2)) for sent in (pack(events), later, weightless)]

    expected, _ = add_waiting(simulation.table, simulation.nodes, PATHS)
    table, _ = add_waiting(simulation.table, [*simulation.nodes, *strangers], PATHS)

    found = table.values[TIME_WAITING.name][1]
    assert (found == expected.values[TIME_WAITING.name][1]).all()


def test_nodes_without_events_leave_the_table_as_it_is():
    simulation = simulate()
    nodes = [NodeCollectives(Collectives(), np.arange(2))] * 2

    assert add_waiting(simulation.table, nodes, PATHS) == (simulation.table, [])
    assert add_waiting(simulation.table, [], PATHS) == (simulation.table, [])
