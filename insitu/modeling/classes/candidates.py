"""Candidate partitions: classes that ranks form in usual domains, compared by measured times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.classes.domain import Domain, default_domain
from insitu.modeling.measurement import FloatArray, IntArray

HALF_LOG_2PI = 0.919  # in the logarithm of a normal density
OUTLIER_SHARE = 0.01  # prior share of ranks that are slow for reasons of their own
OUTLIER_DENSITY = float(np.log(OUTLIER_SHARE / 1.2))  # uniform over a factor of e^1.2
DRIFT_SHAPES: tuple[Callable[[FloatArray], FloatArray], ...] = (  # how classes drift apart with x
    np.ones_like,
    lambda x: np.log2(np.maximum(x, 1.0)),
    lambda x: np.sqrt(np.maximum(x, 0.0)),
)
FITTED = 2  # candidates that are fitted, after a rough comparison of all
SHAPE_FACTOR = 2.0  # by which the shape of a run may differ from the best of DRIFT_SHAPES
ROUNDS = 15  # of expectation and maximisation, at most
CONVERGED = 0.02  # change of a log-likelihood in one round
MAX_DEVIATION = 6.0  # standard deviations that one rank counts in the rough comparison, at most

Candidate = list[IntArray]  # per run group a code per rank; ranks of equal code are one class


@dataclass(frozen=True, slots=True)
class FittedCandidate:
    """The candidate that explains the values best.

    labels: per run the class of each rank (n_ranks,), ascending by value, the same in all runs;
    is_outlier: (n_ranks,) each; spread: relative standard deviation of ranks within their class;
    criterion: Bayesian information criterion, comparable with that of a mixture; log_choices:
    logarithm of the number of partitions among which it was chosen.
    """

    labels: tuple[IntArray, ...]
    is_outlier: tuple[BoolArray, ...]
    spread: float
    criterion: float
    log_choices: float = 0.0


def find_candidates(sizes: Sequence[int], domains: Sequence[Domain | None]) -> list[Candidate]:
    """Partitions of the ranks that usual domains lead to.

    Ranks are partitioned by their walls: how many they have, how many along each axis, any or none.
    The domain is the program's own if it is known for every run group. Otherwise it has one, two
    and three axes and is as near to a cube as MPI_Dims_create makes it, with the longest side first
    or last. Besides, rank 0 alone is a class.

    Args:
        sizes: number of ranks of each run group.
        domains: of each run group, None where it is not known.
    """
    distinct: dict[bytes, Candidate] = {}
    for layout in _find_layouts(sizes, domains):
        walls = [np.add(*domain.walls()) for domain in layout]
        number = [group_walls.sum(axis=1) for group_walls in walls]
        any_wall = [np.minimum(group_number, 1) for group_number in number]
        by_axis = [group_walls @ 4 ** np.arange(group_walls.shape[1]) for group_walls in walls]
        for candidate in (number, any_wall, by_axis):
            distinct.setdefault(_key(candidate), candidate)

    first_rank = [(np.arange(size) > 0).astype(np.intp) for size in sizes]
    distinct.setdefault(_key(first_rank), first_rank)
    return list(distinct.values())


def _find_layouts(sizes: Sequence[int], domains: Sequence[Domain | None]) -> list[list[Domain]]:
    """Per layout a domain for each run group."""
    known = [domain for domain in domains if domain is not None]
    if known and len(known) == len(domains):
        return [known]

    layouts = []
    for axes, is_last in ((1, True), (2, False), (2, True), (3, False), (3, True)):
        layouts.append([default_domain(size, axes, is_last) for size in sizes])
    return layouts


def _key(candidate: Candidate) -> bytes:
    return b"".join(codes.tobytes() for codes in candidate)


def select_candidate(
    logs: Sequence[FloatArray], candidates: Sequence[Candidate], *, x: FloatArray, floor: float
) -> FittedCandidate | None:
    """Find the candidate that explains the logarithms of values best; None without candidates.

    Args:
        logs: per run one per rank.
        candidates: per run a code for each of these ranks.
        x: (n_runs,), the number of ranks, or what else varies.
        floor: least relative spread of ranks.
    """
    y = np.concatenate(logs)
    run = np.repeat(np.arange(len(logs)), [len(run_logs) for run_logs in logs])

    rough: list[tuple[float, int, IntArray]] = []
    for candidate in candidates:
        codes, inverse = np.unique(np.concatenate(candidate), return_inverse=True)
        if len(codes) > 1 and len(y):
            label = inverse.ravel()
            rough.append((rough_criterion(y, run, label, floor), len(rough), label))
    rough.sort(key=lambda entry: entry[:2])

    best: FittedCandidate | None = None
    for _, _, label in rough[:FITTED]:
        fitted = fit_shapes(y, sort_by_value(y, run, label), run, x=x, floor=floor)
        if best is None or fitted.criterion < best.criterion:
            best = fitted
    if best is None:
        return None

    # The choice among so many candidates is paid for.
    choices = float(np.log(len(candidates)))
    return replace(best, criterion=best.criterion + 2 * choices, log_choices=choices)


def drift_shapes(x: FloatArray) -> list[FloatArray]:
    """How classes drift apart at the runs `x`, (n_runs,): (n_runs,) per shape, with median 1.

    A shape whose median is 0, such as log2 where most runs have one rank, is 1 at its largest.
    """
    shapes = []
    for shape in DRIFT_SHAPES:
        at_runs = shape(x)
        scale = float(np.median(at_runs)) or float(at_runs.max()) or 1.0
        shapes.append(at_runs / scale)
    return shapes


def rough_criterion(y: FloatArray, run: IntArray, label: IntArray, floor: float) -> float:
    """A criterion from the scatter within the classes of each run.

    Args:
        y: logarithms of values, (n,).
        run: of each value, (n,).
        label: the class of each value, (n,).
        floor: least relative spread of ranks.
    """
    cell = run * (int(label.max()) + 1) + label
    number = np.bincount(cell)
    mean = np.bincount(cell, weights=y) / np.maximum(number, 1)

    error = abs(y - mean[cell])
    limit = MAX_DEVIATION * max(floor, 1.5 * float(np.median(error)))
    square = float((np.minimum(error, limit) ** 2).mean())
    return float(len(y) * np.log(max(square, floor**2)) + 2 * np.count_nonzero(number))


def sort_by_value(y: FloatArray, run: IntArray, label: IntArray) -> IntArray:
    """Number classes by how far they lie above the mean of their run."""
    run_means = np.bincount(run, weights=y) / np.maximum(np.bincount(run), 1)
    above = y - run_means[run]
    heights = np.bincount(label, weights=above) / np.bincount(label)
    numbered: IntArray = np.argsort(np.argsort(heights, kind="stable"))[label]
    return numbered


def fit_shapes(
    y: FloatArray, label: IntArray, run: IntArray, *, x: FloatArray, floor: float
) -> FittedCandidate:
    """Fit `base of the run + log(1 + excess of the class · shape(x))`, with the best shape.

    Besides the shapes of `drift_shapes`, each run may have a value of its own.

    Args:
        y: logarithms of values, (n,).
        label: the class of each value, ascending, (n,).
        run: of each value, (n,).
        x: (n_runs,), the number of ranks, or what else varies.
        floor: least relative spread of ranks.
    """
    shapes = drift_shapes(x)
    fits = [_fit(y, label, run, shape=shape, floor=floor) for shape in shapes]
    if len(x) > 1:
        best = shapes[int(np.argmin([fit.criterion for fit in fits]))]
        fits.append(_fit(y, label, run, shape=best, floor=floor, is_free=True))
    return min(fits, key=lambda fit: fit.criterion)


def _fit(
    y: FloatArray,
    label: IntArray,
    run: IntArray,
    *,
    shape: FloatArray,
    floor: float,
    is_free: bool = False,
) -> FittedCandidate:
    """Fit one shape robustly: each rank counts by the probability that it is no outlier.

    Args:
        y, label, run, floor: see `fit_shapes`.
        shape: (n_runs,), how far classes lie apart in each run.
        is_free: whether this is where the search for the best shape begins.
    """
    n_runs, n_classes = len(shape), int(label.max()) + 1
    n_parameters = n_classes + (n_runs - 1) * is_free
    lowest, highest = shape / SHAPE_FACTOR, shape * SHAPE_FACTOR
    n_cells = n_runs * n_classes
    cell = run * n_classes + label
    excess, inside, before = np.zeros(n_classes), np.ones(len(y)), -np.inf

    for _ in range(ROUNDS):
        count = np.bincount(cell, inside, n_cells).reshape(n_runs, n_classes)
        total = np.bincount(cell, inside * y, n_cells).reshape(n_runs, n_classes)

        # The base of each run, then one Gauss-Newton step of the excesses.
        offset = np.log1p(excess * shape[:, None])
        base = (total - count * offset).sum(axis=1) / np.maximum(count.sum(axis=1), 1e-9)
        slope = shape[:, None] / (1 + excess * shape[:, None])
        residual = total - count * (base[:, None] + offset)
        step = (slope * residual).sum(axis=0) / ((count * slope**2).sum(axis=0) + 1e-9)
        excess = np.maximum(excess + step - (excess + step)[0], 0.0)
        if is_free:
            counts, sums = np.asarray(count, np.float64), np.asarray(total, np.float64)
            improved = _improve_shape(shape, excess, count=counts, total=sums)
            shape = np.clip(improved, lowest, highest)

        error = y - (base[:, None] + np.log1p(excess * shape[:, None])).ravel()[cell]
        inside, spread, likelihood = weigh_outliers(error, inside, floor)
        if likelihood - before < CONVERGED:
            break
        before = likelihood

    # Classes that hardly differ in some run although they do in others are not the same classes.
    is_apart = not is_free or bool(np.all((shape > lowest) | (highest == 0)))
    ends = np.cumsum(np.bincount(run, minlength=n_runs))[:-1]
    return FittedCandidate(
        labels=tuple(np.split(label, ends)),
        is_outlier=tuple(np.split(inside < 0.5, ends)),
        spread=spread,
        criterion=n_parameters * float(np.log(len(y))) - 2 * likelihood if is_apart else np.inf,
    )


def weigh_outliers(
    error: FloatArray, inside: FloatArray, floor: float
) -> tuple[FloatArray, float, float]:
    """How probable it is of each value that it is no outlier: one step.

    Args:
        error: distance of each value from its description, (n,).
        inside: the probabilities of the step before, (n,).
        floor: least spread.

    Returns:
        The probabilities (n,), the spread of the others, and the logarithm of the likelihood.
    """
    square = float(inside @ error**2) / max(float(inside.sum()), 1.0)
    spread = float(np.sqrt(max(square, floor**2)))
    normal = np.log((1 - OUTLIER_SHARE) / spread) - HALF_LOG_2PI - (error / spread) ** 2 / 2
    density = np.logaddexp(normal, OUTLIER_DENSITY)
    return np.exp(normal - density), spread, float(density.sum())


def _improve_shape(
    shape: FloatArray, excess: FloatArray, *, count: FloatArray, total: FloatArray
) -> FloatArray:
    """One Gauss-Newton step of the shape of each run, (n_runs,); runs with one class keep theirs.

    Args:
        shape: before, (n_runs,).
        excess: of the classes, (n_classes,).
        count: ranks of each class in each run, (n_runs, n_classes); total: sums of their values.
    """
    offset = np.log1p(excess * shape[:, None])
    slope = excess / (1 + excess * shape[:, None])
    present = np.maximum(count.sum(axis=1, keepdims=True), 1e-9)
    slope = slope - (count * slope).sum(axis=1, keepdims=True) / present
    base = (total - count * offset).sum(axis=1, keepdims=True) / present
    residual = total - count * (base + offset)
    step = (slope * residual).sum(axis=1) / ((count * slope**2).sum(axis=1) + 1e-9)
    improved: FloatArray = shape + step
    return improved
