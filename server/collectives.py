"""Waiting in collectives of communicators that span several nodes, for the table of a run.

Agents send a sample of their ranks' calls, the same one on all nodes. A waiting time is an interval
that certainly contains the true one (`wait_intervals`). Its middle is reported where the interval
is narrow compared with the time of the calls; elsewhere a finding says how well the clocks are
known. So is the time of the operation of blocking calls, where its interval is narrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.collectors.late_messages import MAX_MISFITS, MIN_CALLS
from insitu.entities import (
    COLLECTIVE_TIME,
    COLLECTIVE_TIME_MIN,
    TIME,
    TIME_WAITING,
    VISITS,
    CallPath,
    Finding,
    Metric,
)
from insitu.modeling.measurement import FloatArray, IntArray, RunTable
from insitu.server.round_trips import ListenerClocks
from insitu.server.wait_intervals import (
    NEEDS_LISTED,
    NEEDS_LOWER,
    Booleans,
    Events,
    WaitIntervals,
    wait_intervals,
)
from insitu.units import quantity
from insitu.wire.messages import Collectives

# Half the width of the interval of a call path's waiting, as a share of the time of its calls.
MAX_UNCERTAINTY = 0.05
# Half the width of the interval of the time of an operation, as a share of it: times that differ by
# less are alike for the relative distance of [CLU].
MAX_OPERATION_UNCERTAINTY = 0.1
MAX_FINDINGS = 5
# What is compared on single nodes only, by what ranks need in it.
SINGLE_NODE_REASONS = {
    NEEDS_LOWER: "scans are compared on single nodes only",
    NEEDS_LISTED: "neighbourhood collectives are compared on single nodes only",
}
NS_PER_S = 1e9
Keys = np.ndarray[tuple[int], np.dtype[np.uint64]]
ADDED_METRICS = (TIME_WAITING, COLLECTIVE_TIME, COLLECTIVE_TIME_MIN)


@dataclass(frozen=True, slots=True)
class NodeCollectives:
    """The sampled calls of a node, and the path id of each row of its dictionary."""

    events: Collectives
    path_ids: IntArray


def add_waiting(
    table: RunTable, nodes: Sequence[NodeCollectives], callpaths: Sequence[CallPath]
) -> tuple[RunTable, list[Finding]]:
    """The table of a run with waiting in calls that span nodes, and why it is absent elsewhere.

    Args:
        table: of a complete run.
        nodes: what each node has sent.
        callpaths: of the run, by path id.
    """
    if not any(node.events.keys for node in nodes):
        return table, []
    events, is_complete, _ = _read_events(nodes, table.size)

    compared = _select_compared(events, is_complete)
    is_steady = np.array([node.events.is_steady for node in nodes])
    listeners = ListenerClocks([node.events for node in nodes])
    waits = wait_intervals(compared, is_steady, listeners)

    shape = (len(table.callpaths), table.size)
    values = {metric: np.full(shape, np.nan) for metric in ADDED_METRICS}
    reasons: list[tuple[float, Finding]] = []
    rows = {callpath: row for row, callpath in enumerate(table.callpaths)}
    not_compared: dict[int, str] = {}  # by path id
    for needs, text in SINGLE_NODE_REASONS.items():
        not_compared |= dict.fromkeys(events.paths[events.needs == needs].tolist(), text)
    for path in np.unique(events.paths).tolist():
        row = rows.get(callpaths[path])
        if row is None:
            continue
        of_path = np.flatnonzero(compared.paths == path)
        visits, time = table.values[VISITS.name][row], table.values[TIME.name][row]
        sample = _Sample(compared.select(of_path), waits.select(of_path), visits)
        misfit = not_compared.get(path) or sample.find_misfit()
        if not misfit:
            values[COLLECTIVE_TIME][row] = sample.operations(0.25)
            values[COLLECTIVE_TIME_MIN][row] = sample.operations(0.0)
        reason = misfit or sample.find_uncertainty()
        if reason:
            text = f"time_waiting of {callpaths[path]} is not known: {reason}"
            finding = Finding("waiting-unclear", text, str(callpaths[path]))
            reasons.append((float(np.nansum(time)), finding))
        else:
            values[TIME_WAITING][row] = sample.shares() * time

    findings = [finding for _, finding in sorted(reasons, key=lambda entry: -entry[0])]
    for metric, added in values.items():
        table = add_values(table, metric, added)
    return table, findings[:MAX_FINDINGS]


def find_bounding_calls(nodes: Sequence[NodeCollectives], size: int) -> tuple[Events, Keys]:
    """The complete calls of all nodes, which bound the offsets of their clocks; and all keys.

    Args:
        nodes: what each node has sent.
        size: the number of ranks of the run.
    """
    events, is_complete, keys = _read_events(nodes, size)
    return _select_compared(events, is_complete), keys


def _select_compared(events: Events, is_complete: Booleans) -> Events:
    is_compared = is_complete & ~np.isin(events.needs, list(SINGLE_NODE_REASONS))
    return events.select(np.flatnonzero(is_compared))


class _Sample:
    """The sampled calls of a call path, added up by rank."""

    def __init__(self, events: Events, waits: WaitIntervals, visits: FloatArray) -> None:
        size = visits.size
        fits = ~np.isnan(waits.low)
        ranks = events.ranks[fits]
        self._visits = visits
        self._clocks = waits.clocks[fits]
        self._durations = (events.ends - events.begins)[fits]
        weights = events.weights[fits]
        self._misfits = int(fits.size - fits.sum())
        self._calls = np.bincount(ranks, minlength=size)
        self._time = np.bincount(ranks, weights=weights * self._durations, minlength=size)
        self._low = np.bincount(ranks, weights=weights * waits.low[fits], minlength=size)
        self._high = np.bincount(ranks, weights=weights * waits.high[fits], minlength=size)
        is_blocking = fits & (events.arrivals == events.begins)
        self._blocking_ranks = events.ranks[is_blocking]
        self._least_operation = waits.least_operation[is_blocking]
        self._most_operation = waits.most_operation[is_blocking]

    def find_misfit(self) -> str:
        """Why these calls do not represent all calls of the call path, "" if they do."""
        has_visits = np.nan_to_num(self._visits) > 0
        wanted = np.minimum(np.nan_to_num(self._visits), MIN_CALLS)
        calls = int(self._calls.sum())
        if reason := describe_misfits(calls, self._misfits):
            return reason
        if (self._calls[has_visits] < wanted[has_visits]).any():
            return f"fewer than {MIN_CALLS} of its calls were sampled in all their ranks"
        return ""

    def find_uncertainty(self) -> str:
        """Why the waiting of these calls is not known well enough, "" if it is."""
        half_width = float((self._high - self._low).sum()) / 2
        if half_width <= MAX_UNCERTAINTY * float(self._time.sum()):
            return ""
        calls_take = f"its calls take {quantity(float(np.median(self._durations)), 's')}"
        known = float(np.median(self._clocks))
        if not np.isfinite(known):
            return f"nothing bounds the clocks of its nodes; {calls_take}"
        return f"the clocks of its nodes are known to ±{quantity(known, 's')}, {calls_take}"

    def shares(self) -> FloatArray:
        """The share of each rank's time that is waiting, shape (n_ranks,); NaN without calls."""
        has_time = self._time > 0
        middle = (self._low + self._high) / 2
        shares: FloatArray = np.where(self._calls > 0, 0.0, np.nan)
        shares[has_time] = middle[has_time] / self._time[has_time]
        return shares

    def operations(self, share: float) -> FloatArray:
        """A quantile of the times of the operations of blocking calls, in seconds.

        Args:
            share: of the calls, whose operations take no longer.

        Returns:
            An array (n_ranks,); NaN for ranks without such calls or if it is not known well enough.
        """
        least, most = (
            _quantile_by_rank(self._blocking_ranks, times, share=share, size=self._visits.size)
            for times in (self._least_operation, self._most_operation)
        )
        with np.errstate(invalid="ignore"):
            is_known = most - least <= MAX_OPERATION_UNCERTAINTY * (most + least)
        return np.where(is_known & np.isfinite(most), (most + least) / 2, np.nan)


