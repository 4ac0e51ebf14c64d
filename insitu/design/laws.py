"""Laws that a call path may follow, by the runs so far: sampled from their posterior.

Hypotheses are the constant with up to two products of powers that the call path's dependencies
allow, each as probable as the Bayesian information criterion says. Real times leave such laws
slowly, as caches fill and waits grow: each parameter may tilt a law by a small power,

    (c0 + c1 t1(x) + c2 t2(x)) -> c0 + (c1 t1(x) + c2 t2(x)) (x / x_mean)^d,   d ~ N(0, tilt^2),

and how much the laws of a program tilt is learnt from all its call paths together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from insitu.design.dependencies import Dependency, Nest
from insitu.modeling.measurement import FloatArray

SAMPLES = 200  # laws of each call path
HYPOTHESES = 60  # the most probable, of which laws are drawn
NOISE = 0.02  # relative, of one run
DISCREPANCY = 0.01  # relative, of real times from any simple law
# How probable a power is before anything was measured; the simple ones are more so.
POWERS: Mapping[Fraction, float] = {
    Fraction(text): weight
    for text, weight in (
        *(("1", 0.3), ("2", 0.1), ("1/2", 0.1), ("-1", 0.1), ("0", 0.1), ("3/2", 0.06)),
        *(("3", 0.05), ("-1/2", 0.05), ("2/3", 0.05), ("1/3", 0.05), ("-1/3", 0.04)),
    )
}
LOGARITHMS: Mapping[int, float] = {0: 0.8, 1: 0.2}  # the same of powers of a logarithm
SIMPLE_POWERS = tuple(map(Fraction, ("1/2", "1", "2", "-1", "0")))
TILTS = (0.0, 0.02, 0.05, 0.1)  # standard deviations of the powers by which laws tilt
MORE_TERMS = 0.05  # how probable a term more is than the call path has nests
SMALLEST = 1e-6  # of parameters, and of values relative to the greatest: laws have no zeros
REFUTED = 0.01  # probability of data under the forms of counts, below which these do not hold
FREELY_COMBINED = 2  # parameters that multiply with any powers; more with simple ones


@dataclass(frozen=True, slots=True)
class Law:
    """Laws of one call path that its runs allow.

    terms: of each sample, up to two, as indices into `features`; coefficients: (SAMPLES, 3), the
    constant first; tilts: (SAMPLES, n_parameters), powers by which the terms leave the law; centre:
    logarithms of the parameters where they do not.
    """

    features: "tuple[Feature, ...]"
    terms: tuple[tuple[int, ...], ...]
    coefficients: FloatArray
    tilts: FloatArray
    centre: FloatArray

    def at(self, points: FloatArray) -> FloatArray:
        """Values of all samples: (SAMPLES, n_points)."""
        columns = [feature.of(points) for feature in self.features]
        found = np.zeros((len(self.coefficients), len(points)))
        for i, terms in enumerate(self.terms):
            for k, term in enumerate(terms, start=1):
                found[i] += self.coefficients[i, k] * columns[term]
        found *= np.exp(self.tilts @ (_logarithms(points) - self.centre).T)
        return found + self.coefficients[:, :1]


@dataclass(frozen=True, slots=True)
class Feature:
    """A product over parameters of x^power * log2(x)^logarithm, by the parameter's column."""

    factors: tuple[tuple[int, float, int], ...]

    def of(self, points: FloatArray) -> FloatArray:
        """Values at points of shape (n_points, n_parameters): (n_points,)."""
        values = np.ones(len(points))
        for column, power, logarithm in self.factors:
            x = np.maximum(points[:, column], SMALLEST)
            values = values * x**power * (np.log2(np.maximum(x, 2.0)) ** logarithm)
        return values


