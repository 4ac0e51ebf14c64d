"""Statements about waiting: in which MPI calls ranks wait for others, for whom, and why."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import at_text, run_time
from insitu.analysis.diagnosis.masters import waits_as_master
from insitu.analysis.diagnosis.measurements import (
    MeasuredRun,
    Measurements,
    is_mpi,
)
from insitu.analysis.diagnosis.statements import (
    NOT_JUDGED,
    WARNING,
    WARNING_FROM,
    Cause,
    Statement,
)
from insitu.analysis.diagnosis.times import (
    LEAST_LOST,
    LEAST_SECONDS,
    comparable_runs,
    largest_run,
)
from insitu.campaign.delays import WaitingCauses, waiting_causes
from insitu.entities import (
    ARROW,
    RANKS,
    TIME_LATE_RECEIVER,
    TIME_LATE_SENDER,
    TIME_WAITING,
    CallPath,
    RunKey,
    RunRecord,
    is_start_up,
)
from insitu.modeling.base import Clusters
from insitu.units import percent

LEAST_WAITING = 0.05  # of the time, from which waiting is a warning
MOST_WAITING = 0.8  # of the waiting for messages: then its other reason is not mentioned
LEAST_EXPLAINED = 0.5  # of the waiting; of noise, less is explained, and no cause is named
LEAST_CAUSE = 0.1  # of the waiting, from which a cause is named
MOST_COST = 0.9  # of the cost of a cause, that the named ranks have
MAX_RANKS = 3  # that are listed by their numbers
MAX_FRAMES = 3  # of the name of a cause

ClassNames = Mapping[frozenset[int], str]  # of sets of ranks


def find_waiting(
    measurements: Measurements, records: Sequence[RunRecord], clusters: Sequence[Clusters]
) -> Iterator[Statement]:
    """MPI calls in which ranks wait for others for a relevant share of the time, and why.

    Args:
        measurements: the runs with their values.
        records: all runs, with the causes of waiting.
        clusters: of their ranks, for the names of classes.
    """
    run = largest_run(measurements)
    if run is None or run.is_crowded or TIME_WAITING.name not in run.table.values:
        return

    whole = run_time(run)
    if whole <= 0:
        return

    group = comparable_runs(measurements, run)
    lost = min(float(run.lost_shares.mean()) for run in group)
    causes_by_run = {record.key: waiting_causes(record) for record in records}
    class_names = _class_names(clusters, run.key)
    for path in measurements.callpaths:
        if is_start_up(path) or not is_mpi(path) or waits_as_master(measurements, run, path):
            continue
        shares = []
        for repetition in group:
            seconds = repetition.vector(path, TIME_WAITING.name).mean()
            shares.append(float(seconds) / max(run_time(repetition), 1e-300))
        low, high = min(shares), max(shares)
        if low < LEAST_WAITING or low * whole < LEAST_SECONDS:
            continue
        if lost > LEAST_LOST:
            yield Statement(
                kind="waiting",
                status=NOT_JUDGED,
                text=f"waiting: for {percent(lost)} of the time at {at_text(RANKS, run.key.size)}"
                " ranks neither had a core nor waited for others; other programs or files may have"
                " delayed them",
                run=f"{at_text(RANKS, run.key.size)} on cores of its own",
            )
            return
        span = percent(low) if high - low < 0.01 else f"{percent(low)} to {percent(high)}"
        owner = measurements.owners[path]
        causes = _find_causes(measurements, group, path, causes_by_run=causes_by_run)
        explained = _causes_text(causes, path, measurements, class_names)
        yield Statement(
            kind="waiting",
            status=WARNING,
            text=f"ranks wait for {_whom(group, path)} in {path.name} for {span} of the time at"
            f" {at_text(RANKS, run.key.size)}{explained}",
            callpath=str(owner),
            where=measurements.where(owner),
            ranks="all",
            metric=TIME_WAITING.name,
            unit="s",
            now=float(np.median(shares)) * whole,
            severity=float(np.median(shares)) / LEAST_WAITING * WARNING_FROM,
            causes=tuple(causes),
        )


def _whom(group: Sequence[MeasuredRun], path: CallPath) -> str:
    """What the ranks wait for: senders or receivers of messages, or other ranks in general."""
    waits = {}
    for metric in (TIME_WAITING, TIME_LATE_SENDER, TIME_LATE_RECEIVER):
        waits[metric] = sum(float(run.vector(path, metric.name).sum()) for run in group)
    for metric, whom in ((TIME_LATE_SENDER, "senders"), (TIME_LATE_RECEIVER, "receivers")):
        if waits[metric] > MOST_WAITING * waits[TIME_WAITING]:
            return f"late {whom}"
    for_messages = waits[TIME_LATE_SENDER] + waits[TIME_LATE_RECEIVER]
    is_message = for_messages > MOST_WAITING * waits[TIME_WAITING]
    return "late senders and receivers" if is_message else "others"


def _find_causes(
    measurements: Measurements,
    group: Sequence[MeasuredRun],
    path: CallPath,
    *,
    causes_by_run: Mapping[RunKey, Mapping[CallPath, WaitingCauses]],
) -> list[Cause]:
    """The functions that cause the waiting in an MPI call, the largest first.

    Shares are those of all waiting that was measured there, so that they are too small rather than
    too large where causes are unknown for a part of the calls.
    """
    waited = 0.0
    costs: dict[CallPath, dict[int, float]] = {}
    for run in group:
        known = causes_by_run.get(run.key, {}).get(path, WaitingCauses())
        waited += max(known.waited, float(run.vector(path, TIME_WAITING.name).sum()))
        for (cause, rank), seconds in known.costs.items():
            # A late rank may wait itself, in a call of MPI whose cause is unknown.
            owner = cause if is_mpi(cause) else measurements.owners.get(cause, cause)
            of_ranks = costs.setdefault(owner, {})
            of_ranks[rank] = of_ranks.get(rank, 0.0) + seconds
    if waited <= 0:
        return []

    tree = _CauseTree({cause: sum(of_ranks.values()) / waited for cause, of_ranks in costs.items()})
    causes = []
    for cause in tree.find_causes(CallPath(())):
        of_cause: dict[int, float] = {}
        for owner, of_ranks in costs.items():
            if owner.is_within(cause):
                for rank, seconds in of_ranks.items():
                    of_cause[rank] = of_cause.get(rank, 0.0) + seconds
        causes.append(Cause(str(cause), tree.shares[cause], _ranks_with_most(of_cause)))
    causes.sort(key=lambda cause: -cause.share)
    return causes if sum(cause.share for cause in causes) >= LEAST_EXPLAINED else []


class _CauseTree:
    """The share of waiting that each call path causes, with the functions that it calls."""

    def __init__(self, shares: Mapping[CallPath, float]) -> None:
        self.shares: dict[CallPath, float] = {}
        self.callees: dict[CallPath, list[CallPath]] = {}
        for path, share in shares.items():
            for end in range(1, len(path.frames) + 1):
                at = CallPath(path.frames[:end])
                if at not in self.shares:
                    self.callees.setdefault(CallPath(path.frames[: end - 1]), []).append(at)
                self.shares[at] = self.shares.get(at, 0.0) + share

    def find_causes(self, path: CallPath) -> list[CallPath]:
        """The innermost call paths from here on that explain what this one explains."""
        relevant = [
            callee for callee in self.callees.get(path, []) if self.shares[callee] >= LEAST_CAUSE
        ]
        explained = sum(self.shares[callee] for callee in relevant)
        if path.frames and explained < MOST_COST * self.shares[path]:
            return [path]
        causes = []
        for callee in relevant:
            causes += self.find_causes(callee)
        return causes


def _ranks_with_most(seconds: Mapping[int, float]) -> tuple[int, ...]:
    """The fewest ranks that together have most of a cost, ascending."""
    named: list[int] = []
    total, covered = sum(seconds.values()), 0.0
    for rank in sorted(seconds, key=lambda rank: -seconds[rank]):
        if covered >= MOST_COST * total:
            break
        named.append(rank)
        covered += seconds[rank]
    return tuple(sorted(named))


def _class_names(clusters: Sequence[Clusters], run: RunKey) -> ClassNames:
    """The names of the behaviour classes of a run's ranks."""
    names: dict[frozenset[int], str] = {}
    known: set[tuple[int, tuple[str, ...]]] = set()  # most call paths share their labels
    for entry in clusters:
        if entry.run != run or (id(entry.labels), entry.names) in known:
            continue
        known.add((id(entry.labels), entry.names))
        for label, name in enumerate(entry.names):
            ranks = frozenset(np.flatnonzero(entry.labels == label).tolist())
            if 1 < len(ranks) < run.size:
                names.setdefault(ranks, f"class {name}" if len(name) == 1 else f"{name} ranks")
    return names


