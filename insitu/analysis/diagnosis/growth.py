"""How a series of counts grows: an exact law, growth without one, or none; on which ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.diagnosis.laws import (
    FLOOR_LOG2,
    LEAST_PAGED_RANGE,
    PAGE,
    RELATIVE,
    ExactLaw,
    bounds_at,
    find_laws,
    find_laws_to_check,
    grows,
    is_constant,
    laws_agree,
    product_laws,
)
from insitu.analysis.diagnosis.measurements import RankSeries
from insitu.modeling.measurement import FloatArray

SINGLE_SHARE = 0.5  # one rank is alone if all others have less than this share of its value
SHARE_SCALES = 3  # at the largest scales, over which the share of the mean does not fall
SINGLE_SCALES = 3  # at that many of the largest scales
CERTAIN_LINEAR = 28  # ranks from which p - 1 cannot be the 26 neighbours of a block
CERTAIN_LOG = 65  # ranks from which log2(p) cannot be the 6 neighbours of a block
LEAST_UNIFORM = 5  # scales, one of them no power of two, that do the same on fewer ranks
# On 16 ranks, blocks in a grid of 4 x 2 x 2 have up to 11 neighbours, in one of 4 x 4 up to 8:
# where each rank has 15, these are all others.
CERTAIN_UNIFORM = 16
LEAST_DOUBLED = 4  # scales, up to that many ranks, through which a law passes
LEAST_LADDER = 8  # ranks that each do more than the one before: neighbours come in a few numbers
LEAST_RAMP = 4  # ranks that tell a ramp
RAMP_STEP = 3.0  # times the mean step, the largest: steps are rounded to whole buffers
FALLING = 0.02  # of a value, from one scale to the next
LEAST_EXPONENT = 0.15  # local exponent above which a series without a law grows
STEEPEST = 3.0  # local exponent that hardly any work has: something else begins
UNBALANCED = 1.2  # least ratio of maximum to mean that is an imbalance
NEARLY_UNIFORM = 2e-3  # relative range over ranks, of heap bytes
# Times the size of messages two steps before, and one step before, that at the largest scale.
LEAST_LARGER, LARGER_EACH = 2.0, 1.1
LEAST_STEEP = 0.5  # local exponent of bytes without a law; faces of blocks change their shape
ALIGNMENT = 32.0  # bytes, by which two blocks of the same size differ in the heap


@dataclass(frozen=True, slots=True)
class CountGrowth:
    """How one quantity grows.

    Attributes:
        law: of the rank with the largest value; None if there is no exact law.
        mean: the law of the mean over ranks, if there is one.
        is_growing: whether the quantity is larger at large scales.
        single: the rank that alone has large values, else None; -1 for the last rank.
        is_certain: whether neighbours in a grid cannot look like this on so few ranks.
        low, high: bounds at the target, from all laws that fit, or from local exponents.
        exponents: local exponents of the last two steps, for growth without a law.
        now: the largest value at the largest scale.
        mean_now: the mean over ranks there.
        earlier: the scale before it at which growth was looked at, and the largest value there.
    """

    law: ExactLaw | None
    mean: ExactLaw | None
    is_growing: bool
    single: int | None
    is_certain: bool
    low: float
    high: float
    exponents: tuple[float, float]
    now: float
    mean_now: float = 0.0
    mean_keeps_up: bool = False  # the mean over ranks has no law, and no smaller share of the law
    earlier: tuple[float, float] = (0.0, 0.0)

    @property
    def has_same_order(self) -> bool:
        """Whether the mean over ranks follows the same term as the maximum."""
        if self.law is None or self.mean is None:
            return self.mean_keeps_up
        return _order(self.law) == _order(self.mean)


def estimated_growth(
    law: ExactLaw, p: FloatArray, *, low: float, high: float, single: int | None = None
) -> CountGrowth:
    """Growth in proportion to p that no exact law of a count shows.

    Args:
        law: about how much there is.
        p: (n_scales,), ascending.
        low, high: bounds at the target.
        single: the rank that alone has large values; -1 for the last rank.
    """
    return CountGrowth(
        law=law,
        mean=None,
        is_growing=True,
        single=single,
        is_certain=False,
        low=low,
        high=high,
        exponents=(1.0, 1.0),
        now=law.at(float(p[-1])),
    )


def _order(law: ExactLaw) -> str:
    return " ".join(sorted(factor.term.order for factor in law.factors if factor.term))


def find_growth(
    p: FloatArray,
    series: RankSeries,
    target: float,
    *,
    counts: Sequence[RankSeries] = (),
    tolerance: float = RELATIVE,
) -> CountGrowth:
    """Find how a series grows with the number of ranks.

    Args:
        p: (n_scales,), ascending.
        series: the values of all ranks.
        target: number of ranks to look ahead to.
        counts: visits of the call path, of its caller, and so on, if the values may be products of
            these and of a share.
        tolerance: see `find_laws`.
    """
    largest = series.statistic(np.max)
    mean = series.statistic(np.mean)
    repeats = series.is_repeatable(np.max, max(tolerance, 1e-9))

    laws = find_laws(p, largest, tolerance) if repeats else []
    mean_laws = find_laws(p, mean, tolerance)
    if not laws and repeats and counts:
        laws = product_laws(p, [each.statistic(np.max) for each in counts], largest, tolerance)
    if not mean_laws and repeats and counts:
        mean_laws = product_laws(p, [each.statistic(np.mean) for each in counts], mean, tolerance)

    law = laws[0] if laws and laws_agree(laws, target) else None
    slopes = _local_slopes(p, largest)
    unchecked = find_laws_to_check(p, largest, tolerance) if repeats and not laws else []
    exponents = _exponents_ahead(p, slopes, unchecked, target)
    low, high = _bounds(laws, exponents, float(largest[-1]), float(p[-1]), target)
    if law is not None:
        is_growing = grows(law, float(p[0]), target)
    elif laws:
        is_growing = any(grows(fitting, float(p[0]), target) for fitting in laws)
    else:
        is_steady = min(slopes) > LEAST_EXPONENT
        # After values that stay alike; small blocks of the heap differ like that for no reason.
        has_begun = slopes[0] >= 0 and slopes[-1] > STEEPEST and tolerance == RELATIVE
        is_growing = repeats and len(p) >= 3 and (is_steady or has_begun)
    before = last_steps(p)[1] if len(p) >= 3 else 0

    return CountGrowth(
        law=law,
        mean=_matching(mean_laws, law),
        is_growing=is_growing and not is_constant(largest, tolerance),
        single=find_single_rank(p, series),
        is_certain=_rules_out_neighbours(p, series, law, tolerance),
        low=low,
        high=high,
        exponents=exponents,
        now=float(largest[-1]),
        mean_now=float(mean[-1]),
        mean_keeps_up=law is not None and not mean_laws and _keeps_up(mean, largest),
        earlier=(float(p[before]), float(largest[before])),
    )


def without_two_ranks(
    p: FloatArray, growth: CountGrowth, series: RankSeries, target: float
) -> CountGrowth:
    """Growth of messages by the law of more than two ranks, where all scales follow none.

    Two ranks have one neighbour where more have two, and so send fewer messages than a law of
    these, and in shorter chains.

    Args:
        p: (n_scales,), ascending.
        growth: of all scales.
        series: the values of all ranks.
        target: number of ranks to look ahead to.
    """
    n_few = int(np.sum(p <= 2))
    if growth.law is not None or not n_few:
        return growth
    larger = growth_of_larger(p, series, target, first=n_few)
    law = larger.law
    if law is None or law.at(2.0) <= float(series.statistic(np.max)[n_few - 1]):
        return growth
    return larger


def growth_of_larger(
    p: FloatArray, series: RankSeries, target: float, *, first: int
) -> CountGrowth:
    """Growth of the scales from a first one on; its law counts as that of so many of all scales.

    Args:
        p: (n_scales,), ascending.
        series: the values of all ranks.
        target: number of ranks to look ahead to.
        first: index of the smallest scale that counts.
    """
    growth = find_growth(p[first:], RankSeries(series.vectors[first:]), target)
    return growth if growth.law is None else replace(growth, law=replace(growth.law, of=len(p)))


def _keeps_up(mean: FloatArray, largest: FloatArray) -> bool:
    """Whether the share that the mean has of the largest value, (n_scales,), falls no more.

    It falls where the boundary of a grid has ever fewer of the ranks.
    """
    shares = (mean / np.maximum(largest, 1e-300))[-SHARE_SCALES:]
    return bool(shares[-1] >= SINGLE_SHARE and np.all(np.diff(shares) >= 0))


def has_larger_messages(
    p: FloatArray, volume: CountGrowth, sizes: RankSeries, target: float
) -> bool:
    """Whether what a rank moves grows because its messages do, which are alike on all ranks.

    More neighbours are more messages, each as large as before.

    Args:
        p: (n_scales,), ascending.
        volume: how what a rank moves grows.
        sizes: the mean size of its messages.
        target: number of ranks to look ahead to.
    """
    largest = sizes.statistic(np.max)
    if volume.law is None or not sizes.is_uniform or np.any(largest <= 0):
        return False
    laws = find_laws(p, largest)
    if not laws:
        return False
    return laws_agree(laws, target) and any(_order(law) == _order(volume.law) for law in laws)


def has_growing_sizes(
    p: FloatArray,
    volume: CountGrowth,
    count: CountGrowth,
    *,
    moved: RankSeries,
    messages: RankSeries,
) -> bool:
    """Whether what a rank moves grows with p, or about so, in ever larger messages.

    Lists that ranks pass on, and add theirs, double with each round of log2(p), so that their mean
    size has no law. Further neighbours are more messages, hardly ever larger ones.

    Args:
        p: (n_scales,), ascending.
        volume, count: how what a rank moves grows, and the number of its messages.
        moved, messages: the bytes and the messages themselves.
    """
    law = volume.law
    order = _order(count.law) if count.law is not None else ""
    is_of_all = volume.has_same_order and volume.single is None
    if (order and "log2" not in order) or (law is not None and not is_of_all):
        return False
    is_linear = law is not None and law.term is not None and law.term.order == "p"
    is_steep = law is None and volume.exponents[0] >= LEAST_STEEP
    steps = last_steps(p) if len(p) >= SHARE_SCALES else [0]
    counts = messages.statistic(np.max)[steps]
    if not volume.is_growing or not (is_linear or is_steep) or np.any(counts <= 0):
        return False
    sizes = moved.statistic(np.max)[steps] / counts
    are_larger = bool(np.all(sizes[1:] >= LARGER_EACH * sizes[:-1]))
    return are_larger and bool(sizes[-1] >= LEAST_LARGER * sizes[0])


def are_ever_larger(count: CountGrowth, volume: CountGrowth) -> bool:
    """Whether as many messages at all scales have ever more bytes, without a law.

    Objects may have a few entries less at first, while ranks have not yet heard of each other.
    """
    is_constant_count = count.law is not None and count.law.term is None
    is_growing = volume.law is None and volume.exponents[0] >= LEAST_STEEP
    return is_constant_count and is_growing


def is_shared_dynamically(growth: CountGrowth, p: FloatArray, target: float) -> bool:
    """Whether ranks share messages as they have time: only the mean repeats, and does not grow."""
    mean = growth.mean
    if growth.law is not None or growth.single is not None or mean is None:
        return False
    return mean.at(target) <= UNBALANCED * mean.at(float(p[-1]))


def mean_of_shared(growth: CountGrowth) -> CountGrowth | None:
    """The growth of the mean over ranks where only this repeats, as ranks share the rest as they
    have time; None if the mean has no law, or another value of the ranks has one."""
    mean = growth.mean
    is_shared = growth.law is None and growth.single is None
    if not is_shared or mean is None or mean.term is None or not growth.is_growing:
        return None
    return replace(growth, law=mean, now=growth.mean_now)


def _matching(laws: list[ExactLaw], law: ExactLaw | None) -> ExactLaw | None:
    """The law of the mean with the term of the maximum's law, else the first."""
    for candidate in laws:
        if law is not None and _order(candidate) == _order(law):
            return candidate
    return laws[0] if laws else None


