"""Which classes the clusters of a run are, where runs have different numbers of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from insitu.modeling.measurement import FloatArray

MAX_CLASSES = 8  # laws do not tell more classes apart
SIZE_SPREAD = 0.15  # relative, of sizes about a simple law: grids are rarely squares
FOREIGN = 0.5  # relative distance from every law at which a cluster is of no known class
MAX_SIZE_MISFIT = 0.2  # relative; sizes of the classes of a domain are nearer to a law
MAX_VALUE_MISFIT = 0.05  # the same of values
MAX_MISFIT = 25.0  # that one law contributes to a comparison, in squared standard deviations
MIN_RUNS = 3  # from which on a law is fitted: fewer points fit any law
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
    """The clusters of one run group, in an order that is the same in all groups.

    x: number of ranks of the runs, or what else varies; values: (n_clusters,), mean of each
    cluster, or of its counts; or (n_keys, n_clusters) for runs with several other parameters, NaN
    where a key was not measured; sizes: (n_clusters,), ranks.
    """

    x: float
    values: FloatArray
    sizes: FloatArray


@dataclass(frozen=True, slots=True)
class _ClassHistory:
    """One class in the runs matched so far: x and sizes are (n_runs,), values (n_runs, n_keys)."""

    x: FloatArray
    values: FloatArray
    sizes: FloatArray

    def known_values(self, key: int) -> tuple[FloatArray, FloatArray]:
        """x and values of one key where it was measured."""
        is_known = np.isfinite(self.values[:, key])
        return self.x[is_known], self.values[is_known, key]


def align(runs: Sequence[RunClusters], *, spread: float) -> list[tuple[int, ...]]:
    """Assign every cluster of every run to a class, so that values and sizes follow simple laws.

    The runs with most clusters define the classes. Every other run takes, in ascending order, the
    selection of classes that leaves value and size of each class nearest to a law `a + b·g(x)`, and
    that leaves out the classes whose expected size is nearest to zero. Runs are taken from the
    largest x to the smallest, and each one adds to what the next is compared with. A run with a
    cluster that is far from any class has classes of its own. Runs of the same x whose clusters
    have the same sizes have the same classes.

    Args:
        runs: their clusters; none where a run has no values.
        spread: relative standard deviation of values about their law.

    Returns:
        Per run the class of each cluster; empty for a run without clusters, or with its own.
    """
    count = max((len(run.sizes) for run in runs), default=0)
    result: list[tuple[int, ...]] = []
    matched, rest = [], []
    for index, run in enumerate(runs):
        is_full = len(run.sizes) == count
        result.append(tuple(range(count)) if is_full else ())
        if is_full:
            matched.append(index)
        elif len(run.sizes):
            rest.append(index)

    for index in sorted(rest, key=lambda index: (-runs[index].x, index)):
        run = runs[index]
        alike = [other for other in matched if _is_same_division(runs[other], run)]
        if alike:
            result[index] = result[alike[0]]
            matched.append(index)
            continue
        history = [_class_history(runs, matched, result, label) for label in range(count)]
        choices = list(combinations(range(count), len(run.sizes)))
        misfits = [_choice_misfit(choice, history, run, spread) for choice in choices]
        best = choices[int(np.argmin(misfits))]
        if not _is_foreign(best, history, run):
            result[index] = best
            matched.append(index)
    return result


def _is_same_division(run: RunClusters, other: RunClusters) -> bool:
    """Whether as many ranks are divided in the same way, as with another size of the problem."""
    return run.x == other.x and np.array_equal(run.sizes, other.sizes)


def _is_foreign(
    choice: tuple[int, ...], history: Sequence[_ClassHistory], run: RunClusters
) -> bool:
    """Whether a cluster is far from what the other runs predict for its class."""
    values = np.atleast_2d(run.values)
    for index, label in enumerate(choice):
        foreign = []
        for key in np.flatnonzero(np.isfinite(values[:, index])).tolist():
            x, known = history[label].known_values(key)
            foreign.append(_is_far(float(values[key, index]), run.x, x, known))
        if foreign and all(foreign):
            return True
    return False


def _is_far(value: float, at: float, x: FloatArray, known: FloatArray) -> bool:
    """Whether a value is far from what the known values, (n,) at x, predict."""
    # Ranks that do something are not of a class that does nothing, nor the other way round.
    if len(x) and np.all((known == 0) != (value == 0)):
        return True
    if len(x) < MIN_RUNS or not np.all(known > 0):
        return False

    fitted, predicted = fit_laws(x, known, at)
    misfit = ((fitted - 1) ** 2).sum(axis=1)
    fits_well = misfit <= max(2 * float(misfit.min()), 1e-6)
    return bool(np.all(abs(value - predicted[fits_well]) > FOREIGN * abs(predicted[fits_well])))


def _class_history(
    runs: Sequence[RunClusters],
    matched: Sequence[int],
    assigned: Sequence[tuple[int, ...]],
    label: int,
) -> _ClassHistory:
    n_keys = max(len(np.atleast_2d(run.values)) for run in runs)
    rows, values = [], []
    for index in matched:
        if label in assigned[index]:
            cluster_index, run = assigned[index].index(label), runs[index]
            rows.append((run.x, run.sizes[cluster_index]))
            values.append(np.atleast_2d(run.values)[:, cluster_index])
    x, sizes = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    return _ClassHistory(x, np.array(values).reshape(-1, n_keys), sizes)


def _choice_misfit(
    choice: tuple[int, ...], history: Sequence[_ClassHistory], run: RunClusters, spread: float
) -> float:
    """How far a selection of classes is from what other runs predict, in squared deviations."""
    total = 0.0
    values = np.atleast_2d(run.values)
    for label, known in enumerate(history):
        if label in choice:
            index = choice.index(label)
            for key in np.flatnonzero(np.isfinite(values[:, index])).tolist():
                x, known_values = known.known_values(key)
                y = np.append(known_values, values[key, index])
                total += _law_misfit(np.append(x, run.x), y, spread)
            x = np.append(known.x, run.x)
            total += _law_misfit(x, np.append(known.sizes, run.sizes[index]), SIZE_SPREAD)
        else:
            expected_share = _expected_size(known, run.x) / max(float(run.sizes.sum()), 1.0)
            total += min((expected_share / SIZE_SPREAD) ** 2, MAX_MISFIT)
    return total


def _law_misfit(x: FloatArray, y: FloatArray, spread: float) -> float:
    """Smallest sum of squared relative residuals over the laws, in units of the spread.

    For up to three points only the constant is tried, because any law fits them.
    """
    if not np.all(y > 0):
        return 0.0 if np.all(y == 0) else MAX_MISFIT

    fitted, _ = fit_laws(x, y, float(x[-1]))
    residuals = (fitted if len(x) > MIN_RUNS else fitted[:1]) - 1
    return min(float((residuals**2).sum(axis=1).min()) / spread**2, MAX_MISFIT)


def fit_laws(x: FloatArray, y: FloatArray, at: float) -> tuple[FloatArray, FloatArray]:
    """Fit `a + b·g(x)` for each of the k LAWS, by least squares of the relative error.

    Args:
        x, y: (n,), y positive.
        at: a further x.

    Returns:
        (k, n), fitted / y; (k,), the value of each law at the further x.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.array([law(np.append(x, at)) for law in LAWS])
    growth = np.where(np.isfinite(growth), growth, 0.0)

    # With g centred about its weighted mean, constant and slope are independent of each other.
    weight = 1 / y
    centred = growth - (growth[:, :-1] @ weight**2 / (weight @ weight))[:, None]
    scaled = centred[:, :-1] * weight
    length = np.maximum((scaled**2).sum(axis=1), 1e-300)
    constant = weight.sum() / (weight @ weight)
    slope = scaled.sum(axis=1) / length
    return constant * weight + slope[:, None] * scaled, constant + slope * centred[:, -1]


