"""Work of a fixed size that more ranks cannot share evenly, because it is dealt out in whole parts.

Rows of a matrix, tasks and files cannot be divided. Ranks with one part more than others take
longer by that part, and with more ranks than parts some have none. It is worse where one rank does
all that remains when the parts are divided by the number of ranks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text, lowest_price
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi, is_start_up
from insitu.analysis.diagnosis.statements import LIMIT, WARNING, Statement
from insitu.entities import RANKS, VISITS, CallPath
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.units import percent

LEAST_SCALES = 4
LEAST_UNEVEN = 2  # scales at which ranks have different numbers of parts
LEAST_SHARE = 0.1  # of the computing of a mean rank at the target, that the slowest does more
FARTHEST = 1 << 20  # ranks up to which the scale is looked for from which that much is lost
LAST = "last rank"
LARGEST_COUNT = 2.0**53  # larger counts are not exact

Division = Callable[[int, IntArray], IntArray]  # parts and numbers of ranks (n,) to parts (n,)


def _most_if_even(parts: int, p: IntArray) -> IntArray:
    """The parts of a rank that has most, if they are dealt out as evenly as possible."""
    return -(-parts // p)


def _most_with_remainder(parts: int, p: IntArray) -> IntArray:
    """The parts of a rank that does the remainder as well."""
    return parts - (p - 1) * (parts // p)


@dataclass(frozen=True, slots=True)
class SharedWork:
    """The visits of a function of which all ranks together make as many at every scale.

    Attributes:
        parts: how many parts are dealt out.
        visits_per_part: of the function.
        most: the parts of the slowest rank, by the number of parts and of ranks.
        slowest: "rank 0", "last rank", "one rank" or "slowest rank".
    """

    parts: int
    visits_per_part: int
    most: Division
    slowest: str

    def most_visits(self, p: IntArray) -> FloatArray:
        """The visits of the slowest rank, (n,)."""
        return (self.visits_per_part * self.most(self.parts, p)).astype(np.float64)

    def excess(self, p: IntArray) -> FloatArray:
        """By how many visits the slowest rank is above the mean, (n,)."""
        return self.most_visits(p) - self.visits_per_part * self.parts / p

    @property
    def law(self) -> str:
        """The visits of the slowest rank as a function of p."""
        factor = f"{self.visits_per_part} " if self.visits_per_part > 1 else ""
        if self.most is _most_if_even:
            return f"{factor}ceil({self.parts} / p)"
        return f"{factor}({self.parts} - (p - 1) floor({self.parts} / p))"


def find_uneven_work(
    measurements: Measurements, baseline: Baseline, target: float
) -> Iterator[Statement]:
    """Functions whose work is shared, but by an exact law not evenly at the target.

    Of functions that call each other, the first one whose parts are dealt out is named.
    """
    if len(measurements.p) < LEAST_SCALES:
        return
    seconds: dict[CallPath, float] = {}  # of a mean rank at the largest scale
    shared: set[CallPath] = set()
    works: dict[CallPath, SharedWork] = {}
    for path in measurements.callpaths:
        if path.parent is None or is_mpi(path) or is_start_up(path):
            continue
        visits = measurements.series([path], VISITS.name).statistic(np.sum)
        price = lowest_price(measurements.groups[-1], path)
        seconds[path] = float(visits[-1] / measurements.p[-1]) * price
        if np.ptp(visits) == 0:
            shared |= {path, *_loop_of(measurements, path)}
            work = find_shared_work(measurements, path)
            if work is not None:
                works[path] = work

    shared_s = sum(s for path, s in seconds.items() if path in shared)
    fixed_s = sum(seconds.values()) - shared_s
    for path, work in works.items():
        if any(_is_below(path, above) for above in works):
            continue
        inside_s = sum(s for at, s in seconds.items() if at == path or _is_below(at, path))
        mean_visits = work.parts * work.visits_per_part / measurements.p[-1]
        loss = Loss(work, inside_s / mean_visits, fixed_s, shared_s * measurements.p[-1])
        statement = _judge(measurements, path, loss, baseline, int(target))
        if statement is not None:
            yield statement


@dataclass(frozen=True, slots=True)
class Loss:
    """What the slowest rank does more than the mean.

    Attributes:
        work: how it is dealt out.
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
        return self.price_s * self.work.excess(p)

    def share(self, p: IntArray) -> FloatArray:
        """The same as a share of the computing of a mean rank, (n,)."""
        return np.asarray(self.seconds(p) / (self.fixed_s + self.shared_s / p))


