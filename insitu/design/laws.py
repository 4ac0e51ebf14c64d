"""Scaling laws that a call path may follow, sampled from their posterior given the runs so far.

A hypothesis is a constant plus up to two products of powers that the dependencies of the call path
allow. Its probability follows from the Bayesian information criterion. Real times depart slowly
from such laws, for example as caches fill, so each parameter may tilt a law by a small power,

    (c0 + c1 t1(x) + c2 t2(x)) -> c0 + (c1 t1(x) + c2 t2(x)) (x / x_mean)^d,   d ~ N(0, tilt^2),

and the size of the tilts of a program is estimated from all its call paths together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from insitu.design.contenders import select_contenders
from insitu.design.dependencies import Dependency, Nest
from insitu.modeling.measurement import FloatArray
from insitu.modeling.orthogonal import solve_orthogonally

SAMPLES = 200  # laws drawn for each call path
HYPOTHESES = 60  # the most probable ones, from which laws are drawn
NOISE = 0.02  # relative, of one run
DISCREPANCY = 0.01  # relative, of real times from any simple law

# Prior weight of each power: simple powers are more probable.
POWERS: Mapping[Fraction, float] = {
    Fraction(1): 0.3,
    Fraction(2): 0.1,
    Fraction(1, 2): 0.1,
    Fraction(-1): 0.1,
    Fraction(0): 0.1,
    Fraction(3, 2): 0.06,
    Fraction(3): 0.05,
    Fraction(-1, 2): 0.05,
    Fraction(2, 3): 0.05,
    Fraction(1, 3): 0.05,
    Fraction(-1, 3): 0.04,
}
LOGARITHMS: Mapping[int, float] = {0: 0.8, 1: 0.2}  # prior weights of the powers of a logarithm
SIMPLE_POWERS = tuple(map(Fraction, ("1/2", "1", "2", "-1", "0")))
TILTS = (0.0, 0.02, 0.05, 0.1)  # standard deviations of the powers by which laws tilt
MORE_TERMS = 0.05  # prior weight of each term beyond the number of nests
SMALLEST = 1e-6  # lower bound of parameters, and of values relative to the largest: avoids zeros
REFUTED = 0.01  # the exponents from counts are dropped if the data are less probable than this
FREELY_COMBINED = 2  # up to so many unknown exponents take all powers; more take simple ones only
TERMS_LIMIT = 3  # columns of a design matrix: the constant and two terms
RIDGE = 1e-12  # added to the diagonal of unit normal equations, so that equal columns can be solved
CUTOFF = 1e-10  # relative, of eigenvalues of unit normal equations; rounding makes 1e-16 of a zero
ROUNDING = 1e-7  # coefficients of unit rows this far below 0 are 0: eps / sqrt(RIDGE), times 1,000
TIE_DECIMALS = 6  # criteria that agree in as many decimals are ties, however rounding orders them
CHUNK = 20_000  # hypotheses that are solved at once; bounds the memory
TINY = 1e-300  # keeps divisions finite; far below any measured value


@dataclass(frozen=True, slots=True)
class Law:
    """Samples of the laws of one call path.

    Attributes:
        features: products of powers from which terms are made.
        terms: of each sample, up to two indices into `features`.
        coefficients: (SAMPLES, 3), the constant first.
        tilts: (SAMPLES, n_parameters), powers by which the terms depart from the law.
        centre: (n_parameters,), logarithms of the parameters at which the tilt has no effect.
    """

    features: "tuple[Feature, ...]"
    terms: tuple[tuple[int, ...], ...]
    coefficients: FloatArray
    tilts: FloatArray
    centre: FloatArray

    def at(self, points: FloatArray) -> FloatArray:
        """Return the value of every sample at `points`: (SAMPLES, n_points)."""
        used = {term for terms in self.terms for term in terms}
        columns = {term: self.features[term].of(points) for term in used}

        values = np.zeros((len(self.coefficients), len(points)))
        for i, terms in enumerate(self.terms):
            for k, term in enumerate(terms, start=1):
                values[i] += self.coefficients[i, k] * columns[term]

        values *= np.exp(self.tilts @ (_logarithms(points) - self.centre).T)
        return values + self.coefficients[:, :1]


@dataclass(frozen=True, slots=True)
class Feature:
    """A product of factors x^power * log2(x)^logarithm.

    factors: (column of the parameter, power, logarithm) of each factor.
    """

    factors: tuple[tuple[int, float, int], ...]

    def of(self, points: FloatArray) -> FloatArray:
        """Return the values (n_points,) at points (n_points, n_parameters)."""
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
    """Sample the laws that each call path may follow.

    The result is deterministic: call path i uses seed i.

    Args:
        points: (n_points, n_parameters), the configurations of the runs.
        values: (n_callpaths, n_points), positive.
        names: the parameters, in the order of the columns.
        dependencies: of each call path; known exponents are used as they are.
        noise: relative noise of a run. It is raised where no law fits that closely.
    """
    if not len(dependencies):
        return []

    centre = _logarithms(points).mean(axis=0)
    hypotheses = [
        _fit_hypotheses(points, row, list(names), dependency, centre=centre, noise=noise)
        for row, dependency in zip(values, dependencies, strict=True)
    ]

    # All call paths together decide how probable each tilt is.
    evidence = sum(_log_sum(of_callpath.weights) for of_callpath in hypotheses)
    tilt_weights = np.exp(evidence - np.max(evidence))
    tilt_weights /= tilt_weights.sum()

    return [
        _draw(of_callpath, tilt_weights, centre, seed)
        for seed, of_callpath in enumerate(hypotheses)
    ]


@dataclass(frozen=True, slots=True)
class _LawHypotheses:
    """H hypotheses of a call path, of up to two terms and the constant, over N points.

    Attributes:
        features: from which terms are made.
        terms: of each hypothesis, 0 for the constant first, then 1 + index into `features`.
        designs: (H, N, 3), terms divided by values; 0 in unused columns.
        slopes: (H, N, n_parameters), the change that a tilt of 1 would make.
        variance: of the noise.
        solutions: (n_tilts, H, 3), posterior mean of the coefficients.
        roots: (n_tilts, H, 3, 3), square root of their covariance.
        weights: (n_tilts, H), log probabilities.
    """

    features: "tuple[Feature, ...]"
    terms: list[NDArray[np.intp]]
    designs: FloatArray
    slopes: FloatArray
    variance: float
    solutions: FloatArray
    roots: FloatArray
    weights: FloatArray


def _fit_hypotheses(
    points: FloatArray,
    values: FloatArray,
    names: list[str],
    dependency: Dependency,
    *,
    centre: FloatArray,
    noise: float,
) -> _LawHypotheses:
    """Fit the hypotheses of one call path and return their probabilities under each tilt."""
    scale = np.maximum(values, SMALLEST * np.max(values, initial=0.0) or 1.0)
    is_own = [name in dependency.parameters for name in names]
    logarithms = (_logarithms(points) - centre) * is_own
    total_noise = math.hypot(noise, DISCREPANCY)

    # Try the exponents from counts first. If the data refute them, leave the exponents free.
    free_nests = tuple(Nest.of(nest.parameters) for nest in dependency.nests)

    for nests in dict.fromkeys((dependency.nests, free_nests)):
        features, prior_weights = _list_features(nests, names)
        rows = [np.ones(len(points)), *(feature.of(points) for feature in features)]
        matrix = np.stack(rows) / scale
        norms = np.linalg.norm(matrix, axis=1)
        best = _rank_hypotheses(matrix / norms[:, None], prior_weights, total_noise, len(nests))

        designs = np.zeros((len(best.terms), len(points), TERMS_LIMIT))
        slopes = np.zeros((len(best.terms), len(points), len(names)))
        for i, (terms, solution) in enumerate(zip(best.terms, best.solutions, strict=True)):
            designs[i, :, : len(terms)] = matrix[terms].T
            variable = solution[1:] / norms[terms[1:]] @ matrix[terms[1:]]
            slopes[i] = variable[:, None] * logarithms

        hypotheses = _fit_tilted(features, best, designs, slopes, total_noise**2)
        if best.probability >= REFUTED:
            break

    return hypotheses


def _fit_tilted(
    features: "tuple[Feature, ...]",
    best: "_RankedHypotheses",
    designs: FloatArray,
    slopes: FloatArray,
    variance: float,
    *,
    is_raised: bool = False,
) -> _LawHypotheses:
    """Fit coefficients where the tilts are unknown except for their standard deviation.

    The values are then normal with covariance variance * 1 + tilt^2 * slopes slopes^T. If even
    the closest hypothesis misfits by more, the variance is raised by that factor, once.
    """
    squared_tilts = np.array(TILTS)[:, None, None, None] ** 2
    outer = slopes @ np.swapaxes(slopes, 1, 2)
    covariance = variance * np.eye(designs.shape[1]) + squared_tilts * outer
    precision = np.linalg.inv(covariance)

    # Generalised least squares with unit columns; unused columns stay 0, hence the pseudo-inverse.
    norms = np.maximum(np.linalg.norm(designs, axis=1), TINY)
    unit = designs / norms[:, None, :]
    weighted = np.swapaxes(unit, 1, 2) @ precision
    normal = weighted @ unit
    coefficient_covariance = np.linalg.pinv(normal, rcond=CUTOFF, hermitian=True)
    solutions = (coefficient_covariance @ weighted.sum(axis=3)[..., None])[..., 0]

    misfits = 1.0 - (unit @ solutions[..., None])[..., 0]
    squares = np.einsum("thi,thij,thj->th", misfits, precision, misfits)
    freedom = [max(designs.shape[1] - len(terms), 1) for terms in best.terms]
    excess = float(np.min(squares / freedom))
    if excess > 1.0 and not is_raised:
        return _fit_tilted(features, best, designs, slopes, variance * excess, is_raised=True)

    # Unused columns get a unit diagonal, so that they do not contribute to the determinant.
    is_unused = norms == TINY
    filler = np.where(is_unused, 1.0, SMALLEST)[:, :, None] * np.eye(TERMS_LIMIT)
    normal_determinant = np.linalg.slogdet(normal * variance + filler)[1]
    covariance_determinant = np.linalg.slogdet(covariance / variance)[1]
    determinants = covariance_determinant + normal_determinant - normal_determinant[:1]

    roots = _symmetric_root(coefficient_covariance) / norms[..., None]
    weights = -0.5 * (squares + determinants + np.array(best.penalties))

    return _LawHypotheses(
        features=features,
        terms=best.terms,
        designs=designs,
        slopes=slopes,
        variance=variance,
        solutions=solutions / norms,
        roots=roots,
        weights=weights,
    )


def _symmetric_root(covariance: FloatArray) -> FloatArray:
    """Return the symmetric square root of covariances (..., n, n).

    It is the only root that does not depend on the signs and rotations of eigenvectors, which
    differ between processors. Samples that are drawn with it are the same everywhere.
    """
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    scaled = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))[..., None, :]
    root: FloatArray = scaled @ np.swapaxes(eigenvectors, -1, -2)
    return root


def _draw(
    hypotheses: _LawHypotheses, tilt_weights: FloatArray, centre: FloatArray, seed: int
) -> Law:
    """Draw for each sample: a size of tilts, a hypothesis, its coefficients, and its tilts."""
    random = np.random.default_rng(seed)
    coefficients = np.zeros((SAMPLES, TERMS_LIMIT))
    tilts = np.zeros((SAMPLES, len(centre)))

    terms_of_samples = []

    for i, tilt in enumerate(random.choice(len(TILTS), SAMPLES, p=tilt_weights)):
        weights = np.exp(hypotheses.weights[tilt] - hypotheses.weights[tilt].max())
        chosen = int(random.choice(len(weights), p=weights / weights.sum()))
        deviation = hypotheses.roots[tilt, chosen] @ random.standard_normal(TERMS_LIMIT)
        drawn = hypotheses.solutions[tilt, chosen] + deviation
        coefficients[i] = np.maximum(drawn, 0.0)
        terms_of_samples.append(tuple(int(term) - 1 for term in hypotheses.terms[chosen][1:]))

        if TILTS[tilt]:
            slopes = hypotheses.slopes[chosen]
            identity = np.eye(len(centre))
            normal = slopes.T @ slopes / hypotheses.variance + identity / TILTS[tilt] ** 2
            covariance = np.linalg.inv(normal)
            residuals = 1.0 - hypotheses.designs[chosen] @ drawn
            mean = covariance @ slopes.T @ residuals / hypotheses.variance
            root = np.linalg.cholesky(covariance)
            tilts[i] = mean + root @ random.standard_normal(len(centre))

    return Law(
        features=hypotheses.features,
        terms=tuple(terms_of_samples),
        coefficients=coefficients,
        tilts=tilts,
        centre=centre,
    )


def _logarithms(points: FloatArray) -> FloatArray:
    logarithms: FloatArray = np.log(np.maximum(points, SMALLEST))
    return logarithms


def _log_sum(weights: FloatArray) -> FloatArray:
    """Return the logarithm of the sum of exponentials of each row."""
    largest = weights.max(axis=1)
    sums: FloatArray = largest + np.log(np.exp(weights - largest[:, None]).sum(axis=1))
    return sums


def _list_features(
    nests: Sequence[Nest], names: list[str]
) -> tuple[tuple[Feature, ...], FloatArray]:
    """Return the possible terms, and the prior weights of the constant and of each term."""
    weights: dict[Feature, float] = {}

    for nest in nests:
        choices = _factor_choices(nest, names)
        for combination in product(*choices):
            factors = tuple(factor for factor, _ in combination if factor[1] or factor[2])
            weight = float(np.prod([weight for _, weight in combination]))
            if factors:
                weights.setdefault(Feature(factors), weight)

    return tuple(weights), np.array([1.0, *weights.values()])


def _factor_choices(
    nest: Nest, names: list[str]
) -> list[list[tuple[tuple[int, float, int], float]]]:
    """List the factors that each parameter of a nest may contribute, with their prior weights."""
    n_unknown = sum(power is None for _, power in nest.factors)
    is_free = n_unknown <= FREELY_COMBINED
    powers = POWERS if is_free else SIMPLE_POWERS

    choices = []
    for name, known_power in nest.factors:
        column = names.index(name)
        if known_power is not None:
            choices.append([((column, float(known_power), 0), 1.0)])
            continue

        of_parameter = []
        for power in powers:
            for logarithm, weight in LOGARITHMS.items():
                if is_free or logarithm == 0:
                    factor = (column, float(power), logarithm)
                    of_parameter.append((factor, POWERS[power] * weight))
        choices.append(of_parameter)

    return choices


@dataclass(frozen=True, slots=True)
class _RankedHypotheses:
    """Hypotheses, the most probable first.

    Attributes:
        terms: row numbers of each hypothesis, the constant first.
        solutions: coefficients of each hypothesis, for unit rows.
        penalties: -2 log of the prior plus the BIC penalty of each hypothesis.
        probability: of a misfit at least as large as that of the closest hypothesis.
    """

    terms: list[NDArray[np.intp]]
    solutions: list[FloatArray]
    penalties: list[float]
    probability: float


def _rank_hypotheses(
    rows: FloatArray, weights: FloatArray, noise: float, n_nests: int
) -> _RankedHypotheses:
    """Fit the constant with no, each one and each two of the other rows to ones, all at once.

    This is least squares of relative errors. Hypotheses with a negative coefficient are left out.
    The criterion is chi-square plus log(runs) per coefficient plus the prior: one, two and three
    coefficients are equally probable, times the weights of the terms. If even the best fit exceeds
    the noise, the noise is raised to match it.
    """
    from scipy.special import chdtrc  # slow to load, and not needed to collect a run

    count = rows.shape[1]

    squares: list[float] = []
    penalties: list[float] = []
    terms: list[NDArray[np.intp]] = []
    solutions: list[FloatArray] = []
    freedom: list[int] = []

    for candidates in _term_groups(len(rows), count):
        n_terms, group = candidates.shape[1], candidates
        if n_terms == TERMS_LIMIT:
            group = select_contenders(rows, candidates, count=HYPOTHESES, variance=noise**2)
        solved, misfit = _solve_group(rows, group)
        allowed = np.flatnonzero(np.all(solved >= -ROUNDING, axis=1))
        order = np.argsort(np.round(misfit[allowed] / noise**2, TIE_DECIMALS), kind="stable")
        chosen = allowed[order[:HYPOTHESES]]

        log_prior = 2 * np.log(weights[group[chosen]]).sum(axis=1)
        n_extra = max(n_terms - 1 - n_nests, 0)
        penalty = n_terms * np.log(count) - log_prior - 2 * n_extra * math.log(MORE_TERMS)

        squares += list(misfit[chosen])
        penalties += list(penalty)
        freedom += [max(count - n_terms, 1)] * len(chosen)
        terms += list(group[chosen])
        solutions += list(np.maximum(solved[chosen], 0.0))

    variances = np.array(squares) / np.array(freedom)
    closest = int(np.argmin(variances))
    variance = max(float(variances[closest]), noise**2)
    probability = float(chdtrc(freedom[closest], squares[closest] / noise**2))

    criterion = np.array(squares) / variance + np.array(penalties)
    order = np.argsort(np.round(criterion, TIE_DECIMALS), kind="stable")[:HYPOTHESES]
    return _RankedHypotheses(
        terms=[terms[i] for i in order],
        solutions=[solutions[i] for i in order],
        penalties=[float(penalties[i]) for i in order],
        probability=probability,
    )


def _solve_group(rows: FloatArray, group: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
    """Fit ones by hypotheses with the same number of terms. The ridge is in additional points.

    Args:
        rows: (n_rows, n_points), of unit length.
        group: (n_hypotheses, n_terms), numbers of rows.

    Returns:
        Coefficients (n_hypotheses, n_terms) and sums of squared misfits (n_hypotheses,).
    """
    n_terms, n_points = group.shape[1], rows.shape[1]
    ridge = math.sqrt(RIDGE) * np.eye(n_terms)
    right = np.concatenate([np.ones(n_points), np.zeros(n_terms)])

    solutions = np.empty(group.shape)
    squares = np.empty(len(group))
    for start in range(0, len(group), CHUNK):
        chunk = group[start : start + CHUNK]
        ridges = np.broadcast_to(ridge, (len(chunk), n_terms, n_terms))
        columns = np.concatenate([rows[chunk], ridges], axis=2)

        fits = solve_orthogonally(columns, np.broadcast_to(right, (len(chunk), len(right))))
        solutions[start : start + CHUNK] = fits.coefficients
        squares[start : start + CHUNK] = fits.squares

    return solutions, squares


def _term_groups(n_rows: int, n_points: int) -> list[NDArray[np.intp]]:
    """Return row numbers of the hypotheses with one, two and three coefficients.

    More coefficients need more points than there are coefficients.
    """
    others = np.arange(1, n_rows)
    groups = [np.zeros((1, 1), dtype=np.intp)]

    if n_points > 2 and len(others):
        groups.append(np.stack([np.zeros_like(others), others], axis=1))
    if n_points > 3 and len(others) > 1:
        first, second = np.triu_indices(len(others), 1)
        groups.append(np.stack([np.zeros_like(first), first + 1, second + 1], axis=1))

    return groups