def describe_misfits(calls: int, misfits: int) -> str:
    """That too many sampled calls do not fit together; "" if they are few.

    Args:
        calls: that fit.
        misfits: that do not.
    """
    if misfits <= MAX_MISFITS * (calls + misfits):
        return ""
    return f"{misfits} of its {calls + misfits} sampled calls contradict others"


def _quantile_by_rank(
    ranks: IntArray, values: FloatArray, *, share: float, size: int
) -> FloatArray:
    """A quantile of the values of each rank, interpolated linearly; NaN for ranks without any."""
    order = np.lexsort((values, ranks))
    counts = np.bincount(ranks, minlength=size)
    has_values = counts > 0
    first = (np.cumsum(counts) - counts)[has_values]
    position = share * (counts[has_values] - 1)
    below = position.astype(np.intp)
    above = np.minimum(below + 1, counts[has_values] - 1)
    lower, upper = values[order[first + below]], values[order[first + above]]
    quantiles = np.full(size, np.nan)
    weight = position - below
    with np.errstate(invalid="ignore"):  # infinite values, which are not selected
        quantiles[has_values] = np.where(weight > 0, lower + weight * (upper - lower), lower)
    return quantiles


def add_values(table: RunTable, metric: Metric, values: FloatArray) -> RunTable:
    """The table with values of a metric, added to those that agents have computed."""
    name = metric.name
    if np.isnan(values).all():
        return table
    before = table.values.get(name, np.full_like(values, np.nan))
    is_new = ~np.isnan(values)
    after = np.where(is_new, np.nan_to_num(before) + np.nan_to_num(values), before)
    metrics = table.metrics if name in table.values else (*table.metrics, metric)
    return replace(table, metrics=metrics, values={**table.values, name: after})