def _judge(
    measurements: Measurements, path: CallPath, loss: Loss, baseline: Baseline, target: int
) -> Statement | None:
    """The statement, if enough is lost at the target."""
    work, at = loss.work, np.array([target])
    share, seconds = float(loss.share(at)[0]), float(loss.seconds(at)[0])
    if share < LEAST_SHARE:
        return None

    name, mean = short_name(path.name), work.parts / target
    most = int(work.most(work.parts, at)[0])
    scales = np.arange(int(measurements.p[0]), FARTHEST)
    severity = seconds / baseline.budget_s(target, is_once=False)
    who = "some ranks have"
    if work.most is _most_with_remainder:
        who = f"{'the ' * (work.slowest == LAST)}{work.slowest} has the remainder,"
    what = f"visits of {name}"
    if work.visits_per_part > 1:
        what = f"parts ({work.visits_per_part:,} visits of {name} each)"
    idle = f"; beyond {at_text(RANKS, work.parts)} some have none" if work.parts > target else ""
    owner = measurements.owners[path]
    return Statement(
        kind="imbalance",
        status=LIMIT if severity >= 1 else WARNING,
        text=f"{work.parts:,} {what} are shared: at {at_text(RANKS, target)} {who}"
        f" {most:,}, the mean is {mean:.3g} (load balance {percent(mean / most)}){idle}",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks=work.slowest,
        metric=VISITS.name,
        unit="1",
        law=work.law,
        exact=True,
        points=f"{len(measurements.p)} of {len(measurements.p)} points",
        breaks_at=float(scales[np.argmax(loss.share(scales) >= LEAST_SHARE)]),
        now=float(work.most_visits(measurements.p[-1:].astype(np.intp))[0]),
        then=float(work.most_visits(at)[0]),
        low=float(work.most_visits(at)[0]),
        high=float(work.most_visits(at)[0]),
        severity=severity if severity >= 1 else min(share, 0.99),
        seconds=seconds,
    )


def _loop_of(measurements: Measurements, path: CallPath) -> Iterator[CallPath]:
    """The caller of a function, whose loop becomes shorter too, and where that is nested in one."""
    at = path.parent
    while at is not None and at.parent is not None:
        yield at
        if measurements.owners.get(at, at) == at:
            return
        at = at.parent


def _is_below(path: CallPath, above: CallPath) -> bool:
    """Whether a call path begins with another one and goes on."""
    return len(path.frames) > len(above.frames) and (
        path.frames[: len(above.frames)] == above.frames
    )


def find_shared_work(measurements: Measurements, path: CallPath) -> SharedWork | None:
    """How the visits of a function are dealt out; None if that is not certain.

    The largest number of visits that divides all counts is a part. Ranks must have different
    numbers of parts at two scales, the counts must follow one law only, and half a part would
    break it at some scale.
    """
    series = measurements.series([path], VISITS.name)
    vectors = [group[0] for group in series.vectors]
    for group, first in zip(series.vectors, vectors, strict=True):
        if any(not np.array_equal(vector, first) for vector in group):
            return None
    counts = np.concatenate(vectors)
    if counts.max() > LARGEST_COUNT or np.any(counts != np.round(counts)):
        return None

    visits_per_part = int(np.gcd.reduce(counts.astype(np.intp)))
    total = int(vectors[0].sum())
    uneven = [vector for vector in vectors if np.ptp(vector) > 0]
    if len(uneven) < LEAST_UNEVEN or total < visits_per_part * measurements.p[-1]:
        return None

    parts, p = total // visits_per_part, measurements.p.astype(np.intp)
    observed = np.array([vector.max() for vector in vectors]) / visits_per_part
    fitting = []
    divisions: tuple[Division, ...] = (_most_if_even, _most_with_remainder)
    for most in divisions:
        is_finest = visits_per_part == 1 or np.any(most(2 * parts, p) != 2 * most(parts, p))
        if is_finest and np.array_equal(observed, most(parts, p)):
            fitting.append(most)
    if len(fitting) != 1:
        return None

    (most,) = fitting
    is_on_one = most is _most_with_remainder
    if is_on_one and any(len(set(np.sort(vector)[:-1])) > 1 for vector in vectors):
        return None
    return SharedWork(
        parts, visits_per_part, most, _slowest(uneven) if is_on_one else "slowest rank"
    )


def _slowest(vectors: list[FloatArray]) -> str:
    """The rank that has most at all scales."""
    ranks = {int(np.argmax(vector)) for vector in vectors}
    if len(ranks) == 1:
        return f"rank {ranks.pop()}"
    is_last = all(int(np.argmax(vector)) == len(vector) - 1 for vector in vectors)
    return LAST if is_last else "one rank"
