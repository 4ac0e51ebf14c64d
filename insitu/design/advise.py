"""The next configuration: where one more run tells most per core-hour about what is asked.

Each call path has many laws that its runs so far do not rule out. They are sampled: hypotheses over
the products of powers that its dependencies allow, each as probable as the Bayesian information
criterion says, with coefficients drawn from their posterior. A run at a configuration would lower
the variance at the target by

    cov(f(x), f(target))^2 / (var f(x) + noise^2)

summed over call paths, as for jointly normal values; the best run has the most of that per
cost^0.7. Runs that differ in everything come first, for without them nothing is known.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from insitu.design.dependencies import Dependency, Nest
from insitu.design.factorial import Cost, Levels, Point
from insitu.errors import UsageError
from insitu.measurement import FloatArray

SAMPLES = 200  # laws of each call path
HYPOTHESES = 60  # the most probable, of which laws are drawn
COST_POWER = 0.7
NOISE = 0.02  # relative, of one run
LEAST_NOISE = 0.005
DISCREPANCY = 0.03  # relative, of real times from any simple law
FIRST_RUNS = 5
# How probable a power is before anything was measured; the simple ones are more so.
POWERS: Mapping[Fraction, float] = {
    Fraction(text): weight
    for text, weight in (
        *(("1", 0.3), ("2", 0.1), ("1/2", 0.1), ("-1", 0.1), ("0", 0.1), ("3/2", 0.06)),
        *(("3", 0.05), ("-1/2", 0.05), ("2/3", 0.05), ("1/3", 0.05), ("-1/3", 0.04)),
    )
}
LOGARITHMS: Mapping[int, float] = {0: 0.8, 1: 0.2}
SIMPLE_POWERS = tuple(map(Fraction, ("1/2", "1", "2", "-1", "0")))
REFUTED = 0.01  # probability of data under the forms of counts, below which these do not hold
FREELY_COMBINED = 2  # parameters that multiply with any powers; more with simple ones
CANDIDATES_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class Law:
    """Laws of one call path that its runs allow.

    terms: of each sample, up to two, as indices into `features`; coefficients: (SAMPLES, 3), the
    constant first.
    """

    features: "tuple[Feature, ...]"
    terms: tuple[tuple[int, ...], ...]
    coefficients: FloatArray

    def at(self, points: FloatArray) -> FloatArray:
        """Values of all samples: (SAMPLES, n_points)."""
        columns = [feature.of(points) for feature in self.features]
        found = np.repeat(self.coefficients[:, :1], len(points), axis=1)
        for i, terms in enumerate(self.terms):
            for k, term in enumerate(terms, start=1):
                found[i] += self.coefficients[i, k] * columns[term]
        return found


class Possible(Protocol):
    """Laws that a call path may follow, by their samples."""

    def at(self, points: FloatArray) -> FloatArray:
        """Values of all samples: (SAMPLES, n_points)."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The same laws after a run at a point (1, n_parameters), whatever it will measure.

    For jointly normal values a run at x leaves of the covariance of a and b

        cov(a, b) - cov(a, x) cov(b, x) / (var x + noise^2)

    and the samples are changed to have that, by Potter's square root; their means stay.
    """

    law: Possible
    point: FloatArray
    noise: float = NOISE

    def at(self, points: FloatArray) -> FloatArray:
        """Values of all samples: (SAMPLES, n_points)."""
        here, values = self.law.at(self.point)[:, 0], self.law.at(points)
        mean = here.mean()
        here = here - mean
        own = float(here @ here)
        noise = len(here) * (max(self.noise, LEAST_NOISE) * mean) ** 2
        left = math.sqrt(noise / max(own + noise, 1e-300))
        weight = (1.0 - left) / max(own, 1e-300)
        along = here @ (values - values.mean(axis=0))
        changed: FloatArray = values - weight * np.outer(here, along)
        return changed


@dataclass(frozen=True, slots=True)
class Feature:
    """A product over parameters of x^power * log2(x)^logarithm, by the parameter's column."""

    factors: tuple[tuple[int, float, int], ...]

    def of(self, points: FloatArray) -> FloatArray:
        """Values at points of shape (n_points, n_parameters): (n_points,)."""
        values = np.ones(len(points))
        for column, power, logarithm in self.factors:
            x = points[:, column]
            values = values * x**power * (np.log2(np.maximum(x, 2.0)) ** logarithm)
        return values