def sample_laws(
    points: FloatArray,
    values: FloatArray,
    names: Sequence[str],
    dependencies: Sequence[Dependency],
    *,
    noise: float = NOISE,
) -> list[Law]:
    """Sample laws that call paths may follow.

    Args:
        points: (n_points, n_parameters) of their runs.
        values: (n_callpaths, n_points), positive.
        names: of the parameters, in the order of the columns.
        dependencies: of each call path; forms that are known are taken as they are.
        noise: of a run, relative, at least; more where no law comes that near.
    """
    if not len(dependencies):
        return []
    centre = _logarithms(points).mean(axis=0)
    found = [
        _possible(points, row, list(names), dependency, centre=centre, noise=noise)
        for row, dependency in zip(values, dependencies, strict=True)
    ]
    evidence = sum(_log_sum(one.weights) for one in found)  # of each tilt, over all call paths
    chosen = np.exp(evidence - np.max(evidence))
    chosen /= chosen.sum()
    return [_sampled(one, chosen, centre, seed) for seed, one in enumerate(found)]


@dataclass(frozen=True, slots=True)
class _Hypotheses:
    """What a call path may follow, H hypotheses of T terms and the constant, over N points.

    features: of which terms are made; terms: of each hypothesis, the constant first; designs:
    (H, N, T + 1), terms over values, 0 where there are fewer; slopes: (H, N, n_parameters), what a
    tilt of 1 would change; variance: of the noise; solutions, roots: of the coefficients, mean and
    root of the covariance, (n_tilts, H, T + 1) and (n_tilts, H, T + 1, T + 1); weights:
    (n_tilts, H), logarithms of probabilities.
    """

    features: "tuple[Feature, ...]"
    terms: list[NDArray[np.intp]]
    designs: FloatArray
    slopes: FloatArray
    variance: float
    solutions: FloatArray
    roots: FloatArray
    weights: FloatArray


def _possible(
    points: FloatArray,
    values: FloatArray,
    names: list[str],
    dependency: Dependency,
    *,
    centre: FloatArray,
    noise: float,
) -> _Hypotheses:
    """The hypotheses of one call path, with their probabilities under each tilt."""
    scale = np.maximum(values, SMALLEST * np.max(values, initial=0.0) or 1.0)
    own = [name in dependency.parameters for name in names]
    logarithms = (_logarithms(points) - centre) * own
    free = tuple(Nest.of(nest.parameters) for nest in dependency.nests)
    for nests in dict.fromkeys((dependency.nests, free)):
        features, prior = _features(nests, names)
        rows = [np.ones(len(points)), *(feature.of(points) for feature in features)]
        matrix = np.stack(rows) / scale
        size = np.linalg.norm(matrix, axis=1)
        best = _most_probable(
            matrix / size[:, None], prior, math.hypot(noise, DISCREPANCY), len(nests)
        )
        designs = np.zeros((len(best.terms), len(points), 3))
        slopes = np.zeros((len(best.terms), len(points), len(names)))
        for i, (terms, solution) in enumerate(zip(best.terms, best.solution, strict=True)):
            designs[i, :, : len(terms)] = matrix[terms].T
            slopes[i] = (solution[1:] / size[terms[1:]] @ matrix[terms[1:]])[:, None] * logarithms
        found = _tilted(features, best, designs, slopes, math.hypot(noise, DISCREPANCY) ** 2)
        if best.probability >= REFUTED:
            break
    return found


def _tilted(
    features: "tuple[Feature, ...]",
    best: "_Fits",
    designs: FloatArray,
    slopes: FloatArray,
    variance: float,
    *,
    is_raised: bool = False,
) -> _Hypotheses:
    """Coefficients and probabilities of hypotheses whose tilts are unknown but for their size.

    The values are then normal with covariance variance * 1 + tilt^2 * slopes slopes^T. Where even
    the nearest is farther off, the variance is taken for that much larger.
    """
    square = np.array(TILTS)[:, None, None, None] ** 2
    outer = slopes @ np.swapaxes(slopes, 1, 2)
    covariance = variance * np.eye(designs.shape[1]) + square * outer
    precision = np.linalg.inv(covariance)
    size = np.maximum(np.linalg.norm(designs, axis=1), 1e-300)
    unit = designs / size[:, None, :]
    turned = np.swapaxes(unit, 1, 2) @ precision
    own = np.linalg.pinv(turned @ unit, hermitian=True)
    solutions = (own @ turned.sum(axis=3)[..., None])[..., 0]
    misfits = 1.0 - (unit @ solutions[..., None])[..., 0]
    squares = np.einsum("thi,thij,thj->th", misfits, precision, misfits)
    freedom = [max(designs.shape[1] - len(terms), 1) for terms in best.terms]
    excess = float(np.min(squares / freedom))
    if excess > 1.0 and not is_raised:
        return _tilted(features, best, designs, slopes, variance * excess, is_raised=True)
    blank = np.where(size == 1e-300, 1.0, SMALLEST)[:, :, None] * np.eye(3)  # none, or no other
    known = np.linalg.slogdet((turned @ unit) * variance + blank)[1]
    determinants = np.linalg.slogdet(covariance / variance)[1] + known - known[:1]
    values, vectors = np.linalg.eigh(own)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :] / size[..., None]
    weights = -0.5 * (squares + determinants + np.array(best.prior))
    return _Hypotheses(
        features, best.terms, designs, slopes, variance, solutions / size, roots, weights
    )


