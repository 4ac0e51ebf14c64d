"""Which classes the clusters of a run are, where runs have different numbers of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from insitu.modeling.classes.cluster import cluster
from insitu.modeling.measurement import FloatArray

MAX_CLASSES = 8  # more are not told apart by their laws
SAME_LEVEL = 0.005  # relative distance of counts that are the same
SIZE_SPREAD = 0.15  # relative, by which sizes may miss a simple law: grids are rarely square
FOREIGN = 0.5  # relative distance from every law at which a cluster is of no known class
UNLAWFUL = 0.2  # relative misfit of sizes that belong to no part of a domain
UNSTEADY = 0.05  # the same of values
WORST = 25.0  # one misfit says no more than this, in squared standard deviations
LAWS: tuple[Callable[[FloatArray], FloatArray], ...] = (  # how values and sizes grow with x
    np.zeros_like,
    np.log2,
    np.cbrt,
    np.sqrt,
    lambda x: np.cbrt(x) ** 2,
    lambda x: x,
    lambda x: 1 / x,
    lambda x: 1 / np.sqrt(x),
)


@dataclass(frozen=True, slots=True)
class RunClusters:
    """The clusters of one run, in an order that is the same in all runs.

    values: (n_clusters,), mean of each, or of what witnesses it; sizes: (n_clusters,), ranks; x:
    number of ranks of the run, or what else varies.
    """

    x: float
    values: FloatArray
    sizes: FloatArray


def align(runs: Sequence[RunClusters], *, spread: float) -> list[tuple[int, ...]]:
    """Give every cluster of every run a class so that values and sizes follow simple laws of x.

    The runs with most clusters define the classes; every other run takes, in ascending order, the
    selection of classes that leaves value and size of each class nearest to a law `a + b·g(x)`, and
    lacks the classes whose size there is nearest to nothing. Runs are taken from the largest x to
    the smallest, each adding to what the next is compared with. A run with a cluster that is
    nowhere near any class has classes of its own.

    Args:
        runs: their clusters; none where a run has no values.
        spread: relative standard deviation of values about their law.

    Returns:
        Per run the class of each cluster; empty for a run without clusters, or with its own.
    """
    count = max((len(one.sizes) for one in runs), default=0)
    result = [tuple(range(count)) if len(one.sizes) == count else () for one in runs]
    known = [index for index, one in enumerate(runs) if len(one.sizes) == count]
    rest = [index for index, one in enumerate(runs) if 0 < len(one.sizes) < count]
    for index in sorted(rest, key=lambda one: (-runs[one].x, one)):
        choices = list(combinations(range(count), len(runs[index].sizes)))
        seen = [_history(runs, known, result, label) for label in range(count)]
        scores = [_misfit(choice, seen, runs[index], spread) for choice in choices]
        best = choices[int(np.argmin(scores))]
        if not _is_foreign(best, seen, runs[index]):
            result[index] = best
            known.append(index)
    return result


def match_equal_values(runs: Sequence[RunClusters]) -> list[tuple[int, ...]] | None:
    """Give clusters of equal value the same class, where values do not change with x.

    They do not where the two largest of the runs with most clusters agree in all of them. Values
    that only other runs have are classes of their own: one rank that owns all four walls.

    Returns:
        As `align`; None where values change, or would make too many classes.
    """
    count = max((len(one.sizes) for one in runs), default=0)
    full = sorted((one.x, index) for index, one in enumerate(runs) if len(one.sizes) == count)
    if count == 0 or len(full) < 2:
        return None
    last, before = (runs[index].values for _, index in full[-2:])
    if np.any(abs(last - before) > SAME_LEVEL * abs(last)):
        return None
    levels = cluster(np.concatenate([one.values for one in runs]), SAME_LEVEL)
    parts = np.split(levels, np.cumsum([len(one.values) for one in runs])[:-1])
    if levels.max() >= MAX_CLASSES or any(len(set(one.tolist())) < len(one) for one in parts):
        return None
    return [tuple(int(level) for level in one) for one in parts]


def _is_foreign(choice: tuple[int, ...], seen: Sequence[FloatArray], run: RunClusters) -> bool:
    """Whether a cluster is nowhere near what the other runs say of the class it would be."""
    for place, label in enumerate(choice):
        x, values, _ = seen[label]
        if len(x) and np.all((values == 0) != (run.values[place] == 0)):
            return True  # doing something is not what those do that do nothing
        if len(x) < 3 or not np.all(values > 0):
            continue
        fitted, expected = fit_laws(x, values, run.x)
        misfit = ((fitted - 1) ** 2).sum(axis=1)
        near = misfit <= max(2 * float(misfit.min()), 1e-6)
        if np.all(abs(run.values[place] - expected[near]) > FOREIGN * abs(expected[near])):
            return True
    return False


def _history(
    runs: Sequence[RunClusters], known: Sequence[int], result: Sequence[tuple[int, ...]], label: int
) -> FloatArray:
    """Rows x, value and size of one class in the runs matched so far."""
    rows = []
    for index in known:
        if label in result[index]:
            place, run = result[index].index(label), runs[index]
            rows.append((run.x, run.values[place], run.sizes[place]))
    return np.array(rows, dtype=np.float64).reshape(-1, 3).T


def _misfit(
    choice: tuple[int, ...], seen: Sequence[FloatArray], run: RunClusters, spread: float
) -> float:
    """How far a selection of classes is from what the other runs say, in squared deviations."""
    total = 0.0
    for label, history in enumerate(seen):
        if label in choice:
            place = choice.index(label)
            at = np.append(history[0], run.x)
            total += _law_misfit(at, np.append(history[1], run.values[place]), spread)
            total += _law_misfit(at, np.append(history[2], run.sizes[place]), SIZE_SPREAD)
        else:
            expected = _expected_size(history, run.x) / max(float(run.sizes.sum()), 1.0)
            total += min((expected / SIZE_SPREAD) ** 2, WORST)
    return total


def _law_misfit(x: FloatArray, y: FloatArray, spread: float) -> float:
    """Smallest sum of squared relative residuals over the laws, in units of the spread.

    Up to three points only the constant is tried: any law fits them.
    """
    if not np.all(y > 0):
        return 0.0 if np.all(y == 0) else WORST
    fitted, _ = fit_laws(x, y, float(x[-1]))
    residuals = (fitted if len(x) > 3 else fitted[:1]) - 1
    return min(float((residuals**2).sum(axis=1).min()) / spread**2, WORST)


def fit_laws(x: FloatArray, y: FloatArray, at: float) -> tuple[FloatArray, FloatArray]:
    """Least relative squares of `a + b·g(x)` for each of the k `LAWS`, of (n,) values y at (n,) x.

    Returns:
        (k, n), fitted / y; (k,), the value at one further x.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.array([law(np.append(x, at)) for law in LAWS])
    growth = np.where(np.isfinite(growth), growth, 0.0)
    weight = 1 / y
    centred = growth - (growth[:, :-1] @ weight**2 / (weight @ weight))[:, None]
    scaled = centred[:, :-1] * weight
    length = np.maximum((scaled**2).sum(axis=1), 1e-300)
    level = weight.sum() / (weight @ weight)
    slope = scaled.sum(axis=1) / length
    return level * weight + slope[:, None] * scaled, level + slope * centred[:, -1]


