"""Work of a fixed size that more ranks cannot share evenly, since it comes in whole chunks.

Rows of a matrix, tasks and files cannot be divided. A rank with one chunk more than others takes
longer by that chunk, and with more ranks than chunks some have none. It is worse where one rank
does all that remains when the chunks are divided by the number of ranks. Where one rank gives out
the chunks and has none, the others share them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text, lowest_price
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.statements import LIMIT, WARNING, Statement
from insitu.entities import RANKS, VISITS, CallPath, is_start_up
from insitu.modeling.grid_shape import even_grid
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.units import percent

LEAST_SCALES = 4
LEAST_STEPS = 3  # different numbers of chunks of the slowest rank, if there are fewer than ranks
LEAST_UNEVEN = 2  # scales at which ranks have different numbers of chunks
LEAST_SHARE = 0.1  # of the computing of a mean rank at the target, that the slowest does more
MAX_SCALE = 1 << 20  # ranks up to which the first scale is searched at which that much is lost
LARGEST_COUNT = 2.0**53  # larger counts are not exact
GRIDS = (2, 3)  # dimensions of those in which programs divide their domain
MOST_CELLS = 1 << 14  # along a side of a domain that is divided in a grid
ROUNDING = 1e-9  # of a ratio of whole numbers
LAST_RANK, ONE_RANK, SLOWEST_RANK = "last rank", "one rank", "slowest rank"

Distribution = Callable[[int, IntArray], IntArray]  # chunks and numbers of ranks to chunks, (n,)


def _most_if_even(chunks: int, p: IntArray) -> IntArray:
    """The chunks of a rank that has most, if they are distributed as evenly as possible."""
    return -(-chunks // p)


def _most_with_remainder(chunks: int, p: IntArray) -> IntArray:
    """The chunks of a rank that does the remainder as well."""
    return chunks - (p - 1) * (chunks // p)


@dataclass(frozen=True, slots=True)
class SharedWork:
    """The visits of a function of which all ranks together make as many at every scale.

    Attributes:
        chunks: how many chunks there are.
        visits_per_chunk: of the function.
        most: the chunks of the slowest rank, by the number of chunks and of ranks.
        slowest: "rank 0", "last rank", "one rank" or "slowest rank".
        n_idle: ranks that have no chunk at any scale: 1 or 0.
    """

    chunks: int
    visits_per_chunk: int
    most: Distribution
    slowest: str
    n_idle: int = 0

    def most_visits(self, p: IntArray) -> FloatArray:
        """The visits of the slowest rank, (n,)."""
        return (self.visits_per_chunk * self.most_chunks(p)).astype(np.float64)

    def most_chunks(self, p: IntArray) -> IntArray:
        """The chunks of the slowest rank, (n,)."""
        return self.most(self.chunks, p - self.n_idle)

    def mean_visits(self, p: FloatArray | IntArray) -> FloatArray:
        """The visits of a mean rank that has any, (n,)."""
        return np.asarray(self.visits_per_chunk * self.chunks / (p - self.n_idle))

    @property
    def law(self) -> str:
        """The visits of the slowest rank as a function of p."""
        factor = f"{self.visits_per_chunk} " if self.visits_per_chunk > 1 else ""
        if self.most is _most_if_even:
            ranks = "(p - 1)" if self.n_idle else "p"
            return f"{factor}ceil({self.chunks} / {ranks})"
        return f"{factor}({self.chunks} - (p - 1) floor({self.chunks} / p))"


@dataclass(frozen=True, slots=True)
class Loss:
    """What the slowest rank does more than the mean.

    Attributes:
        work: how it is distributed.
        price_s: seconds of a visit, with what it calls.
        fixed_s: computing of each rank that is not shared.
        shared_s: computing of all ranks together that is shared.
    """

    work: SharedWork
    price_s: float
    fixed_s: float
    shared_s: float

    def seconds(self, p: IntArray) -> FloatArray:
        """Of the slowest rank, (n,)."""
        return self.price_s * (self.work.most_visits(p) - self.work.mean_visits(p))

    def share(self, p: IntArray) -> FloatArray:
        """The same as a share of the computing of a mean rank, (n,)."""
        return np.asarray(self.seconds(p) / (self.fixed_s + self.shared_s / p))


def find_uneven_work(
    measurements: Measurements, baseline: Baseline, target: float
) -> Iterator[Statement]:
    """Functions whose work is shared, but by an exact law not evenly at the target.

    Of functions that call each other, the first one that is visited for each chunk is named.
    """
    if len(measurements.p) < LEAST_SCALES:
        return
    largest = measurements.p[-1]
    seconds: dict[CallPath, float] = {}  # of a mean rank at the largest scale
    shared: set[CallPath] = set()
    works: dict[CallPath, SharedWork] = {}
    for path in measurements.callpaths:
        if path.parent is None or is_mpi(path) or is_start_up(path):
            continue
        visits = measurements.series([path], VISITS.name).statistic(np.sum)
        price = lowest_price(measurements.groups[-1], path)
        seconds[path] = float(visits[-1] / largest) * price
        if np.ptp(visits) == 0:
            shared |= {path, *_loop_of(measurements, path)}
            work = find_shared_work(measurements, path)
            if work is not None:
                works[path] = work

    shared_s = sum(s for path, s in seconds.items() if path in shared)
    fixed_s = sum(seconds.values()) - shared_s
    for path, work in works.items():
        if any(path != above and path.is_within(above) for above in works):
            continue
        inside_s = sum(s for at, s in seconds.items() if at.is_within(path))
        of_worker_s = inside_s * float(largest / (largest - work.n_idle))
        price_s = of_worker_s / float(work.mean_visits(largest))
        loss = Loss(work, price_s, fixed_s, shared_s * largest)
        statement = _judge(measurements, path, loss, baseline, int(target))
        if statement is not None:
            yield statement


def _loop_of(measurements: Measurements, path: CallPath) -> Iterator[CallPath]:
    """The callers of a function up to the first one of the program, whose loop becomes shorter."""
    at = path.parent
    while at is not None and at.parent is not None:
        yield at
        if measurements.owners.get(at, at) == at:
            return
        at = at.parent


def find_shared_work(measurements: Measurements, path: CallPath) -> SharedWork | None:
    """How the visits of a function are distributed; None if that is not certain.

    A chunk is the largest number of visits that divides all counts. Ranks must have different
    numbers of chunks at two scales, the counts must follow only one of the laws, chunks of half the
    size must break it at some scale, and unless all ranks differ by one chunk at most, no grid may
    explain it.
    """
    series = measurements.series([path], VISITS.name)
    vectors = [group[0] for group in series.vectors]
    for group, first in zip(series.vectors, vectors, strict=True):
        if any(not np.array_equal(vector, first) for vector in group):
            return None
    n_idle = int(_has_idle_rank(vectors))
    if n_idle:
        vectors = [np.delete(vector, np.flatnonzero(vector == 0)) for vector in vectors]
    counts = np.concatenate(vectors)
    if counts.max() > LARGEST_COUNT or np.any(counts != np.round(counts)):
        return None

    visits_per_chunk = int(np.gcd.reduce(counts.astype(np.intp)))
    total = int(vectors[0].sum())
    uneven = [vector for vector in vectors if np.ptp(vector) > 0]
    if len(uneven) < LEAST_UNEVEN:
        return None

    chunks, p = total // visits_per_chunk, measurements.p.astype(np.intp) - n_idle
    most_measured = np.array([vector.max() for vector in vectors]) / visits_per_chunk
    if chunks < p[-1] and len(set(most_measured.tolist())) < LEAST_STEPS:
        return None  # a few ranks may do this for all others
    distributions: tuple[Distribution, ...] = (_most_if_even, _most_with_remainder)
    fitting = []
    for most in distributions:
        # With chunks of a third or less, counts differ wherever they do with chunks of half.
        is_smallest = visits_per_chunk == 1 or np.any(most(2 * chunks, p) != 2 * most(chunks, p))
        if is_smallest and np.array_equal(most_measured, most(chunks, p)):
            fitting.append(most)
    if len(fitting) != 1:
        return None

    (most,) = fitting
    is_even = all(np.ptp(vector) <= visits_per_chunk for vector in vectors)
    if not is_even and _may_be_grid(most_measured, chunks, total, p):
        return None
    if most is _most_if_even:
        return SharedWork(chunks, visits_per_chunk, most, SLOWEST_RANK, n_idle)
    if n_idle or any(len(set(np.sort(vector)[:-1])) > 1 for vector in vectors):
        return None
    return SharedWork(chunks, visits_per_chunk, most, _slowest(uneven))


def _may_be_grid(most: FloatArray, chunks: int, total: int, p: IntArray) -> bool:
    """Whether a grid of ranks that divides cells may do the same: 3 x 2 x 2 ranks have 67 of 200.

    Cells form a square or cube, or all sides but one are divided evenly.

    Args:
        most: chunks of the slowest rank, (n_scales,). chunks, total: of chunks, and of visits.
        p: (n_scales,).
    """
    for n_dimensions in GRIDS:
        sides = np.array([even_grid(size, n_dimensions) for size in p.tolist()])
        cases = [(sides, n_dimensions)]
        cases += [(sides[:, [i]], 1) for i in range(n_dimensions)]
        for divided, power in cases:
            cells = np.arange(2, min(round(total ** (1 / power)), MOST_CELLS) + 1)
            cells = cells[total % cells**power == 0][:, None, None]
            larger = np.prod(-(-cells // divided) * divided / cells, axis=2)
            if np.any(np.all(np.abs(larger - most * p / chunks) < ROUNDING, axis=1)):
                return True
    return False


def _has_idle_rank(vectors: list[FloatArray]) -> bool:
    """Whether the same rank, and no other, has no visits at all scales: it gives out the work."""
    idle = [np.flatnonzero(vector == 0).tolist() for vector in vectors]
    return len(idle[0]) == 1 and all(ranks == idle[0] for ranks in idle)


def _slowest(vectors: list[FloatArray]) -> str:
    """The rank that has most at all scales."""
    ranks = {int(np.argmax(vector)) for vector in vectors}
    if len(ranks) == 1:
        return f"rank {ranks.pop()}"
    is_last = all(int(np.argmax(vector)) == len(vector) - 1 for vector in vectors)
    return LAST_RANK if is_last else ONE_RANK


def _judge(
    measurements: Measurements, path: CallPath, loss: Loss, baseline: Baseline, target: int
) -> Statement | None:
    """The statement, if enough is lost at the target."""
    work, at = loss.work, np.array([target])
    share, seconds = float(loss.share(at)[0]), float(loss.seconds(at)[0])
    if share < LEAST_SHARE:
        return None

    severity = seconds / baseline.budget_s(target, is_once=False)
    scales = np.arange(int(measurements.p[0]) + work.n_idle, MAX_SCALE)
    lossy = scales[loss.share(scales) >= LEAST_SHARE]
    now = float(work.most_visits(measurements.p[-1:].astype(np.intp))[0])
    then = float(work.most_visits(at)[0])
    owner = measurements.owners[path]
    return Statement(
        kind="imbalance",
        status=LIMIT if severity >= 1 else WARNING,
        text=_text(work, short_name(path.name), target),
        callpath=str(owner),
        where=measurements.where(owner),
        ranks=work.slowest,
        metric=VISITS.name,
        unit="1",
        law=work.law,
        exact=True,
        points=f"{len(measurements.p)} of {len(measurements.p)} points",
        breaks_at=float(lossy[0]) if len(lossy) else None,
        now=now,
        then=then,
        low=then,
        high=then,
        severity=severity if severity >= 1 else min(share, 0.99),
        seconds=seconds,
    )


def _text(work: SharedWork, name: str, target: int) -> str:
    """The sentence about the work of a function at the target."""
    what = f"visits of {name}"
    workers = " by all ranks but one" if work.n_idle else ""
    if work.visits_per_chunk > 1:
        what = f"chunks of work ({work.visits_per_chunk:,} visits of {name} each)"
    most = int(work.most_chunks(np.array([target]))[0])
    mean = work.chunks / (target - work.n_idle)
    shares = f"some ranks have {most:,}"
    if work.most is _most_with_remainder:
        article = "the " if work.slowest == LAST_RANK else ""
        shares = f"{article}{work.slowest} has {most:,} with the remainder"
    idle = f"; beyond {at_text(RANKS, work.chunks + work.n_idle)} some have none"
    return (
        f"{work.chunks:,} {what} are shared{workers}: at {at_text(RANKS, target)} {shares},"
        f" the mean is {mean:.3g} (load balance {percent(mean / most)}){idle}"
    )