def last_steps(p: FloatArray) -> list[int]:
    """The scales, by their index, between which growth is looked at: the largest, and two before.

    Each has at most half of the ranks of the next one, as far as there are such scales: growth in
    stairs, such as that of ceil(p / 4), stands still between 6 and 8 ranks. One rank is left out
    where three others are known.
    """
    first = int(p[0] == 1.0 and len(p) > 3)
    steps = [len(p) - 1]
    for n_before in (1, 0):
        at = steps[0]
        halves = np.flatnonzero(p[first:at] <= p[at] / 2)
        before = first + int(halves[-1]) if halves.size else at - 1
        steps.insert(0, max(before, first + n_before))
    return steps


def _local_slopes(p: FloatArray, values: FloatArray) -> list[float]:
    """The slopes of the last two steps in log space; 0 without enough positive values.

    The step from one rank, which may have nothing to send, is left out where its value is 0.
    """
    if len(p) < 3:
        return [0.0, 0.0]
    last = last_steps(p)
    if len(p) == 3 and p[0] == 1.0 and values[0] == 0:
        last = last[1:]
    if np.any(values[last] <= 0) or _falls(values[last[0] :]):
        return [0.0, 0.0]
    slopes: list[float] = (np.diff(np.log(values[last])) / np.diff(np.log(p[last]))).tolist()
    return slopes


