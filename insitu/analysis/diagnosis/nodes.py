"""Nodes that were slower than the others in all runs, and laws that end at the edge of a node."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from insitu.analysis.diagnosis.machine import is_collective
from insitu.analysis.diagnosis.measurements import (
    MeasuredRun,
    Measurements,
    is_mpi,
)
from insitu.analysis.diagnosis.scales import next_scale
from insitu.analysis.diagnosis.statements import NOT_JUDGED, WARNING, Statement
from insitu.analysis.node_boundary import LEAST_SCALES, node_boundary
from insitu.campaign.node_facts import RunNode, nodes_of
from insitu.entities import (
    BYTES_SENT,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    RunKey,
    RunRecord,
    is_start_up,
)
from insitu.modeling.measurement import FloatArray
from insitu.modeling.run_effects import MIN_FACTOR, MIN_SERIES, MIN_SHARE

LEAST_RUNS = 2  # in which a node is slow; a single run shows a disturbance, not a node
LEAST_TIME_S = 1e-3  # of a call path on a node; shorter times are noise


def find_slow_nodes(
    measurements: Measurements, records: Sequence[RunRecord]
) -> Iterator[Statement]:
    """Nodes on which a visit takes longer than on the others by one factor in all call paths.

    The thresholds are those of runs that were disturbed as a whole. Times per visit do not depend
    on how much work a rank has, and the ranks of a node differ between scales.
    """
    nodes_by_run = {record.key: nodes_of(record) for record in records}
    factors: dict[str, list[float]] = {}
    for run in measurements.runs:
        if not run.is_crowded:
            for name, factor in _node_factors(run, nodes_by_run.get(run.key, [])).items():
                factors.setdefault(name, []).append(factor)

    for name, values in sorted(factors.items()):
        if len(values) < LEAST_RUNS or min(values) < MIN_FACTOR:
            continue
        factor = float(np.median(values))
        facts = _facts_text(nodes_by_run, name)
        yield Statement(
            kind="run",
            status=WARNING,
            text=f"node {name} is slow: {factor:.2g} times the time of the other nodes per visit in"
            f" all {len(values)} runs on it{facts}; leave it out, or ask its administrators",
            metric=TIME_EXCLUSIVE.name,
            unit="s",
            now=factor,
        )


def find_node_boundary(
    measurements: Measurements, records: Sequence[RunRecord], target: float
) -> Iterator[Statement]:
    """That messages between nodes have no law, where the target needs more than one node.

    Said where times are judged at all, and of programs that communicate.
    """
    keys = {run.key for run in measurements.runs if not run.is_crowded}
    boundary = node_boundary([record for record in records if record.key in keys])
    if boundary is None or not boundary.is_open(target):
        return
    if len({key.size for key in keys}) < LEAST_SCALES or not _communicates(measurements):
        return

    larger = next_scale(measurements.p, 2.0)
    yield Statement(
        kind="time",
        status=NOT_JUDGED,
        text=f"times of messages between nodes: {boundary.reason(target)}",
        run=larger if boundary.crossed else f"{larger} on two nodes",
    )


def _communicates(measurements: Measurements) -> bool:
    """Whether ranks of the largest scale send messages or take part in collective operations."""
    run = measurements.groups[-1][-1]
    for path in run.rows:
        if is_mpi(path) and not is_start_up(path):
            is_sending = is_collective(path.name) or run.vector(path, BYTES_SENT.name).any()
            if is_sending and run.size > 1:
                return True
    return False


def _node_factors(run: MeasuredRun, nodes: Sequence[RunNode]) -> dict[str, float]:
    """How many times longer a visit takes on each node than on the others.

    A node on which call paths disagree has the factor 1.
    """
    if len(nodes) < 2:
        return {}

    names = [node.name for node in nodes]
    rows = []
    for path in run.rows:
        if not is_start_up(path) and not is_mpi(path):
            times = _times_per_visit(run, path, nodes)
            if np.isfinite(times).all():
                rows.append(times)
    if len(rows) < MIN_SERIES:
        return dict.fromkeys(names, 1.0)

    times = np.array(rows)  # (n_call_paths, n_nodes)
    factors = {}
    for i, name in enumerate(names):
        others = np.median(np.delete(times, i, axis=1), axis=1)
        ratios = times[:, i] / others
        factor = float(np.median(ratios))
        is_common = np.mean(np.log(ratios) >= np.log(max(factor, 1.0)) / 2) >= MIN_SHARE
        factors[name] = factor if is_common else 1.0
    return factors


def _times_per_visit(run: MeasuredRun, path: CallPath, nodes: Sequence[RunNode]) -> FloatArray:
    """The median exclusive time per visit of the ranks of each node, (n_nodes,); NaN if short."""
    seconds, visits = run.vector(path, TIME_EXCLUSIVE.name), run.vector(path, VISITS.name)
    times = np.full(len(nodes), np.nan)
    for i, node in enumerate(nodes):
        ranks = [rank for rank in node.ranks if rank < len(seconds) and visits[rank] > 0]
        if ranks and seconds[ranks].max() >= LEAST_TIME_S:
            times[i] = np.median(seconds[ranks] / visits[ranks])
    return times


def _facts_text(nodes_by_run: Mapping[RunKey, Sequence[RunNode]], name: str) -> str:
    """` (2,100 MHz, the others 3,000)` where the frequency of a node is not that of the others."""
    own: set[object] = set()
    others: set[object] = set()
    for nodes in nodes_by_run.values():
        for node in nodes:
            mhz = node.facts.get("mhz")
            if isinstance(mhz, int):
                (own if node.name == name else others).add(mhz)
    if len(own) != 1 or len(others) != 1 or own == others:
        return ""
    return f" ({own.pop():,} MHz, the others {others.pop():,})"