def _read_events(nodes: Sequence[NodeCollectives], size: int) -> tuple[Events, Booleans, Keys]:
    """The events of all nodes, which of them belong to calls with all their ranks, and all keys.

    Events whose numbers are out of range are left out.
    """
    keys, sizes, columns = [], [], []
    for number, node in enumerate(nodes):
        sent = node.events
        rows = np.frombuffer(sent.rows, "<u4").astype(np.intp)
        ranks = np.frombuffer(sent.ranks, "<i4").astype(np.intp)
        begins = np.frombuffer(sent.begins, "<u8") / NS_PER_S
        ends = np.frombuffer(sent.ends, "<u8") / NS_PER_S
        arrivals = np.frombuffer(sent.arrivals, "<u8") / NS_PER_S if sent.arrivals else begins
        weights = np.frombuffer(sent.weights, "<f4").astype(float)
        if not sent.weights:
            weights = np.ones(begins.size)
        is_valid = (rows < node.path_ids.size) & (ranks >= 0) & (ranks < size)
        is_valid &= (ends >= begins) & (begins >= arrivals)
        is_valid &= (weights >= 1) & np.isfinite(weights)

        keys.append(np.frombuffer(sent.keys, "<u8")[is_valid])
        sizes.append(np.frombuffer(sent.sizes, "<u4").astype(np.intp)[is_valid])
        columns.append(
            (
                np.full(int(is_valid.sum()), number),
                np.frombuffer(sent.members, "<u4").astype(np.intp)[is_valid],
                ranks[is_valid],
                node.path_ids[rows[is_valid]],
                np.frombuffer(sent.needs, "<i4").astype(np.intp)[is_valid],
                begins[is_valid],
                ends[is_valid],
                arrivals[is_valid],
                weights[is_valid],
            )
        )

    unique_keys, calls = np.unique(np.concatenate(keys), return_inverse=True)
    events = Events(calls, *(np.concatenate(column) for column in zip(*columns, strict=True)))
    order = np.lexsort((events.members, events.nodes, events.calls))
    is_complete = _are_complete(events, np.concatenate(sizes))
    return events.select(order), is_complete[order], unique_keys


def _are_complete(events: Events, sizes: IntArray) -> Booleans:
    """Whether each event belongs to a call that has exactly one event of each of its ranks."""
    n_calls = int(events.calls.max(initial=-1)) + 1
    counts = np.bincount(events.calls, minlength=n_calls)
    least, most = np.full(n_calls, np.iinfo(np.intp).max), np.zeros(n_calls, dtype=np.intp)
    np.minimum.at(least, events.calls, sizes)
    np.maximum.at(most, events.calls, sizes)

    pairs = np.unique(np.column_stack([events.calls, events.members]), axis=0)
    members = np.bincount(pairs[:, 0], minlength=n_calls)
    is_in_range = np.ones(n_calls, dtype=bool)
    is_in_range[events.calls[events.members >= sizes]] = False
    is_complete = (counts == most) & (least == most) & (members == counts) & is_in_range
    result: Booleans = is_complete[events.calls]
    return result