def _causes_text(
    causes: Sequence[Cause], path: CallPath, measurements: Measurements, class_names: ClassNames
) -> str:
    """`; 62 % of it is caused by assemble (fem.py:7) on corner ranks`; "" without a cause."""
    texts: list[str] = []
    for cause in causes:
        culprit = CallPath.parse(cause.callpath)
        where = measurements.where(culprit)
        site = f" ({where})" if where else ""
        ranks = _ranks_text(cause.ranks, int(measurements.p[-1]), class_names)
        of_it = "" if texts else " of it is caused"
        texts.append(
            f"{percent(cause.share)}{of_it} by {_name_from(culprit, path)}{site} on {ranks}"
        )
    return "; " + ", ".join(texts) if texts else ""


def _name_from(path: CallPath, other: CallPath) -> str:
    """The frames of a call path behind those that it shares with another one."""
    common = 0
    while common < min(len(path.frames) - 1, len(other.frames)) and (
        path.frames[common] == other.frames[common]
    ):
        common += 1
    names = [short_name(frame) for frame in path.frames[common:]]
    if len(names) > MAX_FRAMES:
        names = [names[0], "…", names[-1]]
    return ARROW.join(names)


def _ranks_text(ranks: Sequence[int], size: int, class_names: ClassNames) -> str:
    if frozenset(ranks) in class_names:
        return class_names[frozenset(ranks)]
    if len(ranks) == size:
        return "all ranks in turn"
    if len(ranks) > MAX_RANKS:
        return f"{len(ranks)} ranks in turn"
    listed = " and ".join(filter(None, (", ".join(map(str, ranks[:-1])), str(ranks[-1]))))
    return f"rank{'s' * (len(ranks) > 1)} {listed}"
