"""Regular patterns of ranks, found in their times: every eighth, halves, stages, the first few.

The classes of a program with node leaders, a pipeline or several applications in one communicator
follow no walls of a domain, yet they are regular over the ranks. Three families are searched: rank
modulo m, ranges of rank / p, and the first or last ranks. Each pattern costs the description length
of what was chosen for it, so that noise does not pay for one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import lgamma, log

import numpy as np

from insitu.modeling.classes.candidates import (
    MAX_DEVIATION,
    FittedCandidate,
    fit_shapes,
    rough_criterion,
    sort_by_value,
)
from insitu.modeling.measurement import FloatArray, IntArray

MAX_MODULUS = 64  # ranks of a node, one of which is its leader
MAX_CUTS = 5  # of the range of ranks, for six stages
MAX_END = 16  # ranks at either end
MAX_DENOMINATOR = 8  # of fractions of p at which ranges usually end
MAX_SHIFT = 2  # ranks by which programs round the end of a range
FITTED = 8  # moduli of each number of levels that are compared with other patterns
# The patterns with most classes absorb single outliers of small runs, so that the rough criterion
# does not compare numbers of classes. Of each number the best are fitted.
FITTED_OF_EACH = 3
WORTH_FITTING = 30.0  # of the rough criterion behind the best with as many classes
# Standard deviations by which neighbours of three or more classes differ at least. With hundreds of
# ranks, the chance maximum over all cuts of a range is significant at a third of one.
NEAREST_LEVELS = 1.0
OUTLIERS_PER_RUN = 0.6  # left out by a pattern: a class of one rank has one in every run
SAME_LEVEL = 3.0  # standard errors below which the means of two ranges are equal

# Twice the logarithm of the number of choices, like the prices of a Bayesian criterion.
MODULUS_PRICE = 2 * log(MAX_MODULUS)
END_PRICE = 2 * log(2 * MAX_END)
MIN_POSITIONS = 40  # of a cut, also where a few ranks leave fewer
USUAL_CUTS = 10.0  # times as probable as other cuts: programs divide ranks by small numbers
SHIFT_PRICE = 2.0  # per cut and run: noise moves single ranks, too


@dataclass(frozen=True, slots=True)
class _Ranks:
    """The ranks of all runs, one run after the other.

    y: (n,), logarithm of the value above the mean of its run, outliers drawn near; run, rank, size:
    (n,), size is that of the run; position: (n,), 0 to 1.
    """

    y: FloatArray
    run: IntArray
    rank: IntArray
    size: IntArray
    position: FloatArray


@dataclass(frozen=True, slots=True)
class _Pattern:
    """label: (n,), the class of each rank; price: of its choice."""

    label: IntArray
    price: float


def select_pattern(
    logs: Sequence[FloatArray],
    ranks: Sequence[IntArray],
    *,
    x: FloatArray,
    floor: float,
    max_outliers: float,
) -> FittedCandidate | None:
    """Find the regular pattern that explains the logarithms of values best; None without any.

    Args:
        logs: per run one per rank.
        ranks: per run the rank of each value.
        x: (n_runs,), the number of ranks, or what else varies.
        floor: least relative spread of ranks.
        max_outliers: share of ranks that a pattern may leave out; a rank in some of the runs is
            always allowed, since that is no class.
    """
    data = _collect(logs, ranks, floor)
    values = np.concatenate(logs)

    rough: list[tuple[float, _Pattern]] = []
    for pattern in _distinct(_find_patterns(data)):
        if _is_promising(data, pattern.label, pattern.price):
            criterion = rough_criterion(values, data.run, pattern.label, floor) + pattern.price
            rough.append((criterion, pattern))
    one_class = rough_criterion(values, data.run, np.zeros_like(data.run), floor)
    lowest = min((criterion for criterion, _ in rough), default=np.inf)
    if min(one_class, _gradient_criterion(data, floor)) <= lowest:
        return None

    best: FittedCandidate | None = None
    for pattern in _best_of_each_number(rough):
        label = sort_by_value(values, data.run, pattern.label)
        fitted = fit_shapes(values, label, data.run, x=x, floor=floor)
        total = fitted.criterion + pattern.price
        n_outliers = sum(int(is_outlier.sum()) for is_outlier in fitted.is_outlier)
        is_allowed = n_outliers <= max(max_outliers * len(values), OUTLIERS_PER_RUN * len(logs))
        is_allowed = is_allowed and _are_apart(values, data.run, label, fitted.spread)
        if is_allowed and (best is None or total < best.criterion):
            best = replace(fitted, criterion=total, log_choices=pattern.price / 2)
    return best


def _collect(logs: Sequence[FloatArray], ranks: Sequence[IntArray], floor: float) -> _Ranks:
    """All ranks, with their distance from the mean of their run."""
    deviations = []
    for run_logs in logs:
        above = run_logs - np.median(run_logs)
        limit = MAX_DEVIATION * max(floor, 1.5 * float(np.median(abs(above))))
        near = np.clip(above, -limit, limit)
        deviations.append(near - near.mean())

    counts = [len(run_ranks) for run_ranks in ranks]
    largest = [int(run_ranks.max(initial=0)) + 1 for run_ranks in ranks]
    rank, size = np.concatenate(ranks), np.repeat(largest, counts)
    return _Ranks(
        y=np.concatenate(deviations),
        run=np.repeat(np.arange(len(logs)), counts),
        rank=rank,
        size=size,
        position=(rank + 0.5) / size,
    )


def _find_patterns(data: _Ranks) -> Iterator[_Pattern]:
    """The patterns of all families that may explain the values."""
    if len(data.y) < 4:
        return
    yield from _find_residues(data)
    yield from _find_ranges(data)
    for count in range(1, MAX_END + 1):
        for is_inside in (data.rank < count, data.rank >= data.size - count):
            if is_inside.any() and not is_inside.all():
                yield _Pattern(is_inside.astype(np.intp), END_PRICE)


def _is_promising(data: _Ranks, label: IntArray, price: float) -> bool:
    """Whether classes explain more of the values than their choice costs."""
    count = np.bincount(label)
    sums = np.bincount(label, data.y)
    explained = float((sums**2 / np.maximum(count, 1)).sum())
    total = float(data.y @ data.y)
    remaining = max(total - explained, 1e-12 * total)
    return total > 0 and len(data.y) * log(total / remaining) > price


def _distinct(patterns: Iterable[_Pattern]) -> list[_Pattern]:
    """The patterns without those that divide the ranks as another one does for a lower price."""
    cheapest: dict[bytes, _Pattern] = {}
    for pattern in patterns:
        _, first, inverse = np.unique(pattern.label, return_index=True, return_inverse=True)
        by_appearance = np.argsort(np.argsort(first))[inverse.ravel()]
        key = by_appearance.tobytes()
        if key not in cheapest or pattern.price < cheapest[key].price:
            cheapest[key] = pattern
    return list(cheapest.values())


def _best_of_each_number(rough: Sequence[tuple[float, _Pattern]]) -> Iterator[_Pattern]:
    """Of each number of classes the patterns that may be the best, by the rough criterion."""
    by_number: dict[int, list[tuple[float, int]]] = {}
    for index, (criterion, pattern) in enumerate(rough):
        by_number.setdefault(int(pattern.label.max()) + 1, []).append((criterion, index))

    for _, entries in sorted(by_number.items()):
        entries.sort()
        for criterion, index in entries[:FITTED_OF_EACH]:
            if criterion <= entries[0][0] + WORTH_FITTING:
                yield rough[index][1]


def _are_apart(y: FloatArray, run: IntArray, label: IntArray, spread: float) -> bool:
    """Whether neighbours of three or more classes differ by more than their ranks do.

    Args:
        y: logarithms of values, (n,).
        run: of each value, (n,).
        label: the class of each value, ascending by value, (n,).
        spread: standard deviation of ranks within their class.
    """
    n_classes, n_runs = int(label.max()) + 1, int(run.max()) + 1
    if n_classes < 3:
        return True

    cell = run * n_classes + label
    count = np.bincount(cell, minlength=n_runs * n_classes).reshape(n_runs, n_classes)
    total = np.bincount(cell, y, minlength=n_runs * n_classes).reshape(n_runs, n_classes)
    mean = total / np.maximum(count, 1)
    weight = np.minimum(count[:, 1:], count[:, :-1])  # 0 in runs that lack one of the two
    distance = (weight * np.diff(mean, axis=1)).sum(axis=0) / np.maximum(weight.sum(axis=0), 1)
    is_apart = (distance >= NEAREST_LEVELS * spread) | (weight.sum(axis=0) == 0)
    return bool(is_apart.all())


def _find_residues(data: _Ranks) -> Iterator[_Pattern]:
    """Rank modulo m in two or three levels: for each number of levels the best moduli."""
    scored: dict[int, list[tuple[float, int, _Pattern]]] = {2: [], 3: []}
    total = float(data.y @ data.y)
    for modulus in range(2, min(MAX_MODULUS, int(data.size.max()) // 2) + 1):
        residue = data.rank % modulus
        count = np.asarray(np.bincount(residue, minlength=modulus), dtype=np.float64)
        sums = np.asarray(np.bincount(residue, data.y, minlength=modulus), dtype=np.float64)
        for n_levels, explained, level in _best_levels(sums, count):
            price = MODULUS_PRICE + 2 * _log_arrangements(np.bincount(level))
            remaining = max(total - explained, 1e-12 * total)
            criterion = len(data.y) * log(remaining) + price if remaining > 0 else price
            pattern = _Pattern(level[residue], price)
            scored[n_levels].append((criterion, modulus, pattern))

            # A third level explains hardly more than the second one did.
            remaining = max(total - 2 * explained, 1e-12 * total)
            if total <= 0 or len(data.y) * log(total / remaining) < MODULUS_PRICE:
                break

    for entries in scored.values():
        for _, _, pattern in sorted(entries, key=lambda entry: entry[:2])[:FITTED]:
            yield pattern


def _best_levels(sums: FloatArray, count: FloatArray) -> Iterator[tuple[int, float, IntArray]]:
    """The best division of residues into two and three levels.

    Args:
        sums: of the values of each residue, (modulus,).
        count: ranks of each residue, (modulus,), none of them 0.

    Yields:
        The number of levels, the explained sum of squares, and the level of each residue.
    """
    order = np.argsort(sums / np.maximum(count, 1), kind="stable")
    number, total = np.cumsum(count[order]), np.cumsum(sums[order])
    modulus = len(sums)

    lower = total[:-1] ** 2 / number[:-1]
    upper = (total[-1] - total[:-1]) ** 2 / (number[-1] - number[:-1])
    cut = int(np.argmax(lower + upper))
    level = np.zeros(modulus, dtype=np.intp)
    level[order[cut + 1 :]] = 1
    yield 2, float((lower + upper)[cut]), level

    if modulus > 2:
        between = total[None, :-1] - total[:-1, None]
        width = number[None, :-1] - number[:-1, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.where(width > 0, between**2 / width, -np.inf)
        explained = lower[:, None] + middle + upper[None, :]
        first, second = np.unravel_index(int(np.argmax(explained)), explained.shape)
        level = np.zeros(modulus, dtype=np.intp)
        level[order[first + 1 :]] = 1
        level[order[second + 1 :]] = 2
        yield 3, float(explained[first, second]), level


def _log_arrangements(sizes: IntArray) -> float:
    """Logarithm of the number of ways to divide residues into levels of these sizes."""
    return lgamma(float(sizes.sum()) + 1) - sum(lgamma(float(size) + 1) for size in sizes)


def _find_ranges(data: _Ranks) -> Iterator[_Pattern]:
    """Ranges of rank / p: equal parts, and the cuts that binary segmentation finds."""
    for n_parts in range(2, MAX_DENOMINATOR + 1):
        label = data.rank * n_parts // data.size
        yield from _with_levels(data, label, 2 * log(MAX_DENOMINATOR))

    fractions = _usual_fractions()
    n_positions = len(np.unique(data.rank / data.size))  # a found cut is chosen from so many
    cut_price = 2 * log(USUAL_CUTS * max(n_positions, MIN_POSITIONS))
    cuts: list[float] = []
    for cut in _segment(data):
        cuts = sorted([*cuts, cut])
        near = fractions[abs(fractions[:, None] - np.array(cuts)).argmin(axis=0)]
        snapped = np.unique(near)
        fraction_price = 2 * log(len(fractions)) * len(snapped)
        yield from _with_levels(data, _divide(data, snapped), fraction_price)

        found_price = cut_price * len(cuts)
        yield from _with_levels(data, _divide(data, np.array(cuts)), found_price)
        if not _is_promising(data, _divide(data, snapped), fraction_price):
            continue
        n_runs = int(data.run[-1]) + 1
        for base, base_price in ((snapped, fraction_price), (np.array(cuts), found_price)):
            shift_price = SHIFT_PRICE * len(base) * n_runs
            yield from _with_levels(data, _shift(data, base), base_price + shift_price)


def _usual_fractions() -> FloatArray:
    """Fractions between 0 and 1 with small denominators, ascending."""
    denominators = range(2, MAX_DENOMINATOR + 1)
    return np.unique([n / d for d in denominators for n in range(1, d)])


def _segment(data: _Ranks) -> Iterator[float]:
    """Fractions of p from which on the values differ most, by binary segmentation."""
    fraction = data.rank / data.size
    order = np.argsort(fraction, kind="stable")
    position, total = fraction[order], np.concatenate([[0.0], np.cumsum(data.y[order])])
    is_boundary = np.flatnonzero(np.diff(position) > 0) + 1  # index of the first rank behind it

    ends = [0, len(position)]
    for _ in range(MAX_CUTS):
        best: tuple[float, int] = (0.0, 0)
        for low, high in pairwise(ends):
            inside = is_boundary[(is_boundary > low) & (is_boundary < high)]
            if not len(inside):
                continue
            left, right = total[inside] - total[low], total[high] - total[inside]
            gain = left**2 / (inside - low) + right**2 / (high - inside)
            gain -= (total[high] - total[low]) ** 2 / (high - low)
            index = int(np.argmax(gain))
            best = max(best, (float(gain[index]), int(inside[index])))
        if best[0] <= 0:
            return
        ends = sorted([*ends, best[1]])
        yield float(position[best[1]])


def _divide(data: _Ranks, cuts: FloatArray) -> IntArray:
    """The range of each rank."""
    # A rank at the cut itself belongs to the range behind it, as in `rank * parts // p`.
    return np.searchsorted(cuts, data.rank / data.size, side="right")


def _shift(data: _Ranks, cuts: FloatArray) -> IntArray:
    """The range of each rank, with cuts that move by up to MAX_SHIFT ranks in each run."""
    label = _divide(data, cuts)
    count = np.bincount(label, minlength=len(cuts) + 1)
    means = np.bincount(label, data.y, minlength=len(cuts) + 1) / np.maximum(count, 1)

    shifted = np.zeros_like(label)
    for run in range(int(data.run[-1]) + 1):
        in_run = np.flatnonzero(data.run == run)
        rank, y, size = data.rank[in_run], data.y[in_run], int(data.size[in_run[0]])
        for index, cut in enumerate(cuts):
            first = int(np.ceil(cut * size))
            costs = []
            for shift in range(-MAX_SHIFT, MAX_SHIFT + 1):
                near = abs(rank - first) <= MAX_SHIFT
                expected = np.where(rank[near] < first + shift, means[index], means[index + 1])
                costs.append(float(((y[near] - expected) ** 2).sum()))
            boundary = first + int(np.argmin(costs)) - MAX_SHIFT
            shifted[in_run] += rank >= boundary
    return shifted


def _with_levels(data: _Ranks, label: IntArray, price: float) -> Iterator[_Pattern]:
    """A pattern, and the same with the ranges joined whose values do not differ."""
    used, dense = np.unique(label, return_inverse=True)
    if len(used) < 2:
        return
    yield _Pattern(dense.ravel(), price)

    count = np.bincount(dense.ravel())
    means = np.bincount(dense.ravel(), data.y) / count
    spread = float(np.std(data.y - means[dense.ravel()]))
    order = np.argsort(means, kind="stable")
    level = np.zeros(len(used), dtype=np.intp)
    for before, after in pairwise(order):
        error = spread * np.sqrt(1 / count[before] + 1 / count[after])
        level[after] = level[before] + (means[after] - means[before] > SAME_LEVEL * error)
    if 1 < level.max() + 1 < len(used):
        yield _Pattern(level[dense.ravel()], price + 2 * _log_arrangements(np.bincount(level)))


def _gradient_criterion(data: _Ranks, floor: float) -> float:
    """The rough criterion of values that grow evenly with the rank, which makes no classes."""
    centred = data.position - 0.5
    slope = float(centred @ data.y) / max(float(centred @ centred), 1e-12)
    error = abs(data.y - slope * centred)
    limit = MAX_DEVIATION * max(floor, 1.5 * float(np.median(error)))
    square = float((np.minimum(error, limit) ** 2).mean())
    n_parameters = int(data.run[-1]) + 2
    return float(len(data.y) * np.log(max(square, floor**2)) + 2 * n_parameters)