def _sampled(found: _Hypotheses, chosen: FloatArray, centre: FloatArray, seed: int) -> Law:
    """Draw a tilt, a hypothesis under it, its coefficients, and how much each parameter tilts."""
    random = np.random.default_rng(seed)
    coefficients = np.zeros((SAMPLES, 3))
    tilts = np.zeros((SAMPLES, len(centre)))
    terms_of = []
    for i, at in enumerate(random.choice(len(TILTS), SAMPLES, p=chosen)):
        weights = np.exp(found.weights[at] - found.weights[at].max())
        which = int(random.choice(len(weights), p=weights / weights.sum()))
        drawn = found.solutions[at, which] + found.roots[at, which] @ random.standard_normal(3)
        coefficients[i] = np.maximum(drawn, 0.0)
        terms_of.append(tuple(int(term) - 1 for term in found.terms[which][1:]))
        if TILTS[at]:
            slopes = found.slopes[which]
            normal = slopes.T @ slopes / found.variance + np.eye(len(centre)) / TILTS[at] ** 2
            own = np.linalg.inv(normal)
            left = 1.0 - found.designs[which] @ drawn
            mean = own @ slopes.T @ left / found.variance
            tilts[i] = mean + np.linalg.cholesky(own) @ random.standard_normal(len(centre))
    return Law(found.features, tuple(terms_of), coefficients, tilts, centre)


def _logarithms(points: FloatArray) -> FloatArray:
    found: FloatArray = np.log(np.maximum(points, SMALLEST))
    return found


def _log_sum(weights: FloatArray) -> FloatArray:
    """Logarithms of the sums of exponentials of the rows."""
    most = weights.max(axis=1)
    found: FloatArray = most + np.log(np.exp(weights - most[:, None]).sum(axis=1))
    return found


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
    """Hypotheses, the most probable first: rows of their terms, coefficients, prior, noise."""

    terms: list[NDArray[np.intp]]
    solution: list[FloatArray]
    prior: list[float]
    variance: float
    probability: float  # of a misfit as large as that of the nearest


def _most_probable(rows: FloatArray, weights: FloatArray, noise: float, nests: int) -> _Fits:
    """Fit the constant with no, each and each two of the other rows to ones, all at once.

    Least squares of relative errors by normal equations of unit rows; hypotheses with a negative
    coefficient are left out. The criterion is chi-square with log(runs) per coefficient, and the
    prior: one, two and three coefficients as probable as each other, times the terms' own. Where
    even the best is farther off than the noise, the noise is taken for that much larger.
    """
    from scipy.special import chdtrc  # slow to load, and not needed to gather a run

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
        more = max(wanted - 1 - nests, 0)  # terms than there are nests
        prior += list(wanted * np.log(count) - own - 2 * more * math.log(MORE_TERMS))
        freedom += [max(count - wanted, 1)] * len(chosen)
        terms += list(group[chosen])
        solutions += list(solved[chosen])
    variances = np.array(squares) / np.array(freedom)
    nearest = int(np.argmin(variances))
    variance = max(float(variances[nearest]), noise**2)
    probability = float(chdtrc(freedom[nearest], squares[nearest] / noise**2))
    criterion = np.array(squares) / variance + np.array(prior)
    order = np.argsort(criterion, kind="stable")[:HYPOTHESES]
    return _Fits(
        [terms[i] for i in order],
        [solutions[i] for i in order],
        [float(prior[i]) for i in order],
        variance,
        probability,
    )
