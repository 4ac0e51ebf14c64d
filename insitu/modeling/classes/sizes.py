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

MOST_AXES = 3  # of a domain, as programs of physics have
MIN_RUNS = 3  # fewer cannot tell a constant from a growth
WELL = 0.02  # relative misfit of the simplest law that is taken without asking further
OBLONG = 0.35  # the same of runs whose number of ranks makes no square or cube
SIMPLER = 2.0  # by how much a criterion must be better for a domain of more axes


def size_laws(clusters: Sequence[Clusters], parameters: tuple[str, ...]) -> dict[SeriesKey, Model]:
    """The number of ranks of each behaviour class as a sum of powers of p: `4`, `4·√p − 8`.

    The parts of a domain with d axes grow with powers of p^(1/d); d is the same for all classes of
    a call path. A class that a run lacks counts as 0 there; runs whose classes could not be matched
    do not count. Coefficients are whole or half numbers where these give sizes exactly. Classes
    seen in fewer than three runs, and those of experiments in which the number of ranks is no
    parameter, have no law.
    """
    if RANKS not in parameters:
        return {}
    runs: dict[tuple[object, str], dict[tuple[float, ...], Clusters]] = defaultdict(dict)
    for one in clusters:
        runs[one.callpath, one.metric][one.run.coordinate(parameters)] = one
    known: dict[bytes, dict[str, Model]] = {}
    laws: dict[SeriesKey, Model] = {}
    for at_places in runs.values():
        classes = max((one.names for one in at_places.values()), key=len)
        places = sorted(at for at, one in at_places.items() if set(one.names) <= set(classes))
        points = np.array(places, dtype=np.float64)
        sizes = {
            name: row
            for name, row in _sizes([at_places[place] for place in places]).items()
            if np.count_nonzero(row) >= MIN_RUNS
        }
        mark = points.tobytes() + b"".join(
            name.encode() + b"|" + row.tobytes() for name, row in sizes.items()
        )
        if mark not in known:
            known[mark] = _laws(points, sizes, parameters)
        first = at_places[places[0]]
        for name, law in known[mark].items():
            laws[SeriesKey(first.callpath, first.metric, name)] = law
    return laws


def _sizes(clusters: Sequence[Clusters]) -> Mapping[str, FloatArray]:
    """Ranks per class and run, 0 where a run lacks the class."""
    sizes: dict[str, FloatArray] = {}
    for index, one in enumerate(clusters):
        counts = np.bincount(one.labels[one.labels >= 0], minlength=len(one.names))
        for name, count in zip(one.names, counts, strict=True):
            sizes.setdefault(name, np.zeros(len(clusters)))[index] += count
    return sizes


@dataclass(frozen=True, slots=True)
class _Law:
    """A sum of powers: coefficients of p^(k/d) for k = 0..d, and from which p on it holds."""

    coefficients: FloatArray
    lower: float = -np.inf
    criterion: float = np.inf


def _laws(
    points: FloatArray, sizes: Mapping[str, FloatArray], parameters: tuple[str, ...]
) -> dict[str, Model]:
    """The laws of all classes of a call path: those of the domain with the fewest axes that fits.

    First the domains whose laws are exact where p is a square or a cube, as the number of ranks of
    a domain is; then the simplest laws that fit well; then those with the best information
    criterion.
    """
    p = points[:, parameters.index(RANKS)]
    if not sizes:
        return {}
    axes = range(1, MOST_AXES + 1)
    for way in (_exact, _simplest):
        for number in axes:
            found = {name: way(p, row, number) for name, row in sizes.items()}
            if all(law is not None for law in found.values()):
                return {
                    name: _model(points, sizes[name], parameters, law)
                    for name, law in found.items()
                    if law is not None
                }
    best, lowest = {name: _likeliest(p, row, 1) for name, row in sizes.items()}, np.inf
    for number in axes:
        likely = {name: _likeliest(p, row, number) for name, row in sizes.items()}
        criterion = sum(law.criterion for law in likely.values())
        if criterion < lowest - SIMPLER:
            best, lowest = likely, criterion
    return {name: _model(points, sizes[name], parameters, law) for name, law in best.items()}


def _exact(p: FloatArray, sizes: FloatArray, axes: int) -> _Law | None:
    """The law that gives whole domains of sides of equal length exactly, and others about."""
    side = np.round(p ** (1 / axes))
    whole = (side**axes == p) & (side >= 2)
    if len(set(p[whole].tolist())) < MIN_RUNS or p[whole].max() <= np.median(p):
        return None
    for coefficients in _candidates(side[whole], sizes[whole], axes):
        law = _powers(p, axes) @ coefficients
        if not np.allclose(law[whole], sizes[whole], atol=1e-6):
            continue
        least = float(p[whole].min())
        oblong = ~whole & (p >= least)
        misfit = abs(law - sizes)[oblong] / np.maximum(np.maximum(law, sizes)[oblong], 4.0)
        if not oblong.any() or np.median(misfit) <= OBLONG:
            before = np.any(abs(law - sizes)[p < least] > 0.5)
            return _Law(coefficients, least if before else -np.inf)
    return None


