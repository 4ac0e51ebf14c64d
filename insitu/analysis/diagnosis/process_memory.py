"""Memory of a rank that grows, but not in the heap of any function.

In unchanged compiled programs, blocks below 4 KiB, such as the nodes of a map, belong to no
function; the peak of the heap contains them.
Small Python objects (up to 512 bytes) come from arenas that the interpreter maps itself. Memory
that a program maps and stacks of threads are not in the heap either. The peak of the process,
without what MPI takes, contains all of these; on 2 to 12 ranks of a node it repeats within 0.2 MB.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.diagnosis.growth import estimated_growth
from insitu.analysis.diagnosis.laws import TERMS, ExactLaw, LawFactor
from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.measurements import THREAD, MeasuredRun, Measurements, is_mpi
from insitu.entities import (
    BYTES_ALLOCATED,
    HEAP_GROWTH,
    HEAP_PEAK,
    MEMORY_MPI,
    MEMORY_RSS_PEAK,
    CallPath,
)
from insitu.modeling.measurement import FloatArray

LEAST_SCALES = 4  # a line and its error
LEAST_GROWTH = 1 << 20  # bytes over the measured scales: Python maps arenas of 1 MiB
LEAST_HEAP_GROWTH = 128 << 10  # likewise; the heap of the C library repeats within some kB
MOST_RESIDUAL = 0.15  # of that growth: the rest is not in proportion to p, or noise
LEAST_SHARE = 0.5  # of the growth of the process that the heap of functions does not explain
SHARED_MEMORY = ("MPI_Win_allocate_shared", "MPI_Win_shared_query")
ELEMENT_BYTES = 512 / 8  # of a small object, for each byte of the list that refers to it, at most


@dataclass(frozen=True, slots=True)
class _Peak:
    """A peak of memory that contains more than the heap of functions.

    Attributes:
        metric: of which it is estimated.
        level: of the ranks of a run in bytes, (p,), without what MPI takes; None if it is unknown.
        least_growth: bytes over the measured scales.
        subject, source: what it may be, and where it is seen, for texts.
    """

    metric: str
    level: Callable[[MeasuredRun, CallPath], FloatArray | None]
    least_growth: float
    subject: str
    source: str


def unexplained_memory(
    measurements: Measurements,
    held: Sequence[Limit],
    heap_growth: Mapping[CallPath, float],
    *,
    target: float,
    windows: Sequence[Limit] = (),
) -> Iterator[Limit]:
    """What the median rank, or else rank 0, holds in proportion to p, besides the heap in `held`:
    small blocks of the heap, and other memory of the process, except `windows`.

    It belongs to the function whose own heap grows most over the measured scales (`heap_growth`, in
    bytes), if lists in that heap can refer to so much, else to the program.
    """
    program = next((path for path in measurements.callpaths if path.parent is None), None)
    if program is None or len(measurements.p) < LEAST_SCALES:
        return

    explained = list(held)
    for peak in PEAKS:
        levels = [[peak.level(run, program) for run in group] for group in measurements.groups]
        known = [[level for level in group if level is not None] for group in levels]
        if known != levels:
            continue
        for rank in (None, 0):
            own = np.array(
                [np.median([_of_rank(level, rank) for level in group]) for group in known]
            )
            of_rank = [limit for limit in explained if limit.rank in (None, rank)]
            in_peak = of_rank if peak.metric == HEAP_PEAK.name else [*of_rank, *windows]
            limit = _growth_of(peak, own, measurements, in_peak, target=target)
            if limit is None:
                continue
            growth = limit.cost(float(measurements.p[-1])) - limit.cost(float(measurements.p[0]))
            if rank is None:
                container = max(heap_growth, key=lambda path: heap_growth[path], default=program)
                is_container = heap_growth.get(container, 0.0) * ELEMENT_BYTES >= growth
                path = container if is_container else program
            else:
                path = _find_allocator(measurements, rank, growth) or program
            limit = replace(limit, path=path, rank=rank)
            explained.append(limit)
            yield limit
            break


def _of_rank(level: FloatArray, rank: int | None) -> float:
    return float(np.median(level)) if rank is None else float(level[rank])


def _find_allocator(measurements: Measurements, rank: int, growth: float) -> CallPath | None:
    """The innermost function whose allocations on a rank grow by so many bytes over the scales."""
    grown = []
    for owner in measurements.members:
        series = measurements.series([owner], BYTES_ALLOCATED.name)
        allocated = series.statistic(lambda vector: float(vector[rank]))
        if allocated[-1] - allocated[0] >= growth:
            grown.append(owner)
    return max(grown, key=lambda path: len(path.frames), default=None)


def _growth_of(
    peak: _Peak,
    own: FloatArray,
    measurements: Measurements,
    held: Sequence[Limit],
    *,
    target: float,
) -> Limit | None:
    """The growth of a peak, (n_scales,), that other limits do not explain, of the whole program."""
    p = measurements.p
    explained = [sum(limit.cost(ranks) for limit in held) for ranks in p.tolist()]
    rest = own - np.array(explained)
    slope, error, residual = _fit_line(p, rest)
    growth = slope * float(p[-1] - p[0])
    is_large = growth >= max(peak.least_growth, LEAST_SHARE * float(own[-1] - own[0]))
    if not is_large or residual > MOST_RESIDUAL * growth:
        return None

    law = ExactLaw((LawFactor(coefficient=slope, term=TERMS[0]),), len(p), len(p))
    return Limit(
        kind="memory",
        path=measurements.callpaths[0],
        metric=peak.metric,
        unit="B",
        growth=estimated_growth(
            law, p, low=(slope - 2 * error) * target, high=(slope + 2 * error) * target
        ),
        cost=law.at,
        is_once=False,
        subject=f"holds about {{}} {peak.subject}",
        condition=f"(estimated from the peak of the {peak.source})",
    )


def _heap_peak(run: MeasuredRun, program: CallPath) -> FloatArray | None:
    """The peak of the heap without what MPI calls and other threads have left there."""
    peaks = run.vector(program, HEAP_PEAK.name)
    if np.any(peaks <= 0):
        return None
    of_mpi = np.zeros(run.key.size)
    for path in run.rows:
        is_outermost = path.parent is not None and not _is_foreign(path.parent)
        if is_outermost and _is_foreign(path) and not path.name.endswith("MPI_Finalize"):
            of_mpi += np.maximum(run.vector(path, HEAP_GROWTH.name), 0.0)
    own: FloatArray = peaks - of_mpi
    return own


def _is_foreign(path: CallPath) -> bool:
    return is_mpi(path) or path.name == THREAD


def _own_peak(run: MeasuredRun, program: CallPath) -> FloatArray | None:
    """The peak of each process without what MPI takes; None if it is not known."""
    peaks = run.vector(program, MEMORY_RSS_PEAK.name)
    of_mpi = run.vector(program, MEMORY_MPI.name)
    if np.any(peaks <= 0) or np.any(of_mpi <= 0):
        return None
    if any(path.name in SHARED_MEMORY for path in run.rows):
        return None  # each rank of a node seems to have what they all have once
    own: FloatArray = peaks - of_mpi
    return own


PEAKS = (
    _Peak(
        metric=HEAP_PEAK.name,
        level=_heap_peak,
        least_growth=LEAST_HEAP_GROWTH,
        subject="of the heap in further blocks",
        source="heap",
    ),
    _Peak(
        metric=MEMORY_RSS_PEAK.name,
        level=_own_peak,
        least_growth=LEAST_GROWTH,
        subject="outside of the heap, as small Python objects or mapped memory",
        source="process",
    ),
)


def _fit_line(p: FloatArray, values: FloatArray) -> tuple[float, float, float]:
    """Least squares: the slope, its standard error, and the largest residual."""
    slope, constant = np.polyfit(p, values, 1).tolist()
    residuals = values - (slope * p + constant)
    variance = float(residuals @ residuals) / (len(p) - 2)
    error = float(np.sqrt(variance / np.sum((p - p.mean()) ** 2)))
    return slope, error, float(np.max(np.abs(residuals)))
