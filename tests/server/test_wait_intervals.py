"""Each interval of a waiting time contains the true one, whatever clocks and links do."""

import itertools

import numpy as np
import pytest

from insitu.server.round_trips import ListenerClocks
from insitu.server.wait_intervals import (
    NEEDS_ALL,
    NEEDS_NOBODY,
    TOLERANCE_S,
    Events,
    _largest_of_others,
    wait_intervals,
)
from insitu.wire.messages import Collectives
from tests.support.parameters import plain_and_full

NODES, PER_NODE, CALLS = 3, 2, 200
P = NODES * PER_NODE
OPERATION_S = 3e-6  # on average; the shortest take almost none, so that bounds meet the truth


def needs_of(kind, root):
    """What each rank needs: all others, the root, or, at the root of a reduction, all others."""
    if kind == "all":
        return np.full(P, NEEDS_ALL)
    is_root = np.arange(P) == root
    if kind == "broadcast":
        return np.where(is_root, NEEDS_NOBODY, root)
    return np.where(is_root, NEEDS_ALL, NEEDS_NOBODY)


def simulate(rng, *, kind, rate, late_s, slow_link_s, overlap_s=0.0):
    """The events of calls by the clocks of their nodes, and how long ranks waited, calls took (s).

    `overlap_s` is the longest time from the start of a collective to the call that completes it.
    """
    node_of = np.arange(P) // PER_NODE
    offsets, clocks = rng.uniform(-1e4, 1e4, NODES), 1 + rng.uniform(-rate, rate, NODES)
    columns, waited, operations = [], [], []
    for call, start in enumerate(np.sort(rng.uniform(0, 10, CALLS))):
        arrivals = start + rng.uniform(0, 2e-3, P)
        arrivals[node_of == NODES - 1] += late_s
        begins = arrivals + rng.uniform(0, 1, P) * overlap_s
        root = int(rng.integers(P))
        needs = needs_of(kind, root)
        others = [arrivals.max(), arrivals[root]]
        ready = np.select([needs == NEEDS_ALL, needs == root], others, begins)
        ends = np.maximum(ready, begins) + rng.exponential(OPERATION_S, P)
        ends[node_of == NODES - 1] += slow_link_s
        waited.append(np.maximum(ready - begins, 0) * clocks[node_of])
        operations.append(np.full(P, max(ends.max() - arrivals.max(), 0)))
        times = (begins, ends, arrivals)
        shown = [moments * clocks[node_of] + offsets[node_of] for moments in times]
        ranks, zeros = np.arange(P), np.zeros(P, dtype=np.intp)
        head = (np.full(P, call), node_of, ranks, ranks, zeros, needs)
        columns.append((*head, *shown, np.ones(P)))
    fields = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Events(*fields), np.concatenate(waited), np.concatenate(operations)


@pytest.mark.parametrize("kind", ["all", "broadcast", "reduce"])
@pytest.mark.parametrize(("rate", "is_steady"), [(0.0, True), (1e-4, True), (1e-4, False)])
@plain_and_full(("late_s", "slow_link_s"), list(itertools.product([1e-3, 0.0], [1e-4, 0.0])))
@plain_and_full("overlap_s", [1e-3, 0.0])
def test_the_interval_contains_the_true_times(
    kind, rate, is_steady, late_s, slow_link_s, overlap_s
):
    delays = {"late_s": late_s, "slow_link_s": slow_link_s, "overlap_s": overlap_s}
    for seed in range(2):
        rng = np.random.default_rng(seed)
        events, waited, operations = simulate(rng, kind=kind, rate=rate, **delays)
        listeners = ListenerClocks([Collectives() for _ in range(NODES)])

        waits = wait_intervals(events, np.full(NODES, is_steady), listeners)

        assert not np.isnan(waits.low).any()
        assert (waits.low <= waited + TOLERANCE_S).all()
        assert (waited <= waits.high + TOLERANCE_S).all()
        slack = rate * operations + TOLERANCE_S  # seconds of the nodes' clocks
        assert (waits.least_operation <= operations + slack).all()
        assert (operations <= waits.most_operation + slack).all()


def test_the_interval_is_narrow_where_different_ranks_are_late():
    events, _, operations = simulate(
        np.random.default_rng(1), kind="all", rate=1e-4, late_s=0.0, slow_link_s=0.0
    )
    listeners = ListenerClocks([Collectives() for _ in range(NODES)])

    waits = wait_intervals(events, np.ones(NODES, dtype=bool), listeners)

    # Within twice the time of the operation, which is what calls can tell of clocks.
    assert np.median(waits.clocks) < 2 * OPERATION_S
    widths = waits.most_operation - waits.least_operation
    assert np.median(widths) < 0.5 * np.median(operations)


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_of_the_others_is_that_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    calls = rng.integers(8, size=12)
    values = rng.integers(5, size=12).astype(float)

    largest = _largest_of_others(calls, values)

    for i, value in enumerate(largest):
        others = [values[j] for j in range(12) if j != i and calls[j] == calls[i]]
        assert value == max(others, default=-np.inf)
