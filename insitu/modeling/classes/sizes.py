"""Size laws: how many ranks a behaviour class has, as a function of the number of ranks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np

from insitu.entities import RANKS
from insitu.modeling.base import Clusters, Model, Segment
from insitu.modeling.measurement import FloatArray, SeriesKey
from insitu.modeling.pmnf import Factor, Function, Term
from insitu.modeling.quality import quality

MAX_AXES = 3  # of a domain, as in programs of physics
MIN_RUNS = 3  # fewer cannot tell a constant from growth
WELL = 0.02  # relative misfit up to which the simplest law is taken
OBLONG = 0.35  # the same of runs whose number of ranks is no square or cube
MAX_SUM_MISFIT = 1e-6  # relative, of the sum of all sizes to p: rounding of least squares
DOUBLINGS_CHECKED = 20  # of the largest p, in which no size may be negative
SIMPLER = 2.0  # by how much the criterion of a domain with more axes must be better


def size_laws(clusters: Sequence[Clusters], parameters: tuple[str, ...]) -> dict[SeriesKey, Model]:
    """The number of ranks of each behaviour class as a sum of powers of p: `4`, `4·√p − 8`.

    The classes of a domain with d axes grow with powers of p^(1/d); d is the same for all classes
    of a call path. A class that a run lacks counts as 0 there; runs whose classes could not be
    matched are left out. Coefficients are whole or half numbers if these give the sizes exactly.

    Args:
        clusters: of all call paths.
        parameters: of the experiment.

    Returns:
        A model per class. There is none for classes in fewer than three runs, for call paths whose
        laws do not add up to p, and for experiments in which the number of ranks is no parameter.
    """
    if RANKS not in parameters:
        return {}

    by_series: dict[tuple[object, str], dict[tuple[float, ...], Clusters]] = defaultdict(dict)
    for run_clusters in clusters:
        coordinate = run_clusters.run.coordinate(parameters)
        by_series[run_clusters.callpath, run_clusters.metric][coordinate] = run_clusters

    # Many call paths share the arrays of their labels, and more have classes of the same sizes.
    by_labels: dict[tuple[object, ...], dict[str, Model]] = {}
    by_sizes: dict[bytes, dict[str, Model]] = {}
    laws: dict[SeriesKey, Model] = {}
    for by_coordinate in by_series.values():
        content: list[object] = []
        for coordinate, entry in by_coordinate.items():
            content += (coordinate, id(entry.labels), entry.names)
        labels_key = tuple(content)
        if labels_key not in by_labels:
            by_labels[labels_key] = _find_laws(by_coordinate, parameters, by_sizes)

        first = next(iter(by_coordinate.values()))
        for name, law in by_labels[labels_key].items():
            laws[SeriesKey(first.callpath, first.metric, name)] = law
    return laws


def _find_laws(
    by_coordinate: Mapping[tuple[float, ...], Clusters],
    parameters: tuple[str, ...],
    known: dict[bytes, dict[str, Model]],
) -> dict[str, Model]:
    """The laws of the classes of a call path.

    Args:
        by_coordinate: its classes.
        parameters: of the experiment.
        known: laws of other call paths by the sizes of their classes; new ones are added.
    """
    coordinates = _matched_coordinates(by_coordinate)
    points = np.array(coordinates, dtype=np.float64)
    sizes = {}
    for name, row in _class_sizes([by_coordinate[at] for at in coordinates]).items():
        if np.count_nonzero(row) >= MIN_RUNS:
            sizes[name] = row

    key = points.tobytes()
    for name, row in sizes.items():
        key += name.encode() + b"|" + row.tobytes()
    if key not in known:
        known[key] = _fit_laws(points, sizes, parameters)
    return known[key]


def _matched_coordinates(
    by_coordinate: Mapping[tuple[float, ...], Clusters],
) -> list[tuple[float, ...]]:
    """The coordinates whose classes are among those of the run with most classes, ascending."""
    classes = max((run_clusters.names for run_clusters in by_coordinate.values()), key=len)

    matched = []
    for coordinate, run_clusters in by_coordinate.items():
        if set(run_clusters.names) <= set(classes):
            matched.append(coordinate)
    return sorted(matched)


def _class_sizes(clusters: Sequence[Clusters]) -> Mapping[str, FloatArray]:
    """Ranks of each class: (n_runs,), 0 where a run lacks the class."""
    sizes: dict[str, FloatArray] = {}
    for index, run_clusters in enumerate(clusters):
        labels = run_clusters.labels
        counts = np.bincount(labels[labels >= 0], minlength=len(run_clusters.names))
        for name, count in zip(run_clusters.names, counts, strict=True):
            sizes.setdefault(name, np.zeros(len(clusters)))[index] += count
    return sizes


@dataclass(frozen=True, slots=True)
class _SizeLaw:
    """A sum of powers: coefficients of p^(k/d) for k = 0..d, and from which p on it holds."""

    coefficients: FloatArray
    lower: float = -np.inf
    criterion: float = np.inf


def _fit_laws(
    points: FloatArray, sizes: Mapping[str, FloatArray], parameters: tuple[str, ...]
) -> dict[str, Model]:
    """The laws of all classes of a call path, for the domain with the fewest axes that fits.

    Domains come first whose laws are exact where p is a square or a cube, as the number of ranks of
    a domain is; then the simplest laws that fit well; then those with the best information
    criterion.

    Args:
        points: (n_runs, n_parameters).
        sizes: per class (n_runs,).
        parameters: of the experiment.
    """
    if not sizes:
        return {}

    p = points[:, parameters.index(RANKS)]
    laws = _first_laws(p, sizes)
    if laws is None:
        laws = _likeliest_laws(p, sizes)
    if not _adds_up(p, laws):
        return {}
    return {name: _to_model(points, sizes[name], parameters, law) for name, law in laws.items()}


def _adds_up(p: FloatArray, laws: Mapping[str, _SizeLaw]) -> bool:
    """Whether the sizes of all classes are the number of ranks, and none is negative."""
    axes = len(next(iter(laws.values())).coefficients) - 1
    coefficients = np.array([law.coefficients for law in laws.values()])
    all_ranks = np.zeros(axes + 1)
    all_ranks[axes] = 1.0
    if np.any(abs(coefficients.sum(axis=0) - all_ranks) > MAX_SUM_MISFIT):
        return False

    for law in laws.values():
        beyond = np.append(p[p >= law.lower], p.max() * 2.0 ** np.arange(1, DOUBLINGS_CHECKED))
        if np.any(_powers(beyond, axes) @ law.coefficients < -MAX_SUM_MISFIT * beyond):
            return False
    return True


def _first_laws(p: FloatArray, sizes: Mapping[str, FloatArray]) -> dict[str, _SizeLaw] | None:
    """The first kind of law, and the fewest axes, that fit every class; None if nothing does."""
    for fit in (_fit_exact, _fit_simplest):
        for axes in range(1, MAX_AXES + 1):
            laws = {}
            for name, row in sizes.items():
                law = fit(p, row, axes)
                if law is not None:
                    laws[name] = law
            if len(laws) == len(sizes):
                return laws
    return None


def _likeliest_laws(p: FloatArray, sizes: Mapping[str, FloatArray]) -> dict[str, _SizeLaw]:
    """The laws with the best information criterion; more axes must be better by SIMPLER."""
    best, lowest = {name: _fit_likeliest(p, row, 1) for name, row in sizes.items()}, np.inf
    for axes in range(1, MAX_AXES + 1):
        laws = {name: _fit_likeliest(p, row, axes) for name, row in sizes.items()}
        criterion = sum(law.criterion for law in laws.values())
        if criterion < lowest - SIMPLER:
            best, lowest = laws, criterion
    return best


def _fit_exact(p: FloatArray, sizes: FloatArray, axes: int) -> _SizeLaw | None:
    """The law that is exact for domains with sides of equal length, and fits others roughly."""
    side = np.round(p ** (1 / axes))
    is_cube = (side**axes == p) & (side >= 2)
    if len(set(p[is_cube].tolist())) < MIN_RUNS or p[is_cube].max() <= np.median(p):
        return None

    for coefficients in _exact_coefficients(side[is_cube], sizes[is_cube], axes):
        law = _powers(p, axes) @ coefficients
        if not np.allclose(law[is_cube], sizes[is_cube], atol=1e-6):
            continue

        smallest = float(p[is_cube].min())
        is_oblong = ~is_cube & (p >= smallest)
        scale = np.maximum(np.maximum(law, sizes)[is_oblong], 4.0)
        misfit = abs(law - sizes)[is_oblong] / scale
        if not is_oblong.any() or np.median(misfit) <= OBLONG:
            # Domains smaller than the smallest cube may be degenerate.
            fails_below = np.any(abs(law - sizes)[p < smallest] > 0.5)
            return _SizeLaw(coefficients, smallest if fails_below else -np.inf)
    return None


def _exact_coefficients(side: FloatArray, sizes: FloatArray, axes: int) -> list[FloatArray]:
    """Coefficients of powers of the side that may give these sizes.

    With enough sides they are solved for. Otherwise a class consists of halves or thirds of the
    ranks with 0, 1, … axes at whose ends they are: C(d, k) · 2^k · (side - 2)^(d - k) ranks for k
    of d axes. Or it is some of the corners, edges or faces of the domain: one of four corners.
    """
    design = np.stack([side**k for k in range(axes + 1)], axis=1)
    if len(set(side.tolist())) > axes + 1:
        return [np.round(2 * np.linalg.lstsq(design, sizes, rcond=None)[0]) / 2]

    polynomials = []  # in the side, one per number of axes
    for touched in range(axes + 1):
        polynomial = np.array([comb(axes, touched) * 2.0**touched])
        for _ in range(axes - touched):
            polynomial = np.convolve(polynomial, [-2.0, 1.0])
        polynomials.append(np.pad(polynomial, (0, axes + 1 - len(polynomial))))

    mixed_shares = np.array(list(product(range(axes + 1), repeat=axes + 1))) / axes
    shares = np.concatenate([mixed_shares, _boundary_shares(axes)])
    mixtures = shares @ np.array(polynomials)
    is_exact = np.all(abs(mixtures @ design.T - sizes) < 1e-6, axis=1)

    # Whole polynomials are more plausible than fractions of them.
    n_fractions = np.count_nonzero(shares[is_exact] % 1, axis=1)
    return list(mixtures[is_exact][np.argsort(n_fractions, kind="stable")])


def _boundary_shares(axes: int) -> FloatArray:
    """One, two, … of the parts of a boundary, of one kind: (n, axes + 1), as shares of each kind.

    A domain has C(d, k) · 2^k parts where ranks are at the ends of k of d axes.
    """
    shares = []
    for touched in range(1, axes + 1):
        n_parts = comb(axes, touched) * 2**touched
        for count in range(1, n_parts):
            row = np.zeros(axes + 1)
            row[touched] = count / n_parts
            shares.append(row)
    return np.array(shares)


def _fit_simplest(p: FloatArray, sizes: FloatArray, axes: int) -> _SizeLaw | None:
    """The simplest law that fits well, if necessary only from some number of ranks on.

    The smallest domains are degenerate: two ranks have no four corners.
    """
    for first in sorted(set(p.tolist()))[: 1 - MIN_RUNS]:
        is_used = p >= first
        for powers in _power_subsets(axes):
            coefficients, misfit = _fit_powers(p[is_used], sizes[is_used], axes, powers)
            # A law of the last few runs only must explain one run more: they may mislead.
            spare_runs = 1 if is_used.all() else 2
            has_enough = len(misfit) >= len(powers) + spare_runs
            if has_enough and np.max(abs(misfit)) <= WELL:
                return _SizeLaw(coefficients, -np.inf if is_used.all() else first)
    return None


def _fit_likeliest(p: FloatArray, sizes: FloatArray, axes: int) -> _SizeLaw:
    """The law with the best Bayesian information criterion."""
    best = _SizeLaw(np.array([sizes.mean(), *[0.0] * axes]))
    for powers in _power_subsets(axes):
        coefficients, misfit = _fit_powers(p, sizes, axes, powers)
        # The constant keeps the criterion of laws without any misfit finite.
        criterion = len(p) * np.log(misfit @ misfit + 1e-4) + len(powers) * np.log(len(p))
        if criterion < best.criterion and len(p) >= 2 * len(powers):
            best = _SizeLaw(coefficients, criterion=float(criterion))
    return best


def _power_subsets(axes: int) -> list[tuple[int, ...]]:
    """The constant and other powers, few before many: (0,), (0, 1), …, (0, 1, 2)."""
    subsets = []
    for count in range(axes + 1):
        for powers in combinations(range(1, axes + 1), count):
            subsets.append((0, *powers))
    return subsets


def _powers(p: FloatArray, axes: int) -> FloatArray:
    """All powers p^(k/d): (n_runs, axes + 1)."""
    return np.stack([p ** (k / axes) for k in range(axes + 1)], axis=1)


def _fit_powers(
    p: FloatArray, sizes: FloatArray, axes: int, powers: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Coefficients of all powers, 0 for those not used, and the relative misfit of each run."""
    weight = 1 / np.maximum(sizes, 1.0)
    design = _powers(p, axes)
    coefficients = np.zeros(axes + 1)
    weighted = design[:, powers] * weight[:, None]
    coefficients[list(powers)] = np.linalg.lstsq(weighted, sizes * weight, rcond=None)[0]

    halves = np.round(2 * coefficients) / 2
    if np.all(abs(design @ halves - sizes) < 1e-6):
        coefficients = halves
    return coefficients, (design @ coefficients - sizes) * weight


def _to_model(
    points: FloatArray, sizes: FloatArray, parameters: tuple[str, ...], law: _SizeLaw
) -> Model:
    """A law as a model of one segment."""
    axes = len(law.coefficients) - 1
    terms = []
    for power, coefficient in enumerate(law.coefficients):
        if power and coefficient:
            terms.append(Term(float(coefficient), (Factor(RANKS, Fraction(power, axes)),)))

    function = Function(parameters, float(law.coefficients[0]), tuple(terms))
    is_valid = points[:, parameters.index(RANKS)] >= law.lower
    return Model(
        parameters=parameters,
        segments=(Segment(law.lower, np.inf, function),),
        quality=quality(sizes[is_valid], function(points[is_valid]), coefficients=len(terms) + 1),
        modeler="sizes",
        coordinates=points,
        values=sizes,
    )