def _falls(values: FloatArray) -> bool:
    """Whether values, (n,), fall anywhere: then a few of them may grow by chance."""
    return bool(np.any(np.diff(values) < -FALLING * values[:-1]))


def _exponents_ahead(
    p: FloatArray, slopes: list[float], unchecked: Sequence[ExactLaw], target: float
) -> tuple[float, float]:
    """The smallest and the largest exponent with which a series without a law may go on.

    The step from one rank, which has nobody to talk to, tells nothing about further ones. Where
    growth slows down, it goes on at most as over both steps together: the first one alone, from
    about nothing to something, would make terabytes of a few kilobytes. A law with a constant
    grows faster than its first steps: its mean exponent up to the target counts.
    """
    has_first_step = len(slopes) == 2 and len(p) == 3 and p[0] == 1.0
    exponents = slopes[1:] if has_first_step else slopes
    if len(exponents) == 2 and exponents[0] > exponents[1]:
        widths = np.diff(np.log(p[last_steps(p)]))
        exponents = [float(np.average(exponents, weights=widths)), exponents[1]]
    last = float(p[-1])
    for law in unchecked:
        if target > last and law.at(last) > 0 < law.at(target):
            growth = np.log(law.at(target) / law.at(last)) / np.log(target / last)
            exponents = [*exponents, float(growth)]
    return min(exponents), max(exponents)


