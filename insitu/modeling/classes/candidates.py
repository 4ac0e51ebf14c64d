"""Classes that ranks form in the domains that programs usually make, weighed by measured times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.classes.domain import Domain, default_domain
from insitu.modeling.measurement import FloatArray, IntArray

OUTLIERS = 0.01  # prior share of ranks that are slow for reasons of their own
OUTLIER_DENSITY = float(np.log(OUTLIERS / 1.2))  # they lie anywhere within a factor of e^1.2
SHAPES: tuple[Callable[[FloatArray], FloatArray], ...] = (  # how classes drift apart with x
    np.ones_like,
    lambda x: np.log2(np.maximum(x, 1.0)),
    lambda x: np.sqrt(np.maximum(x, 0.0)),
)
FITTED = 2  # guesses that are fitted, after all were compared roughly
ROUNDS = 15  # of expectation and maximisation, at most
CONVERGED = 0.02  # of a likelihood, in one round
FAR = 6.0  # standard deviations that one rank counts in a rough comparison, at most

Candidate = list[IntArray]  # per place a code per rank; ranks of equal code are one class


@dataclass(frozen=True, slots=True)
class FittedCandidate:
    """The guess that explains the values best.

    labels: per run the class of each rank (n_ranks,), ascending by value, the same in all runs;
    is_outlier: (n_ranks,) each; spread: relative standard deviation of ranks within their class;
    criterion: Bayesian, as of a mixture.
    """

    labels: tuple[IntArray, ...]
    is_outlier: tuple[BoolArray, ...]
    spread: float
    criterion: float


def find_candidates(sizes: Sequence[int], domains: Sequence[Domain | None]) -> list[Candidate]:
    """Ways in which ranks of runs of these sizes may do different work.

    By their walls in the program's own domain, else in those of one, two and three axes that are as
    near to a cube as MPI_Dims_create finds, the longest side first or last, ranks in the order of
    MPI_Cart_create: how many walls, how many along each axis, any or none; and rank 0 alone.
    """
    known = [one for one in domains if one is not None]
    if known and len(known) == len(domains):
        layouts = [known]
    else:
        ways = [(axes, is_last) for axes in (1, 2, 3) for is_last in (False, True)][1:]
        layouts = [[default_domain(size, *way) for size in sizes] for way in ways]
    found: dict[bytes, Candidate] = {}
    for layout in layouts:
        walls = [np.add(*one.walls()) for one in layout]
        many = [one.sum(axis=1) for one in walls]
        along = [one @ 4 ** np.arange(one.shape[1]) for one in walls]
        for guess in (many, [np.minimum(one, 1) for one in many], along):
            found.setdefault(b"".join(one.tobytes() for one in guess), guess)
    first = [(np.arange(size) > 0).astype(np.intp) for size in sizes]
    found.setdefault(b"".join(one.tobytes() for one in first), first)
    return list(found.values())


def select_candidate(
    logs: Sequence[FloatArray], ways: Sequence[Candidate], *, x: FloatArray, floor: float
) -> FittedCandidate | None:
    """Find the guess that explains the logarithms of the values best; None without any guess.

    Args:
        logs: per run one per rank.
        ways: guesses, per run a code for each of these ranks.
        x: per run the number of ranks, or what else varies.
        floor: least relative spread of ranks.
    """
    y = np.concatenate(logs)
    run = np.repeat(np.arange(len(logs)), [len(one) for one in logs])
    tried: list[tuple[float, int, IntArray]] = []
    for way in ways:
        codes, label = np.unique(np.concatenate(way), return_inverse=True)
        if len(codes) > 1 and len(y):
            tried.append((_rough(y, run, label.ravel(), floor), len(tried), label.ravel()))
    best: FittedCandidate | None = None
    for _, _, label in sorted(tried, key=lambda one: one[:2])[:FITTED]:
        fitted = _fit(y, _by_height(y, run, label), run, x=x, floor=floor)
        if best is None or fitted.criterion < best.criterion:
            best = fitted
    if best is None:
        return None
    price = 2 * float(np.log(len(ways)))
    return FittedCandidate(best.labels, best.is_outlier, best.spread, best.criterion + price)


def shapes_at(x: FloatArray) -> list[FloatArray]:
    """How classes drift apart at the runs `x` (R,): (R,) per shape, about 1 in the middle.

    A shape whose median is 0, as log2 where most runs have one rank, is 1 at its largest.
    """
    found = []
    for shape in SHAPES:
        at = shape(x)
        scale = float(np.median(at)) or float(at.max()) or 1.0
        found.append(at / scale)
    return found


def _rough(y: FloatArray, run: IntArray, label: IntArray, floor: float) -> float:
    """A criterion from the scatter within the classes of each run."""
    cell = run * (int(label.max()) + 1) + label
    number = np.bincount(cell)
    middle = np.bincount(cell, weights=y) / np.maximum(number, 1)
    error = abs(y - middle[cell])
    limit = FAR * max(floor, 1.5 * float(np.median(error)))
    square = float((np.minimum(error, limit) ** 2).mean())
    return float(len(y) * np.log(max(square, floor**2)) + 2 * np.count_nonzero(number))


def _by_height(y: FloatArray, run: IntArray, label: IntArray) -> IntArray:
    """Classes numbered by how far they lie above the mean of their run."""
    above = y - (np.bincount(run, weights=y) / np.maximum(np.bincount(run), 1))[run]
    heights = np.bincount(label, weights=above) / np.bincount(label)
    numbered: IntArray = np.argsort(np.argsort(heights, kind="stable"))[label]
    return numbered


def _fit(
    y: FloatArray, label: IntArray, run: IntArray, *, x: FloatArray, floor: float
) -> FittedCandidate:
    """Fit a law `base of the run + log(1 + excess of the class · shape(x))`, robustly."""
    runs, classes = len(x), int(label.max()) + 1
    best: FittedCandidate | None = None
    for shape in shapes_at(x):
        cell = run * classes + label
        excess, inside, before = np.zeros(classes), np.ones(len(y)), -np.inf
        for _ in range(ROUNDS):
            count = np.bincount(cell, inside, runs * classes).reshape(runs, classes)
            total = np.bincount(cell, inside * y, runs * classes).reshape(runs, classes)
            offset = np.log1p(excess * shape[:, None])
            base = (total - count * offset).sum(axis=1) / np.maximum(count.sum(axis=1), 1e-9)
            slope = shape[:, None] / (1 + excess * shape[:, None])
            residual = total - count * (base[:, None] + offset)
            step = (slope * residual).sum(axis=0) / ((count * slope**2).sum(axis=0) + 1e-9)
            excess = np.maximum(excess + step - (excess + step)[0], 0.0)
            error = y - (base[:, None] + np.log1p(excess * shape[:, None])).ravel()[cell]
            square = float(inside @ error**2) / max(float(inside.sum()), 1.0)
            spread = float(np.sqrt(max(square, floor**2)))
            density = np.log((1 - OUTLIERS) / spread) - 0.919 - (error / spread) ** 2 / 2
            each = np.logaddexp(density, OUTLIER_DENSITY)
            inside, likelihood = np.exp(density - each), float(each.sum())
            if likelihood - before < CONVERGED:
                break
            before = likelihood
        criterion = classes * float(np.log(len(y))) - 2 * likelihood
        if best is None or criterion < best.criterion:
            cuts = np.cumsum(np.bincount(run, minlength=runs))[:-1]
            labels, strange = np.split(label, cuts), np.split(inside < 0.5, cuts)
            best = FittedCandidate(tuple(labels), tuple(strange), spread, criterion)
    assert best is not None  # there are shapes
    return best