def first_runs(levels: Levels, count: int = FIRST_RUNS) -> list[Point]:
    """Runs that differ in everything, uncorrelated as far as that goes: a Latin square's rows.

    The i-th run takes level i of the first parameter and level i * k modulo the count of the k-th,
    k = 1, 2, …: for a prime number of levels every pair of columns has each level once.
    """
    found = []
    for i in range(count):
        values = {}
        for k, (name, of) in enumerate(levels.items(), start=1):
            ordered = sorted(of)
            at = (i * k) % count
            values[name] = ordered[round(at * (len(ordered) - 1) / max(count - 1, 1))]
        found.append(Point.of(values, levels))
    return list(dict.fromkeys(found))


def laws_of(
    points: FloatArray,
    values: FloatArray,
    names: Sequence[str],
    dependency: Dependency,
    *,
    seed: int,
    noise: float = NOISE,
) -> Law:
    """Sample laws that a call path may follow.

    Args:
        points: (n_points, n_parameters) of its runs.
        values: (n_points,), positive.
        names: of the parameters, in the order of the columns.
        dependency: what it depends on; forms that are known are taken as they are.
        seed: of the random numbers; the same seed gives the same laws.
        noise: of a run, relative, at least; more where no law comes that near.
    """
    noise = math.hypot(noise, DISCREPANCY)
    scale = np.maximum(values, 1e-300)
    for nests in (dependency.nests, tuple(Nest.of(nest.parameters) for nest in dependency.nests)):
        features, prior = _features(nests, list(names))
        rows = [np.ones(len(points)), *(feature.of(points) for feature in features)]
        matrix = np.stack(rows) / scale
        size = np.linalg.norm(matrix, axis=1)
        best = _most_probable(matrix / size[:, None], prior, noise)
        if best.probability >= REFUTED:
            break
    weights = np.exp(-0.5 * (best.criterion - best.criterion[0]))
    random = np.random.default_rng(seed)
    picked = random.choice(len(weights), SAMPLES, p=weights / weights.sum())
    coefficients = np.zeros((SAMPLES, 3))
    for i, which in enumerate(picked):
        terms = best.terms[which]
        root = _root((matrix[terms] / size[terms, None]).T, best.variance[which])
        drawn = best.solution[which][: len(terms)] + root @ random.standard_normal(len(terms))
        coefficients[i, : len(terms)] = np.maximum(drawn, 0.0) / size[terms]
    terms_of = tuple(tuple(int(t) - 1 for t in best.terms[which][1:]) for which in picked)
    return Law(features, terms_of, coefficients)


def uncertainty(laws: Sequence[Possible], target: FloatArray) -> float:
    """Relative standard deviation of the sum of all call paths, mean over (n, n_parameters)."""
    total = sum(law.at(target) for law in laws)
    return float(np.mean(np.std(total, axis=0) / np.maximum(np.mean(total, axis=0), 1e-300)))


def next_point(
    laws: Sequence[Possible],
    candidates: Sequence[Point],
    target: FloatArray,
    cost: Cost,
    noise: float = NOISE,
) -> Point:
    """The candidate whose run lowers the variance at the target most, per cost^0.7.

    Args:
        laws: of all call paths.
        candidates: configurations that may be run.
        target: (n, n_parameters), what is to be predicted.
        cost: of a run.
        noise: of a run, relative.

    Raises:
        UsageError: there is no candidate.
    """
    if not candidates:
        raise UsageError("no configuration is left to run; give more levels")
    gain = gains(laws, candidates, target, noise).sum(axis=0)
    prices = np.array([cost(point) for point in candidates])
    return candidates[int(np.argmax(gain / prices**COST_POWER))]


def gains(
    laws: Sequence[Possible],
    candidates: Sequence[Point],
    target: FloatArray,
    noise: float = NOISE,
) -> FloatArray:
    """By how much a run at each candidate lowers the variance of each law at the target.

    Returns:
        (n_laws, n_candidates), in the square of the unit of the values.
    """
    at = np.array([[value for _, value in point.values] for point in candidates])
    found = np.zeros((len(laws), len(candidates)))
    for row, law in zip(found, laws, strict=True):
        here, there = law.at(at), law.at(target)
        here_c, there_c = here - here.mean(axis=0), there - there.mean(axis=0)
        covariance = here_c.T @ there_c / len(here)
        spread = here.var(axis=0) + (max(noise, LEAST_NOISE) * here.mean(axis=0)) ** 2
        row[:] = (covariance**2).sum(axis=1) / np.maximum(spread, 1e-300)
    return found