def _bounds(
    laws: list[ExactLaw],
    exponents: tuple[float, float],
    now: float,
    largest_p: float,
    target: float,
) -> tuple[float, float]:
    if laws:
        return bounds_at(laws, target)
    ratio = target / largest_p
    low, high = exponents
    return now * min(1.0, ratio**low) if low < 0 else now * ratio**low, now * ratio ** max(high, 0)


def find_single_rank(p: FloatArray, series: RankSeries) -> int | None:
    """The rank that has more than twice the value of every other at the largest scales.

    Returns:
        The rank; -1 if it is the last rank at each scale; None if there is none. It must be the
        same at the three largest scales above two ranks, or at all of these if there are fewer.
    """
    scales = [i for i, ranks in enumerate(p.tolist()) if ranks > 2][-SINGLE_SCALES:]
    if not scales:
        return None

    ranks: set[int] = set()
    are_last: list[bool] = []
    for i in scales:
        for vector in series.vectors[i]:
            top = int(vector.argmax())
            if vector[top] <= 0 or np.count_nonzero(vector > SINGLE_SHARE * vector[top]) > 1:
                return None
            ranks.add(top)
            are_last.append(top == len(vector) - 1)

    if len(ranks) == 1:
        return ranks.pop()

    return -1 if all(are_last) else None


