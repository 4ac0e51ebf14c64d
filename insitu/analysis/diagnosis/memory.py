"""Memory that grows with the number of ranks: what functions leave behind, blocks, and windows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.growth import CountGrowth, find_growth, find_single_rank
from insitu.analysis.diagnosis.laws import GROWING, RELATIVE_HEAP
from insitu.analysis.diagnosis.limit import Limit, is_once, value_at
from insitu.analysis.diagnosis.measurements import (
    MeasuredRun,
    Measurements,
    RankSeries,
    is_mpi,
    median_over_ranks,
)
from insitu.analysis.diagnosis.neighbours import follows_partners
from insitu.analysis.diagnosis.process_memory import unexplained_memory
from insitu.analysis.diagnosis.windows import window_limits
from insitu.entities import (
    ALLOCATIONS,
    BYTES_ALLOCATED,
    HEAP_GROWTH,
    HEAP_PEAK,
    VISITS,
    CallPath,
    is_start_up,
)
from insitu.modeling.measurement import FloatArray

CONTAINED = 0.99  # share of a growth that the caller's growth must contain to be held
LEAST_HEAP = 4096.0  # bytes by which the heap must grow over the measured scales
SHRINKING_SCALES = 4  # to tell a growth from a constant and data that ranks share
LEFT = 0.25  # of what a + b / p misses: then it misses what is held
SMALL = 0.1  # of a growth
STEADY_BLOCKS = 0.02  # relative range of numbers of blocks that do not grow
MORE_THAN_HELD = 1.5  # times what a function leaves behind: then its blocks are worth a line
LIST_STEPS = 1.13  # lists of Python reserve up to an eighth more than they have entries
ALL_AT_ONCE = "if all of it is held at once"
PEAK_NOISE = 1 << 20  # bytes of the heap's peak that MPI may take more on few ranks than on many
LEAST_COMPARED = 4  # ranks whose peaks are compared
APART = 0.5  # of a growth, by which ranks differ
MOST_BLOCKS = 4.0  # of a visit: the mean of more blocks says little about the largest


def memory_limits(measurements: Measurements, target: float) -> Iterator[Limit]:
    """Windows, and heap that a function leaves behind, that grow with p.

    Growth below a function counts as its own where only library functions are between them. Heap
    that the caller's growth does not contain was freed again: then only the growth of one visit is
    held at a time, or it is unknown how much.
    """
    windows = list(window_limits(measurements, target))
    yield from windows
    if HEAP_GROWTH.name not in measurements.metrics:
        return
    medians_of: dict[CallPath, FloatArray] = {}
    found = _held_heaps(measurements, target, medians_of)
    held = {limit.path: limit.cost(target) for limit in found}
    large_blocks = [
        limit
        for limit in _block_limits(measurements, target)
        if limit.cost(target) > MORE_THAN_HELD * held.get(limit.path, 0.0)
    ]
    in_blocks = {limit.path for limit in large_blocks}
    of_rank_0 = {limit.path: limit for limit in _held_by_rank(measurements, 0, target)}
    found = [limit for limit in found if limit.path not in of_rank_0]
    found += [limit for path, limit in of_rank_0.items() if path not in in_blocks]
    yield from found
    yield from large_blocks

    # What a function leaves behind is part of its blocks.
    explained = [*large_blocks, *(limit for limit in found if limit.path not in in_blocks)]
    over_scales = {owner: float(heaps[-1] - heaps[0]) for owner, heaps in medians_of.items()}
    yield from unexplained_memory(
        measurements, explained, over_scales, target=target, windows=windows
    )


def _held_heaps(
    measurements: Measurements, target: float, medians_of: dict[CallPath, FloatArray]
) -> list[Limit]:
    """The heap that functions leave behind on a median rank.

    Args:
        measurements: all runs.
        target: number of ranks to look ahead to.
        medians_of: is filled with the heap of each function, (n_scales,).
    """
    own: dict[CallPath, CountGrowth] = {}
    for owner, members in measurements.members.items():
        series = own_heap(measurements, owner, members, HEAP_GROWTH.name)
        medians = series.statistic(median_over_ranks)
        medians_of[owner] = medians
        if float(np.ptp(medians)) < LEAST_HEAP:
            continue
        median = median_rank(series)
        growth = find_growth(measurements.p, median, target, tolerance=RELATIVE_HEAP)
        if growth.law is None:
            growth = _in_proportion(measurements, growth, median, target)
        if growth.law is None and medians[-1] <= medians[-2]:
            continue  # tables that double now and then are part of the peak of the process
        if growth.is_growing and growth.now > 0:
            own[owner] = _with_spread(growth, measurements, series, target)

    found: list[Limit] = []
    held_of: dict[CallPath, FloatArray] = {}
    for owner, growth in sorted(own.items(), key=lambda pair: _held_order(measurements, *pair)):
        share: float | None = 1.0
        heaps = medians_of[owner]
        is_held = owner.parent is None or _is_contained(measurements, owner, heaps, held_of)
        is_held = is_held and _fits_in_peak(measurements, heaps)
        is_held = is_held and _is_in_peaks_of_ranks(measurements, owner, heaps)
        is_held = is_held and _is_kept_above(measurements, owner, heaps)
        if not is_held:
            is_clear = not _is_shrinking(measurements, owner)
            share = _share_held(measurements, owner) if is_clear else None
            if share is None and _is_in_peak(measurements, owner, medians_of, found):
                share = 1.0
        if share is not None and share < 1.0 and not _grows_per_visit(measurements, owner, heaps):
            continue
        if share is None:
            limit = _memory_limit(measurements, owner, growth, 1.0, target)
            limit = replace(limit, condition=ALL_AT_ONCE)
        else:
            limit = _memory_limit(measurements, owner, growth, share, target)
        if not growth.is_certain and follows_partners(measurements, heaps):
            limit = replace(limit, condition="", is_per_partner=True)
        found.append(limit)
    return found


def _held_by_rank(measurements: Measurements, rank: int, target: float) -> Iterator[Limit]:
    """The heap that functions leave behind on a single rank, found as if all ranks were like it.

    What MPI takes for the messages of one rank hides what its functions free again: only those that
    run once are judged.
    """
    if not _has_higher_peak(measurements, rank):
        return
    groups = tuple(tuple(_as_if_all(run, rank) for run in of) for of in measurements.groups)
    for limit in _held_heaps(replace(measurements, groups=groups), target, {}):
        if is_once(measurements, limit.path):
            members = measurements.members[limit.path]
            heaps = own_heap(measurements, limit.path, members, HEAP_GROWTH.name)
            if find_single_rank(measurements.p, heaps) == rank:
                growth = replace(limit.growth, single=rank, is_certain=True)
                yield replace(limit, growth=growth, rank=rank)


def _has_higher_peak(measurements: Measurements, rank: int) -> bool:
    """Whether the heap of a rank has a higher peak than a median rank, at the largest scale."""
    program = [path for path in measurements.callpaths if path.parent is None]
    peaks = measurements.series(program, HEAP_PEAK.name)
    if measurements.p[-1] <= 1:
        return False
    return all(
        float(vector[rank]) - median_over_ranks(vector) >= PEAK_NOISE
        for vector in peaks.vectors[-1]
    )


def _as_if_all(run: MeasuredRun, rank: int) -> MeasuredRun:
    """A run in which all ranks have the values of one."""
    values = {name: array[:, [rank] * run.size] for name, array in run.table.values.items()}
    return replace(run, table=replace(run.table, values=values))


def _fits_in_peak(measurements: Measurements, heaps: FloatArray) -> bool:
    """Whether the peak of the heap leaves room for what a function, (n_scales,), adds to it.

    Local variables are freed after the function has returned, so that callers which pass on what
    they do not keep seem to hold it as well: each visit adds, and nobody frees. Where the peak
    falls, other data shrink by an unknown amount, and the whole peak must be room enough.
    """
    peaks = _peaks(measurements)
    if peaks is None or heaps[-1] - heaps[0] <= peaks[-1] - peaks[0] + PEAK_NOISE:
        return True
    is_falling = bool(np.any(np.diff(peaks) < -PEAK_NOISE))
    return is_falling and bool(heaps[-1] <= peaks[-1])


def _is_in_peaks_of_ranks(measurements: Measurements, owner: CallPath, heaps: FloatArray) -> bool:
    """Whether ranks in which a function, (n_scales,), adds more to the heap have a higher peak.

    Where ranks differ by as much as the function adds on more ranks, what they do not keep is in
    the peak of none.
    """
    program = [path for path in measurements.callpaths if path.parent is None]
    added = own_heap(measurements, owner, measurements.members[owner], HEAP_GROWTH.name)
    of_ranks = added.vectors[-1][0]
    peaks = measurements.series(program, HEAP_PEAK.name).vectors[-1][0]
    if len(of_ranks) < LEAST_COMPARED or not np.all(peaks > 0):
        return True
    order = np.argsort(of_ranks, kind="stable")
    low, high = order[: len(order) // 2], order[-(len(order) // 2) :]
    apart = float(np.median(of_ranks[high]) - np.median(of_ranks[low]))
    if apart < APART * float(heaps[-1] - heaps[0]):
        return True
    return bool(np.median(peaks[high]) - np.median(peaks[low]) >= APART * apart)


def _is_in_peak(
    measurements: Measurements,
    owner: CallPath,
    heaps: Mapping[CallPath, FloatArray],
    others: Iterable[Limit],
) -> bool:
    """Whether the peak of the heap grows by all that the visits of a function add, besides others.

    Then nothing of it is freed before the last visit, as with objects that a function makes for its
    caller, whose destructors run at the end.
    """
    peaks = _peaks(measurements)
    if peaks is None:
        return False
    rest = peaks - sum(heaps[other.path] for other in others if other.path in heaps)
    return bool(np.all(heaps[owner][-1] - heaps[owner] <= rest[-1] - rest))


def _peaks(measurements: Measurements) -> FloatArray | None:
    """The peak of the heap of a median rank, (n_scales,); None if it was not measured."""
    program = [path for path in measurements.callpaths if path.parent is None]
    peaks = measurements.series(program, HEAP_PEAK.name).statistic(median_over_ranks)
    return peaks if np.all(peaks > 0) else None


def _is_kept_above(measurements: Measurements, owner: CallPath, heaps: FloatArray) -> bool:
    """Whether what a function, (n_scales,), adds to the heap is still there when it runs again.

    The peak grows as much from each scale to the largest, or so do the heaps of the functions above
    up to the first that runs once: the caller may return what it got to one that frees it.
    """
    peaks = _peaks(measurements)
    if peaks is None or np.all(heaps[-1] - heaps <= peaks[-1] - peaks):
        return True
    above = owner.parent
    while above is not None and above.parent is not None:
        kept = _heap_left(measurements, above)
        if not _contains(measurements.p, kept, heaps):
            return False
        if is_once(measurements, above):
            break
        above = above.parent
    return True


def _contains(p: FloatArray, whole: FloatArray, part: FloatArray) -> bool:
    """Whether a heap contains the growth of a part of it, both (n_scales,)."""
    is_grown = whole[-1] - whole[0] >= CONTAINED * (part[-1] - part[0])
    return bool(is_grown) or _grows_beside_shared_data(p, whole, part)


def _grows_beside_shared_data(p: FloatArray, whole: FloatArray, part: FloatArray) -> bool:
    """Whether a heap contains the growth of a part of it, beside data of fixed size that ranks
    share: without the part it is a + b / p by least squares, and with it it is not.

    Args:
        p: (n_scales,). whole, part: of the heap, (n_scales,).
    """
    if len(p) < SHRINKING_SCALES:
        return False
    design = np.stack([np.ones(len(p)), 1.0 / p], axis=1)
    of_shared = np.eye(len(p)) - design @ np.linalg.pinv(design)
    missed, missed_with = (np.linalg.norm(of_shared @ heap) for heap in (whole - part, whole))
    return bool(missed < min(LEFT * missed_with, SMALL * (part[-1] - part[0])))


def _is_shrinking(measurements: Measurements, owner: CallPath) -> bool:
    """Whether other data of the caller shrink on too few scales to see what it holds besides."""
    caller = owner.parent
    if caller is None or caller.parent is None or len(measurements.p) >= SHRINKING_SCALES:
        return False
    kept = _heap_left(measurements, caller)
    return bool(kept[-1] < kept[0])


def _share_held(measurements: Measurements, owner: CallPath) -> float | None:
    """The share of the growth of a function that is held at a time if its caller frees it.

    It is the growth of one visit. Where visits are not counted, it is one block at least, if all
    runs allocate as many; if their number grows with p, the share is unknown, and this is None.
    """
    visits = float(measurements.series([owner], VISITS.name).statistic(np.max)[-1])
    if visits:
        return 1.0 / visits
    blocks = own_heap(measurements, owner, measurements.members[owner], ALLOCATIONS.name)
    counts = median_rank(blocks).statistic(np.max)
    return 1.0 / max(float(counts[-1]), 1.0) if _is_steady(counts) else None


def _grows_per_visit(measurements: Measurements, owner: CallPath, heaps: FloatArray) -> bool:
    """Whether a visit adds more to the heap on more ranks, not only more visits, (n_scales,)."""
    visits = measurements.series([owner], VISITS.name).statistic(np.max)
    if np.any(visits <= 0):
        return True
    of_a_visit = heaps / visits
    return bool(of_a_visit[-1] > GROWING * of_a_visit[0])


def _is_steady(counts: FloatArray) -> bool:
    """Whether numbers of blocks, (n_scales,), hardly differ."""
    return bool(np.ptp(counts) <= STEADY_BLOCKS * counts.max(initial=0.0))


def _in_proportion(
    measurements: Measurements, growth: CountGrowth, median: RankSeries, target: float
) -> CountGrowth:
    """The growth of a list, which is in proportion to p but for the steps in which it grows."""
    ratios = median.statistic(np.max) / measurements.p
    smallest, largest = float(ratios.min()), float(ratios.max())
    if smallest <= 0 or largest > LIST_STEPS * smallest:
        return growth
    low, high = smallest * target, largest * target
    return replace(growth, is_growing=True, low=low, high=high, exponents=(1.0, 1.0))


def _block_limits(measurements: Measurements, target: float) -> Iterator[Limit]:
    """Functions whose blocks grow, also those that they free again before they return.

    A visit that allocates b bytes in k blocks holds a block of b / k bytes at least.
    """
    if ALLOCATIONS.name not in measurements.metrics:
        return

    for owner, members in measurements.members.items():
        allocations = own_heap(measurements, owner, members, ALLOCATIONS.name)
        rank = _only_rank(allocations)
        own = own_heap(measurements, owner, members, BYTES_ALLOCATED.name)
        visits = measurements.series([owner], VISITS.name)
        are_counted = bool(visits.statistic(np.max).any())
        blocks, in_bytes, visits = (
            median_rank(series) if rank is None else _of_rank(series, rank)
            for series in (allocations, own, visits)
        )
        visits = _at_least_one(visits)
        per_visit = (blocks / visits).statistic(np.max)
        # What a median rank allocates over and over is work, see `allocations.py`.
        most = MOST_BLOCKS if are_counted or rank is None else np.inf
        if not _is_steady(per_visit) or not 0 < per_visit.max(initial=0.0) <= most:
            continue

        size = in_bytes / blocks
        if float(np.ptp(size.statistic(np.max))) < LEAST_HEAP:
            continue
        growth = find_growth(measurements.p, size, target, tolerance=RELATIVE_HEAP)
        if growth.law is not None and growth.is_growing:
            over_ranks = find_growth(measurements.p, own, target, tolerance=RELATIVE_HEAP)
            is_certain = over_ranks.is_certain or rank is not None
            growth = replace(growth, is_certain=is_certain)
            limit = _memory_limit(measurements, owner, growth, 1.0, target)
            subject = "allocates blocks of {}"
            yield replace(limit, metric=BYTES_ALLOCATED.name, subject=subject, rank=rank)


def _only_rank(blocks: RankSeries) -> int | None:
    """The rank that allocates all blocks, on all scales; None if there is none."""
    allocating = {
        tuple(np.flatnonzero(vector).tolist()) for group in blocks.vectors for vector in group
    }
    ranks = allocating.pop() if len(allocating) == 1 else ()
    return ranks[0] if len(ranks) == 1 else None


def _of_rank(series: RankSeries, rank: int) -> RankSeries:
    """The values of one rank."""
    return RankSeries(
        tuple(tuple(vector[rank : rank + 1] for vector in group) for group in series.vectors)
    )


def _at_least_one(visits: RankSeries) -> RankSeries:
    """Visits, 1 where they are not counted, so that blocks are those of the whole run."""
    groups = tuple(tuple(np.maximum(vector, 1.0) for vector in group) for group in visits.vectors)
    return RankSeries(groups)


def _held_order(
    measurements: Measurements, owner: CallPath, growth: CountGrowth
) -> tuple[bool, float]:
    """Functions visited once come first: they hold what they leave; then the largest."""
    return not is_once(measurements, owner), -growth.now


def own_heap(
    measurements: Measurements, owner: CallPath, members: Iterable[CallPath], metric: str
) -> RankSeries:
    """A metric of the heap in a function and its library functions, without MPI and without that
    in other functions of the program."""
    added = [path for path in members if not is_mpi(path)]
    total = measurements.series([owner], metric)
    inner = []
    for path in added:
        for child in measurements.children.get(path, []):
            belongs = measurements.owners[child] == owner and not is_mpi(child)
            if not belongs or is_start_up(child):
                inner.append(child)

    return _without(measurements, total, inner, metric)


def _without(
    measurements: Measurements, total: RankSeries, inner: Sequence[CallPath], metric: str
) -> RankSeries:
    """A metric of the heap without that of call paths below."""
    if not inner:
        return total
    below = measurements.series(inner, metric)
    groups = []
    for mine, theirs in zip(total.vectors, below.vectors, strict=True):
        groups.append(tuple(a - b for a, b in zip(mine, theirs, strict=True)))

    return RankSeries(tuple(groups))


def _heap_left(measurements: Measurements, path: CallPath) -> FloatArray:
    """What a median rank has after a call path, and had not before, (n_scales,): without MPI's
    own memory, which MPI frees at its end."""
    calls = []
    for inner in measurements.callpaths:
        is_first = inner.parent is not None and not is_mpi(inner.parent)
        if is_first and is_mpi(inner) and inner.is_within(path):
            calls.append(inner)
    total = measurements.series([path], HEAP_GROWTH.name)
    own = _without(measurements, total, calls, HEAP_GROWTH.name)
    return own.statistic(median_over_ranks)


def median_rank(series: RankSeries) -> RankSeries:
    """The median over ranks, as a series of one rank: single ranks have odd heaps."""
    groups = []
    for group in series.vectors:
        groups.append((np.array([median_over_ranks(np.concatenate(group))]),))
    return RankSeries(tuple(groups))


def _with_spread(
    growth: CountGrowth, measurements: Measurements, series: RankSeries, target: float
) -> CountGrowth:
    """The growth of the median with what only all ranks can tell: certainty and a single rank."""
    over_ranks = find_growth(measurements.p, series, target, tolerance=RELATIVE_HEAP)
    return replace(growth, is_certain=over_ranks.is_certain, single=over_ranks.single)


def _is_contained(
    measurements: Measurements,
    owner: CallPath,
    heaps: FloatArray,
    held_of: dict[CallPath, FloatArray],
) -> bool:
    """Whether the growth of the caller's heap contains that of this function, (n_scales,).

    Each byte of the caller's growth is given to one function only, in the order of the calls of
    this function, which notes it in `held_of`.
    """
    caller = owner.parent
    assert caller is not None
    if caller.parent is None:  # the program itself frees everything at its end
        return is_once(measurements, owner)

    available = _heap_left(measurements, caller) - held_of.get(caller, 0.0)
    if not _contains(measurements.p, available, heaps):
        return False
    held_of[caller] = held_of.get(caller, 0.0) + heaps
    return True


def _memory_limit(
    measurements: Measurements, owner: CallPath, growth: CountGrowth, share: float, target: float
) -> Limit:
    law = growth.law
    if law is not None and share != 1.0:
        first, *rest = law.factors
        scaled = replace(
            first, constant=first.constant * share, coefficient=first.coefficient * share
        )
        law = replace(law, factors=(scaled, *rest))

    shared = replace(
        growth, law=law, now=growth.now * share, low=growth.low * share, high=growth.high * share
    )
    return Limit(
        kind="memory",
        path=owner,
        metric=HEAP_GROWTH.name,
        unit="B",
        growth=shared,
        cost=lambda ranks: value_at(shared, ranks, measurements.p, target),
        is_once=False,
        subject="holds {}",
    )