def candidates_of(levels: Levels, taken: Sequence[Point]) -> list[Point]:
    """All configurations that were not run yet.

    Raises:
        UsageError: there are too many.
    """
    count = int(np.prod([len(of) for of in levels.values()]))
    if count > CANDIDATES_LIMIT:
        raise UsageError(f"{count} candidates are too many; give fewer levels")
    found = (Point(tuple(zip(levels, at, strict=True))) for at in product(*levels.values()))
    return [point for point in found if point not in set(taken)]


def _features(nests: Sequence[Nest], names: list[str]) -> tuple[tuple[Feature, ...], FloatArray]:
    """The terms that a call path may have, and the weights of the constant and of each of them."""
    found: dict[Feature, float] = {}
    for nest in nests:
        unknown = sum(power is None for _, power in nest.factors)
        powers = POWERS if unknown <= FREELY_COMBINED else SIMPLE_POWERS
        choices = []
        for name, power in nest.factors:
            column = names.index(name)
            if power is not None:
                choices.append([((column, float(power), 0), 1.0)])
                continue
            choices.append(
                [
                    ((column, float(p), k), POWERS[p] * weight)
                    for p in powers
                    for k, weight in LOGARITHMS.items()
                    if unknown <= FREELY_COMBINED or k == 0
                ]
            )
        for factors in product(*choices):
            kept = tuple(one for one, _ in factors if one[1] or one[2])
            if kept:
                found.setdefault(Feature(kept), float(np.prod([w for _, w in factors])))
    return tuple(found), np.array([1.0, *found.values()])


@dataclass(frozen=True, slots=True)
class _Fits:
    """Hypotheses, the most probable first: criterion, rows of their terms, coefficients, noise."""

    criterion: FloatArray
    terms: list[NDArray[np.intp]]
    solution: list[FloatArray]
    variance: FloatArray
    probability: float  # of a misfit as large as that of the nearest


def _most_probable(rows: FloatArray, weights: FloatArray, noise: float) -> _Fits:
    """Fit the constant with no, each and each two of the other rows to ones, all at once.

    Least squares of relative errors by normal equations of unit rows; hypotheses with a negative
    coefficient are left out. The criterion is chi-square with log(runs) per coefficient, and the
    prior: one, two and three coefficients as probable as each other, times the terms' own. Where
    even the best is farther off than the noise, the noise is taken for that much larger.
    """
    count = rows.shape[1]
    gram, right = rows @ rows.T, rows @ np.ones(count)
    others = np.arange(1, len(rows))
    groups = [np.zeros((1, 1), dtype=np.intp)]
    if count > 2 and len(others):
        groups.append(np.stack([np.zeros_like(others), others], axis=1))
    if count > 3 and len(others) > 1:
        one, other = np.triu_indices(len(others), 1)
        groups.append(np.stack([np.zeros_like(one), one + 1, other + 1], axis=1))
    squares, prior, terms, solutions, freedom = [], [], [], [], []
    for group in groups:
        wanted = group.shape[1]
        matrices = gram[group[:, :, None], group[:, None, :]] + 1e-12 * np.eye(wanted)
        solved = np.linalg.solve(matrices, right[group][..., None])[..., 0]
        misfit = np.maximum(count - np.einsum("ij,ij->i", solved, right[group]), 0.0)
        possible = np.flatnonzero(np.all(solved >= 0, axis=1))
        chosen = possible[np.argsort(misfit[possible], kind="stable")[:HYPOTHESES]]
        squares += list(misfit[chosen])
        own = 2 * np.log(weights[group[chosen]]).sum(axis=1)
        prior += list(wanted * np.log(count) - own)
        freedom += [max(count - wanted, 1)] * len(chosen)
        terms += list(group[chosen])
        solutions += list(solved[chosen])
    variances = np.array(squares) / np.array(freedom)
    nearest = int(np.argmin(variances))
    variance = max(float(variances[nearest]), noise**2)
    probability = float(stats.chi2.sf(squares[nearest] / noise**2, freedom[nearest]))
    criterion = np.array(squares) / variance + np.array(prior)
    order = np.argsort(criterion, kind="stable")[:HYPOTHESES]
    return _Fits(
        criterion[order],
        [terms[i] for i in order],
        [solutions[i] for i in order],
        np.maximum(variances[order], variance),
        probability,
    )


def _root(matrix: FloatArray, variance: float) -> FloatArray:
    """The root of the covariance of the coefficients."""
    covariance = np.linalg.pinv(matrix.T @ matrix) * variance
    values, vectors = np.linalg.eigh(covariance)
    found: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
    return found
