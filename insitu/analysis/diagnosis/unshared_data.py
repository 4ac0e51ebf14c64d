"""Data that each rank receives whole, in a program that shares its data among the ranks."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.budget import at_text, least_work, sampled_work
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.diagnosis.machine import Machine, collective_steps, is_collective
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.analysis.diagnosis.memory import median_rank, own_heap
from insitu.analysis.diagnosis.statements import WARNING, Statement
from insitu.analysis.diagnosis.unshared_samples import find_unshared_samples
from insitu.analysis.diagnosis.unshared_work import find_only_rank, find_unshared_work
from insitu.entities import (
    BYTES_ALLOCATED,
    BYTES_RECEIVED,
    BYTES_SENT,
    RANKS,
    VISITS,
    CallPath,
    is_start_up,
)
from insitu.units import quantity

LEAST_SCALES = 4
LEAST_HEAP = 4096.0  # bytes that a function allocates at the largest scale
SHARED_WITHIN = 0.05  # relative range of what all ranks together allocate, if it is shared
DIRECTIONS = {  # what one rank moves for all, and what the others do
    "receives": (BYTES_RECEIVED.name, BYTES_SENT.name),
    "sends": (BYTES_SENT.name, BYTES_RECEIVED.name),
}
LEAST_SHARE = 0.1  # of a rank's time for its work and for this data at the largest scale


def find_unshared(
    measurements: Measurements, machine: Machine, scaling: str, *, measured_scaling: str
) -> Iterator[Statement]:
    """Work and data that every rank has whole, while the rest is shared.

    Args:
        measurements: all runs.
        machine: what is assumed of the target.
        scaling: "strong" if the user says that the rest is shared.
        measured_scaling: the same, or as the measurements show.
    """
    yield from find_unshared_work(measurements, is_strong=scaling == "strong")
    yield from find_unshared_samples(measurements)
    yield from find_unshared_data(measurements, machine, is_strong=measured_scaling == "strong")
    yield from find_data_of_one_rank(measurements, machine)


def find_unshared_data(
    measurements: Measurements, machine: Machine, *, is_strong: bool = False
) -> Iterator[Statement]:
    """MPI calls by which each rank receives as much at all scales, and more with each call than
    its share of the data, or, with strong scaling, in collective operations.

    With a fixed problem size, ranks hold less data the more they are, and what they exchange with
    neighbours is less than that. A vector or matrix that each rank receives whole is not, nor is a
    reduction of the whole mesh, and takes as long on any number of ranks.
    """
    share_of_data = _shared_bytes(measurements)
    if share_of_data <= 0 and not is_strong:
        return
    work = _work_of_a_rank(measurements)
    if work <= 0:
        return

    largest = float(measurements.p[-1])
    for path in measurements.callpaths:
        if not is_mpi(path) or is_start_up(path):
            continue
        received = measurements.series([path], BYTES_RECEIVED.name).statistic(np.mean)
        calls = measurements.series([path], VISITS.name).statistic(np.mean)
        is_constant = np.ptp(received) == 0 and np.ptp(calls) == 0 and calls[0] > 0
        if not is_constant:
            continue
        total, count = float(received[0]), float(calls[0])
        is_more = 0 < share_of_data * count <= total
        latency_s = count * collective_steps(path.name, largest) * machine.latency_s
        is_large = is_collective(path.name) and total / machine.bandwidth >= latency_s
        if not (is_more or (is_strong and is_large)):
            continue
        holds = f", but holds {quantity_text(share_of_data, 'B')} as its share of the data at"
        holds = f"{holds} {at_text(RANKS, largest)}" if is_more else ""
        moved = f"each rank receives {quantity_text(total / count, 'B')} in each {path.name}"
        statement = _make_statement(
            measurements,
            path,
            work,
            text=f"{moved} at every p{holds}: {{}} that more ranks do not save; its own work takes",
            total=total,
            seconds=total / machine.bandwidth + count * machine.latency_s,
        )
        if statement is not None:
            yield statement


def find_data_of_one_rank(measurements: Measurements, machine: Machine) -> Iterator[Statement]:
    """Collective calls by which one rank receives the data of all ranks, or sends them, as much at
    all scales, while the share of each rank is one p-th of it.

    As a gather of a field whose size does not depend on p: the time of its root stays, and with it
    that of all that the root does with these data.
    """
    work = _work_of_a_rank(measurements)
    if len(measurements.p) < LEAST_SCALES or work <= 0:
        return
    for path in measurements.callpaths:
        if not is_collective(path.name) or is_start_up(path):
            continue
        count = measurements.series([path], VISITS.name).statistic(np.mean)
        for verb in DIRECTIONS:
            whole = _whole_of_one_rank(measurements, path, verb)
            if whole is None or np.ptp(count) > 0:
                continue
            rank, total = whole
            size = quantity_text(total / float(count[-1]), "B")
            moved = f"rank {rank} {verb} {size}, the data of all ranks, in each {path.name}"
            statement = _make_statement(
                measurements,
                path,
                work,
                text=f"{moved} at every p: {{}} that more ranks do not save; the work of a rank"
                " takes",
                total=total,
                seconds=total / machine.bandwidth + float(count[-1]) * machine.latency_s,
            )
            if statement is not None:
                ranks, metric = f"rank {rank}", DIRECTIONS[verb][0]
                calls = (path.name,)
                yield replace(statement, kind="serial", ranks=ranks, metric=metric, calls=calls)


def _make_statement(
    measurements: Measurements,
    path: CallPath,
    work: float,
    *,
    text: str,
    total: float,
    seconds: float,
) -> Statement | None:
    """The statement about data that a call moves at every scale; None if it takes little time.

    Args:
        measurements, path: all runs; the call.
        work: seconds that the work of a rank takes at the largest scale.
        text: with a pair of braces for the seconds; the seconds of the work follow it.
        total: bytes that are moved.
        seconds: that this takes.
    """
    share = seconds / (seconds + work)
    if share < LEAST_SHARE:
        return None
    owner, at = measurements.owners[path], at_text(RANKS, float(measurements.p[-1]))
    return Statement(
        kind="bytes",
        status=WARNING,
        text=f"{text.format(quantity(seconds, 's'))} {quantity(work, 's')} at {at}",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all",
        metric=BYTES_RECEIVED.name,
        unit="B",
        law=quantity_text(total, "B"),
        now=total,
        then=total,
        severity=min(share, 0.99),
        seconds=seconds,
    )


def _whole_of_one_rank(
    measurements: Measurements, path: CallPath, verb: str
) -> tuple[int, float] | None:
    """The only rank that receives or sends the shares of all, and how many bytes; None without."""
    alone = measurements.p <= 1
    of_one, shares = (
        RankSeries(measurements.series([path], metric).vectors[np.count_nonzero(alone) :])
        for metric in DIRECTIONS[verb]
    )
    rank = find_only_rank(of_one)
    if rank is None:
        return None
    total = of_one.statistic(np.max)
    together = shares.statistic(np.max) * measurements.p[~alone]
    is_shared = bool(together[-1] > 0 and np.ptp(together) <= SHARED_WITHIN * together.max())
    is_same = np.ptp(total) <= SHARED_WITHIN * total.max()
    return (rank, float(total[-1])) if is_shared and is_same else None


def _shared_bytes(measurements: Measurements) -> float:
    """The most that a visit of a function allocates for a share of fixed data at the largest scale.

    All ranks together allocate as much at all scales. In bytes; 0 without such a function.
    """
    if len(measurements.p) < LEAST_SCALES or BYTES_ALLOCATED.name not in measurements.metrics:
        return 0.0
    most = 0.0
    for owner, members in measurements.members.items():
        heap = own_heap(measurements, owner, members, BYTES_ALLOCATED.name)
        allocated = median_rank(heap).statistic(np.max)
        visits = median_rank(measurements.series([owner], VISITS.name)).statistic(np.max)
        per_visit = allocated / np.maximum(visits, 1.0)
        together = per_visit * measurements.p
        is_shared = np.ptp(together) <= SHARED_WITHIN * together.max(initial=0.0)
        if is_shared and per_visit[-1] >= LEAST_HEAP:
            most = max(most, float(per_visit[-1]))
    return most


def _work_of_a_rank(measurements: Measurements) -> float:
    """Seconds of the functions of the program at the largest scale, mean over ranks.

    Those of `least_work` for timed functions and for the script itself, and the processor time of
    sampled ones.
    """
    seconds = 0.0
    sampled = sampled_work(measurements)
    for path in measurements.callpaths:
        if is_mpi(path) or is_start_up(path):
            continue
        is_around_samples = path.parent is None and sampled is not None
        if not measurements.is_sampled(path) and not is_around_samples:
            seconds += float(least_work(measurements, path)[-1])
    if sampled is not None:
        seconds += float(sampled[-1]) / float(measurements.p[-1])
    return seconds