def follow_laws(sizes: FloatArray, values: FloatArray, x: FloatArray) -> bool:
    """Whether classes are as parts of a domain are, and not as noise makes them.

    Each must be there in three runs at least, without a gap between them; where it is there in four
    or more, its size must be near a law or its value nearer still.

    Args:
        sizes: (n_runs, n_classes), 0 where a run lacks the class; values: the same, positive; x:
            (n_runs,).
    """
    if len(sizes) < 4:
        return True
    order = np.argsort(x, kind="stable")
    for size, value in zip(sizes[order].T, values[order].T, strict=True):
        there = np.flatnonzero(size)
        if len(there) < 3 or there[-1] - there[0] + 1 > len(there):
            return False
        if len(there) >= 4:
            at = x[order][there]
            one_more = size[there] + 1  # a rank more or less is no misfit
            if _scatter(at, one_more) > UNLAWFUL and _scatter(at, value[there]) > UNSTEADY:
                return False
    return True


def _scatter(x: FloatArray, y: FloatArray) -> float:
    """Relative standard deviation about the best law."""
    fitted, _ = fit_laws(x, y, float(x[-1]))
    return float(np.sqrt(((fitted - 1) ** 2).sum(axis=1).min() / (len(x) - 2)))


def _expected_size(history: FloatArray, x: float) -> float:
    """The size of a class at x by the law that fits it best; 0 where that is negative."""
    at, sizes = history[0], history[2]
    if len(at) < 3:
        return float(sizes.mean()) if len(at) else 0.0
    fitted, expected = fit_laws(at, sizes, x)
    best = int(np.argmin(np.round(((fitted - 1) ** 2).sum(axis=1), 9)))
    return max(float(expected[best]), 0.0)
