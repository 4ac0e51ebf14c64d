"""Candidates for limits: files that a rank opens, reads or writes more on more ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.budget import at_text, visit_price
from insitu.analysis.diagnosis.growth import (
    CountGrowth,
    find_growth,
    find_ramp_end,
    growth_of_larger,
)
from insitu.analysis.diagnosis.limit import Limit, cost_at_price, is_once, looping_caller
from insitu.analysis.diagnosis.machine import FILE_CALL_S, Machine
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries
from insitu.entities import (
    BYTES_READ,
    BYTES_WRITTEN,
    FILES_OPENED,
    FILES_OWN,
    FILES_SHARED,
    RANKS,
    VISITS,
    CallPath,
    is_start_up,
)
from insitu.modeling.measurement import FloatArray

LISTING = "readdir"
METADATA_CALLS = frozenset({"open", "fopen", "fsync"})  # served by one server of the file system
LEAST_REOPENED = 10.0  # times that a rank opens a shared file: less often are checkpoints
BY_ORDER = "unless each run leaves one file more, such as a numbered backup: run {}"


def file_limits(measurements: Measurements, machine: Machine, target: float) -> list[Limit]:
    """Files, bytes and calls that grow with p: the most expensive quantity of each function."""
    by_function: dict[CallPath, list[Limit]] = {}
    for path in sorted(measurements.file_calls):
        if not is_start_up(path):
            for limit in _limits_of_call(measurements, path, machine, target):
                by_function.setdefault(limit.path, []).append(limit)
            own = _files_of_each_rank(measurements, path, target)
            if own is not None:
                by_function.setdefault(own.path, []).append(own)
            shared = _shared_files_opened_again(measurements, path, target)
            if shared is not None:
                by_function.setdefault(shared.path, []).append(shared)

    most_expensive = []
    for limits in by_function.values():
        most_expensive.append(max(limits, key=lambda limit: (limit.is_exact, limit.cost(target))))
    return most_expensive


def _limits_of_call(
    measurements: Measurements, path: CallPath, machine: Machine, target: float
) -> Iterator[Limit]:
    p = measurements.p
    visits = measurements.visits_up_from(path)
    calls = find_growth(p, visits[0], target, counts=visits[1:])
    # A loop that repeats the call makes its quantities grow. Where visits of functions are unknown,
    # as in unchanged compiled programs, that is the function that makes the call.
    owner = measurements.owners[path]
    if calls.is_growing:
        looping = looping_caller(measurements, path)
        owner = owner if looping == path else looping

    price_of_call = visit_price(measurements, path)
    if path.name in METADATA_CALLS:
        price_of_call = FILE_CALL_S
    calls_of = f"calls {path.name} {{}} times"
    if path.name == LISTING:
        calls_of = "reads {} entries of directories"
    quantities = (
        (FILES_OPENED, "opens {} files", price_of_call),
        (BYTES_WRITTEN, "writes {} to files", 1 / machine.bandwidth),
        (BYTES_READ, "reads {} from files", 1 / machine.bandwidth),
        (VISITS, calls_of, price_of_call),
    )
    for metric, subject, price in quantities:
        series = measurements.series([path], metric.name)
        growth = find_growth(p, series, target, counts=visits)
        if growth.law is not None and growth.single is None and not growth.is_certain:
            growth = replace(growth, single=find_ramp_end(series))
        if not _is_candidate(growth):
            continue
        is_by_order = _is_by_order(measurements, series)
        run = f"{at_text(RANKS, float(p[0]))} again" if is_by_order else None
        yield Limit(
            kind="files",
            path=owner,
            metric=metric.name,
            unit=metric.unit,
            growth=growth,
            cost=cost_at_price(growth, price, measurements.p, target),
            is_once=is_once(measurements, owner),
            subject=subject,
            detail=path,
            condition="" if run is None else BY_ORDER.format(run),
            run=run,
        )


def _is_by_order(measurements: Measurements, series: RankSeries) -> bool:
    """Whether a count is one more in each run, and each run had more ranks than the one before.

    A program that keeps the results of earlier runs opens `result.1`, `result.2` and so on until a
    name is free: that grows with the runs, not with the ranks.
    """
    orders = [run.order for group in measurements.groups for run in group]
    is_in_order = len(orders) == len(measurements.p) and bool(np.all(np.diff(orders) > 0))
    return is_in_order and bool(np.all(np.diff(series.statistic(np.max)) == 1))


def _files_of_each_rank(measurements: Measurements, path: CallPath, target: float) -> Limit | None:
    """Files that belong to single ranks, if every rank has some: the file system has p of them."""
    if not _is_known(measurements, path, FILES_OWN.name):
        return _files_to_write(measurements, path, target)
    ranks = measurements.series([path], FILES_OWN.name)
    scales = [i for i, p in enumerate(measurements.p.tolist()) if p > 1]
    if len(scales) < len(measurements.p) - 1 or not scales:
        return None
    if any(vector.min() <= 0 for i in scales for vector in ranks.vectors[i]):
        return None

    # On one rank there is no other to compare with: its files are those that it opens.
    vectors = []
    for group, files in zip(measurements.groups, ranks.vectors, strict=True):
        counts = files
        if group[0].key.size == 1:
            counts = tuple(run.vector(path, FILES_OPENED.name) for run in group)
        vectors.append(counts)
    total, p = _sum_ranks(vectors), measurements.p
    growth = find_growth(p, total, target)
    if growth.law is None and p[0] == 1:  # which may open a file of its own again
        others = growth_of_larger(p, total, target, first=1)
        growth = growth if others.law is None else others
    if not growth.is_growing:
        return None

    owner = measurements.owners[path]
    return Limit(
        kind="files",
        path=owner,
        metric=FILES_OWN.name,
        unit=FILES_OWN.unit,
        growth=growth,
        cost=cost_at_price(growth, FILE_CALL_S, measurements.p, target),
        is_once=is_once(measurements, owner),
        subject="opens files of its own, {} in all",
        detail=path,
    )


def _shared_files_opened_again(
    measurements: Measurements, path: CallPath, target: float
) -> Limit | None:
    """Files that all ranks share and open again and again to write them, such as a log.

    All ranks together open them ever more often, on a file system that has one server for this. To
    open a file once, to read or write a part of it, is what programs with shared files do.
    """
    owner, caller = measurements.owners[path], path.parent
    if path.name not in METADATA_CALLS or caller is None:
        return None
    beside = measurements.children.get(caller, [])
    written = measurements.series(beside, BYTES_WRITTEN.name)
    opened, shared, own = (
        measurements.series([path], metric.name)
        for metric in (FILES_OPENED, FILES_SHARED, FILES_OWN)
    )
    for i, p in enumerate(measurements.p.tolist()):
        groups = [series.vectors[i] for series in (opened, shared, own, written)]
        for openings, files, own_files, size in zip(*groups, strict=True):
            if p == 1 and openings.min() > 0:
                continue  # no other rank shares a file
            if files.min() <= 0 or own_files.any() or size.min() <= 0:
                return None
            if np.any(openings < LEAST_REOPENED * files):
                return None

    growth = find_growth(measurements.p, _sum_ranks(opened.vectors), target)
    if growth.law is None or not growth.is_growing:
        return None
    growth = replace(growth, is_certain=True)  # a sum over ranks is no number of neighbours
    return Limit(
        kind="files",
        path=owner,
        metric=FILES_OPENED.name,
        unit=FILES_OPENED.unit,
        growth=growth,
        cost=cost_at_price(growth, FILE_CALL_S, measurements.p, target),
        is_once=is_once(measurements, owner),
        subject="opens and writes files that ranks share, {} times in all",
        detail=path,
    )


def _sum_ranks(vectors: Sequence[Sequence[FloatArray]]) -> RankSeries:
    """Return the sum over ranks as the value of every rank, per scale and run."""
    totals = []
    for group in vectors:
        totals.append(tuple(np.full(len(vector), vector.sum()) for vector in group))
    return RankSeries(tuple(totals))


def _is_known(measurements: Measurements, path: CallPath, metric: str) -> bool:
    """Whether any run has a value of a metric for a call path."""
    for run in measurements.runs:
        row, values = run.rows.get(path), run.table.values.get(metric)
        if row is not None and values is not None and np.any(np.isfinite(values[row])):
            return True
    return False


def _files_to_write(measurements: Measurements, path: CallPath, target: float) -> Limit | None:
    """Files that a function opens and writes on every rank, where it is unknown whose they are.

    Which files are those of a single rank is not known if a call path opens many files. The number
    of calls that open a file is known.
    """
    owner = measurements.owners[path]
    if path.name not in METADATA_CALLS or path.parent != owner:
        return None
    siblings = measurements.children.get(owner, [])
    written = measurements.series(siblings, BYTES_WRITTEN.name)
    opened = measurements.series([path], FILES_OPENED.name)
    for series in (written, opened):
        if any(vector.min() <= 0 for group in series.vectors for vector in group):
            return None

    growth = find_growth(measurements.p, _sum_ranks(opened.vectors), target)
    if growth.law is None or not growth.is_growing:
        return None
    return Limit(
        kind="files",
        path=owner,
        metric=FILES_OPENED.name,
        unit=FILES_OPENED.unit,
        growth=growth,
        cost=cost_at_price(growth, FILE_CALL_S, measurements.p, target),
        is_once=is_once(measurements, owner),
        subject="opens files to write them, {} in all",
        detail=path,
        condition="if each rank has its own",
    )


def _is_candidate(growth: CountGrowth) -> bool:
    """Whether one rank or all ranks do more, not only those inside a growing grid."""
    if not growth.is_growing:
        return False
    return growth.single is not None or growth.has_same_order