def _candidates(side: FloatArray, sizes: FloatArray, axes: int) -> list[FloatArray]:
    """Coefficients of powers of the side: solved for, or thirds and halves of a domain's parts."""
    if len(set(side.tolist())) > axes + 1:
        design = np.stack([side**k for k in range(axes + 1)], axis=1)
        return [np.round(2 * np.linalg.lstsq(design, sizes, rcond=None)[0]) / 2]
    parts = []
    for touched in range(
        axes + 1
    ):  # ranks at the ends of so many axes: C(d, k) 2^k (a - 2)^(d - k)
        part = np.array([comb(axes, touched) * 2.0**touched])
        for _ in range(axes - touched):
            part = np.convolve(part, [-2.0, 1.0])
        parts.append(np.pad(part, (0, axes + 1 - len(part))))
    shares = np.array(list(product(range(axes + 1), repeat=axes + 1))) / axes
    design = np.stack([side**k for k in range(axes + 1)], axis=1)
    mixed = shares @ np.array(parts)
    fits = np.all(abs(mixed @ design.T - sizes) < 1e-6, axis=1)
    order = np.argsort(np.count_nonzero(shares[fits] % 1, axis=1), kind="stable")
    return list(mixed[fits][order])


def _simplest(p: FloatArray, sizes: FloatArray, axes: int) -> _Law | None:
    """The simplest law that fits well, if need be only from some number of ranks on.

    The smallest domains are degenerate: two ranks have no four corners.
    """
    for first in sorted(set(p.tolist()))[: 1 - MIN_RUNS]:
        held = p >= first
        for used in _subsets(axes):
            coefficients, misfit = _fit(p[held], sizes[held], axes, used)
            spare = 1 if held.all() else 2  # runs more than coefficients; the last few may mislead
            if len(misfit) >= len(used) + spare and np.max(abs(misfit)) <= WELL:
                return _Law(coefficients, -np.inf if held.all() else first)
    return None


def _likeliest(p: FloatArray, sizes: FloatArray, axes: int) -> _Law:
    """The law with the best information criterion."""
    best = _Law(np.array([sizes.mean(), *[0.0] * axes]))
    for used in _subsets(axes):
        coefficients, misfit = _fit(p, sizes, axes, used)
        criterion = len(p) * np.log(misfit @ misfit + 1e-4) + len(used) * np.log(len(p))
        if criterion < best.criterion and len(p) >= 2 * len(used):
            best = _Law(coefficients, criterion=float(criterion))
    return best


def _subsets(axes: int) -> list[tuple[int, ...]]:
    """Powers used beside the constant, few before many: (0,), (0, 1), …, (0, 1, 2)."""
    powers = range(1, axes + 1)
    return [(0, *some) for count in range(axes + 1) for some in combinations(powers, count)]


def _powers(p: FloatArray, axes: int) -> FloatArray:
    """(n_runs, axes + 1)"""
    return np.stack([p ** (k / axes) for k in range(axes + 1)], axis=1)


def _fit(
    p: FloatArray, sizes: FloatArray, axes: int, used: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Coefficients of all powers, and the relative misfit of each run."""
    weight = 1 / np.maximum(sizes, 1.0)
    design = _powers(p, axes)
    part = design[:, used] * weight[:, None]
    coefficients = np.zeros(axes + 1)
    coefficients[list(used)] = np.linalg.lstsq(part, sizes * weight, rcond=None)[0]
    halves = np.round(2 * coefficients) / 2
    if np.all(abs(design @ halves - sizes) < 1e-6):
        coefficients = halves
    return coefficients, (design @ coefficients - sizes) * weight


def _model(points: FloatArray, sizes: FloatArray, parameters: tuple[str, ...], law: _Law) -> Model:
    """A law as a model of one segment."""
    axes = len(law.coefficients) - 1
    terms = tuple(
        Term(float(coefficient), (Factor(RANKS, Fraction(power, axes)),))
        for power, coefficient in enumerate(law.coefficients)
        if power and coefficient
    )
    function = Function(parameters, float(law.coefficients[0]), terms)
    held = points[:, parameters.index(RANKS)] >= law.lower
    return Model(
        parameters=parameters,
        segments=(Segment(law.lower, np.inf, function),),
        quality=quality(sizes[held], function(points[held]), coefficients=len(terms) + 1),
        modeler="sizes",
        coordinates=points,
        values=sizes,
    )