def follow_laws(sizes: FloatArray, values: FloatArray, x: FloatArray) -> bool:
    """Whether classes are like those of a domain, and not like those that noise makes.

    Each class must be in three runs at least, without a gap between them. If it is in four or more,
    its sizes must be near a law, or its values even nearer to one.

    Args:
        sizes: (n_runs, n_classes), 0 where a run lacks the class.
        values: of the same shape, positive.
        x: (n_runs,).
    """
    if len(sizes) <= MIN_RUNS:
        return True

    order = np.argsort(x, kind="stable")
    for size, value in zip(sizes[order].T, values[order].T, strict=True):
        present = np.flatnonzero(size)
        has_gap = len(present) and present[-1] - present[0] + 1 > len(present)
        if len(present) < MIN_RUNS or has_gap:
            return False

        if len(present) > MIN_RUNS:
            at = x[order][present]
            tolerant_size = size[present] + 1  # a rank more or less is no misfit
            if (
                _relative_scatter(at, tolerant_size) > MAX_SIZE_MISFIT
                and _relative_scatter(at, value[present]) > MAX_VALUE_MISFIT
            ):
                return False
    return True


def _relative_scatter(x: FloatArray, y: FloatArray) -> float:
    """Relative standard deviation about the best law."""
    fitted, _ = fit_laws(x, y, float(x[-1]))
    return float(np.sqrt(((fitted - 1) ** 2).sum(axis=1).min() / (len(x) - 2)))


def _expected_size(known: _ClassHistory, x: float) -> float:
    """The size of a class at x by the law that fits it best; 0 where that is negative."""
    if len(known.x) < MIN_RUNS:
        return float(known.sizes.mean()) if len(known.x) else 0.0

    fitted, expected = fit_laws(known.x, known.sizes, x)
    # Rounded, so that of laws that fit exactly the first, simplest one is taken.
    misfit = np.round(((fitted - 1) ** 2).sum(axis=1), 9)
    return max(float(expected[int(np.argmin(misfit))]), 0.0)
