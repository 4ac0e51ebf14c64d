"""Waiting for messages between nodes, against simulated ranks whose clocks differ."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from insitu.collectors.table_events import FIRST, RECEIVED
from insitu.entities import (
    TIME,
    TIME_LATE_RECEIVER,
    TIME_LATE_SENDER,
    TIME_WAITING,
    VISITS,
    CallPath,
)
from insitu.modeling.measurement import RunTable
from insitu.server import message_waits
from insitu.server.collectives import MAX_UNCERTAINTY
from insitu.server.message_waits import NodeMessages, add_message_waiting
from insitu.server.unknown_waiting import LEAST_SHARE
from insitu.wire.messages import MESSAGES_BYTES, WHOLE_SAMPLE, Collectives, PointToPoint

NODES, PER_NODE = 3, 2
P = NODES * PER_NODE
PATHS = tuple(CallPath(("app", name)) for name in ("step", "MPI_Waitall", "MPI_Send"))
WAITALL, SEND = 1, 2  # rows
LATENCY_S = 3e-6


@dataclass
class Simulation:
    """An exchange with both neighbours in a ring, step by step."""

    nodes: list[NodeMessages]
    table: RunTable
    waited: np.ndarray  # of each rank in MPI_Waitall (s)
    late_receiver: np.ndarray  # of each rank in MPI_Send


def simulate(
    *,
    seed=0,
    steps=200,
    imbalance_s=2e-3,
    late_s=0.0,
    rate=1e-4,
    flags=0,
    is_synchronous=False,
    is_whole=True,
    visits_per_step=1,
):
    """Simulate steps.

    Args:
        seed: of the random numbers.
        steps: number of steps.
        imbalance_s: the range of random computing times.
        late_s: by how much the last node is always late.
        rate: the largest difference between rates of clocks.
        flags: of the calls that wait.
        is_synchronous: sends wait for the receives.
        is_whole: the sample contains all messages.
        visits_per_step: calls, of which one is sampled.
    """
    rng = np.random.default_rng(seed)
    node_of = np.arange(P) // PER_NODE
    offsets, clocks = rng.uniform(2e3, 3e3, NODES), 1 + rng.uniform(-rate, rate, NODES)
    events = [{name: [] for name in MESSAGES_BYTES} for _ in range(NODES)]
    waited, late_receiver = np.zeros(P), np.zeros(P)
    times = np.zeros((len(PATHS), P))

    def show(rank, moment):
        node = node_of[rank]
        return round((moment * clocks[node] + offsets[node]) * 1e9)

    def record(rank, *, peer, received, step, row, call, count, moments):
        source, target = (peer, rank) if received else (rank, peer)
        posted, begin, end = (show(rank, moment) for moment in moments)
        flag = RECEIVED | flags if received else 0
        values = {
            "keys": (step * P + source) * P + target,
            "ranks": rank,
            "rows": row,
            "calls": call,
            "counts": count,
            "numbers": 0,
            "sizes": 8,
            "flags": flag | (WHOLE_SAMPLE if is_whole else 0),
            "levels": 0,
            "posted": posted,
            "begins": begin,
            "ends": end,
        }
        for name, value in values.items():
            events[node_of[rank]][name].append(value)

    for step, start in enumerate(np.sort(rng.uniform(0, 10, steps))):
        posted = start + rng.uniform(0, imbalance_s, P)  # the receives
        posted[node_of == NODES - 1] += late_s
        sent = posted + 2e-6
        begin = np.zeros(P)
        for rank in range(P):
            partners = (rank - 1) % P, (rank + 1) % P
            moment = sent[rank]
            for k, peer in enumerate(partners):
                ready = max(moment, posted[peer]) if is_synchronous and not k else moment
                end = ready + 1e-6 + rng.exponential(1e-7)
                late_receiver[rank] += clocks[node_of[rank]] * (ready - moment)
                times[SEND, rank] += clocks[node_of[rank]] * (end - moment)
                record(
                    rank,
                    peer=peer,
                    received=False,
                    step=step,
                    row=SEND,
                    call=3 * step + k,
                    count=1,
                    moments=(moment, moment, end),
                )
                moment = end
            begin[rank] = moment
        posted_sends = {}
        for node in events:
            for key, rank in zip(node["keys"], node["ranks"], strict=True):
                posted_sends.setdefault(key, rank)
        for rank in range(P):
            partners = (rank - 1) % P, (rank + 1) % P
            # The sends of a rank begin one after the other; the second one of each is later.
            ready = [
                sent_at(events, node_of, offsets, clocks, step, peer, rank) for peer in partners
            ]
            last = min(ready) if flags & FIRST else max(ready)
            end = max(last, begin[rank]) + rng.exponential(LATENCY_S)
            end = max(end, *(ready if not flags & FIRST else [end]))
            waited[rank] += clocks[node_of[rank]] * max(last - begin[rank], 0)
            times[WAITALL, rank] += clocks[node_of[rank]] * (end - begin[rank])
            for peer in partners:
                record(
                    rank,
                    peer=peer,
                    received=True,
                    step=step,
                    row=WAITALL,
                    call=3 * step + 2,
                    count=2,
                    moments=(posted[rank], begin[rank], end),
                )

    visits = np.array([0, steps, 2 * steps]) * visits_per_step
    values = {
        VISITS.name: np.repeat(visits[:, np.newaxis], P, axis=1).astype(float),
        TIME.name: times * visits_per_step,
    }
    nodes = [
        NodeMessages(
            PointToPoint(
                **{
                    name: np.array(column, f"<u{MESSAGES_BYTES[name]}").tobytes()
                    for name, column in of_node.items()
                }
            ),
            Collectives(is_steady=True),
            np.arange(len(PATHS)),
        )
        for of_node in events
    ]
    table = RunTable(PATHS, (VISITS, TIME), values)
    return Simulation(nodes, table, waited * visits_per_step, late_receiver * visits_per_step)


def sent_at(events, node_of, offsets, clocks, step, source, target):
    """When a message was sent, in true time."""
    node = node_of[source]
    key = (step * P + source) * P + target
    columns = events[node]
    at = max(i for i, its in enumerate(columns["keys"]) if its == key)
    return (columns["posted"][at] / 1e9 - offsets[node]) / clocks[node]


def values_of(table, metric, row):
    return table.values.get(metric.name, np.full((len(PATHS), P), np.nan))[row]


@pytest.mark.parametrize("seed", range(3))
def test_waiting_is_found_although_the_clocks_differ_by_minutes(seed):
    simulation = simulate(seed=seed)

    table, findings, _ = add_message_waiting(simulation.table, simulation.nodes, PATHS)

    assert findings == []
    found = values_of(table, TIME_WAITING, WAITALL)
    assert np.abs(found - simulation.waited).sum() < 0.01 * simulation.table.values[TIME.name].sum()
    assert (found == values_of(table, TIME_LATE_SENDER, WAITALL)).all()
    assert (values_of(table, TIME_LATE_RECEIVER, WAITALL) == 0).all()


def test_calls_that_waited_for_other_nodes_are_listed_with_the_late_rank():
    simulation = simulate(is_whole=False, visits_per_step=100)

    _, _, calls = add_message_waiting(simulation.table, simulation.nodes, PATHS)

    assert len(calls) > 0.5 * 200 * P / 2  # most waiting is much longer than clocks are unclear
    others = {number: {(number - 1) % P, (number + 1) % P} for number in range(P)}
    assert all(call.late_rank in others[call.rank] and call.row == WAITALL for call in calls)
    assert all(0 < call.waited <= call.end - call.begin for call in calls)
    waited = sum(call.waited for call in calls) / 1e9
    assert waited == pytest.approx(simulation.waited.sum() / 100, rel=0.1)


def test_where_clocks_are_not_known_no_late_call_is_listed():
    """The same node is always late, and nothing but its messages bounds its clock."""
    simulation = simulate(late_s=1e-3, imbalance_s=1e-5)

    _, _, calls = add_message_waiting(simulation.table, simulation.nodes, PATHS)

    late_node = {P - 2, P - 1}
    assert not [call for call in calls if call.late_rank in late_node and call.rank < P - 2]


def test_of_too_many_late_calls_an_even_sample_stands_for_all(monkeypatch):
    simulation = simulate()
    _, _, calls = add_message_waiting(simulation.table, simulation.nodes, PATHS)
    monkeypatch.setattr(message_waits, "MAX_LATE_CALLS", len(calls) // 3)

    _, _, sample = add_message_waiting(simulation.table, simulation.nodes, PATHS)

    assert len(sample) <= len(calls) // 3
    weights = sum(call.weight for call in sample)
    assert weights == pytest.approx(sum(call.weight for call in calls), rel=0.02)


def test_a_sample_represents_all_calls():
    simulation = simulate(is_whole=False, visits_per_step=100)

    table, _, _ = add_message_waiting(simulation.table, simulation.nodes, PATHS)

    found = values_of(table, TIME_WAITING, WAITALL)
    assert found == pytest.approx(simulation.waited, rel=0.02)


def test_a_sample_represents_the_late_receivers_of_all_calls():
    whole = simulate(is_synchronous=True, imbalance_s=5e-3)
    sampled = simulate(is_synchronous=True, imbalance_s=5e-3, is_whole=False, visits_per_step=10)

    all_calls, _, _ = add_message_waiting(whole.table, whole.nodes, PATHS)
    table, _, _ = add_message_waiting(sampled.table, sampled.nodes, PATHS)

    of_all, of_sample = (values_of(each, TIME_LATE_RECEIVER, SEND) for each in (all_calls, table))
    ratio = sampled.table.values[TIME.name][SEND] / whole.table.values[TIME.name][SEND]
    assert of_sample == pytest.approx(ratio * of_all)
    assert ratio.min() > 5


def test_a_synchronous_send_waits_for_the_receive():
    simulation = simulate(is_synchronous=True, imbalance_s=5e-3)

    table, findings, _ = add_message_waiting(simulation.table, simulation.nodes, PATHS)

    assert findings == []
    found = values_of(table, TIME_LATE_RECEIVER, SEND)
    # A send that ends within microseconds of the receive may have been buffered.
    error = np.abs(found - simulation.late_receiver).sum()
    assert error <= MAX_UNCERTAINTY * simulation.table.values[TIME.name][SEND].sum()
    assert found.sum() > 0.9 * simulation.late_receiver.sum() > 0.1


@pytest.mark.parametrize("flags", [0, FIRST])
@pytest.mark.parametrize("late_s", [0.0, 1e-4, 5e-3])
@pytest.mark.parametrize("imbalance_s", [1e-5, 1e-3])
def test_what_is_reported_is_right_within_its_uncertainty(flags, late_s, imbalance_s):
    for seed in range(2):
        simulation = simulate(
            seed=seed, flags=flags, late_s=late_s, imbalance_s=imbalance_s, steps=60
        )

        table, _, _ = add_message_waiting(simulation.table, simulation.nodes, PATHS)

        for row, truth in ((WAITALL, simulation.waited), (SEND, simulation.late_receiver)):
            found = values_of(table, TIME_WAITING, row)
            if np.isnan(found).all():
                continue
            time = simulation.table.values[TIME.name][row]
            assert np.abs(found - truth).sum() <= MAX_UNCERTAINTY * time.sum() + 1e-9


def test_a_node_that_is_always_late_is_not_distinguished_from_a_clock_that_is_ahead():
    """Messages of both directions bound the clocks, so only what is shorter than a trip is open."""
    simulation = simulate(late_s=5e-3, imbalance_s=1e-5)

    table, _, _ = add_message_waiting(simulation.table, simulation.nodes, PATHS)

    found = values_of(table, TIME_WAITING, WAITALL)
    assert np.isnan(found).all() or found == pytest.approx(simulation.waited, rel=0.06, abs=1e-3)


def drop(nodes, wanted):
    """The nodes without the messages for which `wanted` is false."""
    changed = []
    for node in nodes:
        columns = {
            name: np.frombuffer(getattr(node.messages, name), f"<u{width}")
            for name, width in MESSAGES_BYTES.items()
        }
        keep = wanted(columns)
        kept = {name: column[keep].tobytes() for name, column in columns.items()}
        changed.append(replace(node, messages=PointToPoint(**kept)))
    return changed


def test_a_call_counts_only_if_all_its_messages_are_known():
    simulation = simulate(steps=100)
    whole, _, _ = add_message_waiting(simulation.table, simulation.nodes, PATHS)

    def is_kept(columns):
        step = columns["keys"] // (P * P)
        return (columns["flags"] & RECEIVED != 0) | (columns["ranks"] != 0) | (step < 50)

    nodes = drop(simulation.nodes, is_kept)

    table, _, _ = add_message_waiting(simulation.table, nodes, PATHS)

    found, expected = (values_of(its, TIME_WAITING, WAITALL) for its in (table, whole))
    assert found[3] == pytest.approx(expected[3], rel=0.02)  # no neighbour of rank 0
    assert found[1] < 0.8 * expected[1]


def test_ranks_without_messages_of_other_nodes_are_left_to_their_agents():
    simulation = simulate(steps=50)
    node = simulation.nodes[0]
    ranks = np.frombuffer(node.messages.ranks, "<u4")
    counts = np.where(ranks == 1, 0, np.frombuffer(node.messages.counts, "<u4"))
    changed = replace(node.messages, counts=counts.astype("<u4").tobytes())
    nodes = [replace(node, messages=changed), *simulation.nodes[1:]]
    before = np.full((len(PATHS), P), np.nan)
    before[WAITALL, 1] = 7.0
    values = {**simulation.table.values, TIME_WAITING.name: before}
    measured = replace(
        simulation.table, metrics=(*simulation.table.metrics, TIME_WAITING), values=values
    )

    table, findings, _ = add_message_waiting(measured, nodes, PATHS)

    assert findings == []
    found = values_of(table, TIME_WAITING, WAITALL)
    assert found[1] == 7.0
    assert found[0] == pytest.approx(simulation.waited[0], rel=0.02)


def test_few_sampled_calls_do_not_represent_many():
    simulation = simulate(steps=5, is_whole=False, visits_per_step=100)

    table, findings, _ = add_message_waiting(simulation.table, simulation.nodes, PATHS)

    assert np.isnan(values_of(table, TIME_WAITING, WAITALL)).all()
    (finding,) = findings
    assert (finding.code, finding.where) == ("waiting-unclear", "app->MPI_Waitall")
    assert "fewer than 8 of its calls were sampled" in finding.text


def test_the_longest_unknown_waiting_comes_first_and_short_one_is_not_reported():
    simulation = simulate(steps=5, is_synchronous=True, is_whole=False, visits_per_step=100)

    def reported(send_s, waitall_s):
        times = np.zeros((len(PATHS), P))
        times[:, :] = np.array([10.0, waitall_s, send_s])[:, None]
        values = {**simulation.table.values, TIME.name: times}
        table = replace(simulation.table, values=values)
        return [finding.where for finding in add_message_waiting(table, simulation.nodes, PATHS)[1]]

    in_send, in_wait = str(PATHS[SEND]), str(PATHS[WAITALL])
    assert reported(2.0, 1.0) == [in_send, in_wait]
    assert reported(1.0, 2.0) == [in_wait, in_send]
    assert reported(1.0, 0.5 * 10 * LEAST_SHARE) == [in_send]


def test_messages_of_different_sizes_are_not_one():
    simulation = simulate(steps=50)
    nodes = list(simulation.nodes)
    sizes = np.frombuffer(nodes[0].messages.sizes, "<u4") + 1
    nodes[0] = replace(nodes[0], messages=replace(nodes[0].messages, sizes=sizes.tobytes()))

    _, findings, _ = add_message_waiting(simulation.table, nodes, PATHS)

    assert any("sampled calls contradict others" in finding.text for finding in findings)


def test_messages_of_different_sizes_bound_no_clocks():
    """All messages between two nodes are damaged; those between others are not."""
    simulation = simulate(steps=50)
    nodes = list(simulation.nodes)
    ranks, keys = (
        np.frombuffer(getattr(nodes[1].messages, name), kind)
        for name, kind in (("ranks", "<u4"), ("keys", "<u8"))
    )
    source, target = keys // P % P, keys % P
    between = (np.minimum(source, target) == 1) & (np.maximum(source, target) == 2)
    sizes = (np.frombuffer(nodes[1].messages.sizes, "<u4") + between).astype("<u4")
    nodes[1] = replace(nodes[1], messages=replace(nodes[1].messages, sizes=sizes.tobytes()))
    assert (between & (ranks == 2)).any()

    table, findings, _ = add_message_waiting(simulation.table, nodes, PATHS)

    assert any("sampled calls contradict others" in finding.text for finding in findings)
    assert TIME_WAITING.name not in table.values


def test_numbers_out_of_range_are_left_out():
    simulation = simulate(steps=50)
    nodes = list(simulation.nodes)
    for name in ("rows", "ranks"):
        column = np.frombuffer(getattr(nodes[0].messages, name), "<u4").copy()
        column[:3] = 1 << 31
        nodes[0] = replace(
            nodes[0], messages=replace(nodes[0].messages, **{name: column.tobytes()})
        )

    table, _, _ = add_message_waiting(simulation.table, nodes, PATHS)

    assert np.isfinite(values_of(table, TIME_WAITING, WAITALL)).any()


LARGEST = {"keys": 6, "ranks": 7, "rows": 4, "calls": 4, "counts": 3, "sizes": 2, "levels": 40}


@pytest.mark.filterwarnings("error")
def test_whatever_agents_send_does_no_harm():
    """The numbers are small, so that many messages meet, or as large as their columns allow."""
    rng = np.random.default_rng(1)
    table = simulate(steps=1).table
    for _ in range(300):
        nodes = []
        for _ in range(rng.integers(1, 4)):
            count = int(rng.integers(0, 12))
            columns = {}
            for name, width in MESSAGES_BYTES.items():
                largest = LARGEST.get(name, 1000) if rng.random() < 0.9 else (1 << 8 * width) - 1
                column = rng.integers(0, largest, count, dtype=np.uint64, endpoint=True)
                columns[name] = column.astype(f"<u{width}").tobytes()
            clock = Collectives(is_steady=bool(rng.integers(2)))
            nodes.append(NodeMessages(PointToPoint(**columns), clock, np.arange(len(PATHS))))

        changed, _, _ = add_message_waiting(table, nodes, PATHS)

        for metric in (TIME_WAITING, TIME_LATE_SENDER, TIME_LATE_RECEIVER):
            values = changed.values.get(metric.name, np.zeros(1))
            assert (np.isnan(values) | (values >= 0)).all()


def test_nodes_without_messages_leave_the_table_as_it_is():
    simulation = simulate(steps=1)
    empty = [replace(node, messages=PointToPoint()) for node in simulation.nodes]

    table, findings, _ = add_message_waiting(simulation.table, empty, PATHS)

    assert table is simulation.table
    assert findings == []