def is_ladder(series: RankSeries) -> bool:
    """Whether the values of ranks are evenly spaced, as in a loop over all before this one."""
    if len(series.vectors[-1][0]) < LEAST_LADDER:
        return False
    for group in series.vectors:
        steps = np.diff(np.sort(group[0]))
        if not (np.all(steps > 0) and np.all(steps == steps[:1])):
            return False
    return True


def find_ramp_end(series: RankSeries) -> int | None:
    """The rank at the upper end of values that rise from rank to rank, in steps that are alike.

    So do those of ranks that each read a file up to their own entry, in whole buffers.

    Returns:
        0 or -1, the last rank; None if the values are no ramp at each scale of four ranks or more.
    """
    vectors = [vector for group in series.vectors for vector in group if len(vector) >= LEAST_RAMP]
    for end, rising in ((-1, vectors), (0, [vector[::-1] for vector in vectors])):
        if vectors and all(_is_rising(vector) for vector in rising):
            return end
    return None


def _is_rising(vector: FloatArray) -> bool:
    steps = np.diff(vector)
    is_steep = vector[-1] - vector[0] >= SINGLE_SHARE * vector[-1] > 0
    return bool(is_steep and steps.min() >= 0 and steps.max() <= RAMP_STEP * steps.mean())


def _allowed_range(heaps: FloatArray, grown: float) -> float:
    """By how much the heaps of ranks, (p,), differ for no reason: less than by a neighbour, which
    is one 26th at least of what they grow by. Large blocks are rounded up to whole pages."""
    largest = float(np.max(np.abs(heaps)))
    paged = PAGE if largest >= LEAST_PAGED_RANGE else ALIGNMENT
    return max(NEARLY_UNIFORM * max(largest, grown), paged)


def _rules_out_neighbours(
    p: FloatArray, series: RankSeries, law: ExactLaw | None, tolerance: float
) -> bool:
    """Whether the values cannot be numbers of neighbours in a grid, which grow on few ranks.

    The 26 neighbours of a block are p - 1 at p = 1, 2, 4 and 8, and the 6 through its sides are
    log2(p). On these numbers of ranks no rank has fewer neighbours than another.
    """
    has_log = law is not None and law.term is not None and law.term.is_logarithm
    if p[-1] >= (CERTAIN_LOG if has_log else CERTAIN_LINEAR):
        return True

    if is_ladder(series):
        return True
    if law is not None and law.term is FLOOR_LOG2:  # the dimensions of an even grid, also uniform
        return False

    grown = float(np.ptp(series.statistic(np.max)))
    for group in series.vectors:
        for vector in group:
            allowed = _allowed_range(vector, grown) if tolerance != RELATIVE else 0.0
            if vector.max() - vector.min() > allowed:
                return False

    has_odd = any(int(ranks) & (int(ranks) - 1) for ranks in p.tolist())
    is_beyond_grids = p[-1] >= CERTAIN_UNIFORM and len(p) >= LEAST_DOUBLED and not has_log
    return (len(p) >= LEAST_UNIFORM and has_odd) or is_beyond_grids
